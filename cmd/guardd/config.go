package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/guardd/guardd/aggregate/kafkabus"
	"github.com/guardd/guardd/aggregate/soc/sink"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/redisstore"
)

// config is everything that an operator can say, in the file's shape and
// order. Each layer (defaults, file, environment, flags) is laid over the one
// before it; check judges the result.
type config struct {
	Listen      string `yaml:"listen"`
	AdminListen string `yaml:"admin_listen"`
	AdminOpen   bool   `yaml:"admin_open"`

	ChallengeListen string `yaml:"challenge_listen"`
	PublicURL       string `yaml:"public_url"`

	Redis         string   `yaml:"redis"`
	RedisDeadline duration `yaml:"redis_deadline"`
	Instances     int      `yaml:"instances"`
	MemoryEntries int      `yaml:"memory_entries"`

	SecretFile string   `yaml:"secret_file"`
	APIKeys    []apiKey `yaml:"api_keys"`

	Shadow      bool      `yaml:"shadow"`
	Drain       duration  `yaml:"drain"`
	DrainNotice duration  `yaml:"drain_notice"`
	Log         logConfig `yaml:"log"`

	NativeHistograms bool          `yaml:"native_histograms"`
	Tracing          tracingConfig `yaml:"tracing"`

	Breached breachedConfig `yaml:"breached"`

	Kafka  kafkaConfig  `yaml:"kafka"`
	Events eventsConfig `yaml:"events"`

	Aggregate bool          `yaml:"aggregate"`
	Detection detectionMode `yaml:"detection"`
	// ASNFile is of who announces which address; none: nobody knows.
	ASNFile string        `yaml:"asn_file"`
	Recents recentsConfig `yaml:"recents"`

	SOC socConfig `yaml:"soc"`

	Policy string                       `yaml:"policy"`
	Realms map[string]*escalation.Realm `yaml:"realms"`

	Limits         string `yaml:"limits"`
	LimitsEvidence int    `yaml:"limits_evidence"`
	LimitsDB       string `yaml:"limits_db"`
	Region         string `yaml:"region"`

	// book is the plan limits of the file that Limits names, compiled; without one,
	// where there is LimitsDB, plans.Unknown.
	book *plans.Book
	// policy is Realms, or the file that Policy names, checked and complete.
	policy *escalation.Policy
	// secrets are those of SecretFile; nil where there is none.
	secrets *escalation.Secrets
	// kafka is Kafka, with its files read; nil where there are no brokers.
	kafka *kafkabus.Config
	// sinks are those of SOC, with their files read.
	sinks []sink.Config
	// reach is by realm of policy.
	reach map[string]reach
	// warnings are for the log: nothing that keeps guardd from running.
	warnings []string
}

// apiKey lets one service use /v1.
type apiKey struct {
	Name   string       `yaml:"name"`
	SHA256 plans.Digest `yaml:"sha256"`
	Realms []string     `yaml:"realms"`
	Admin  api.Role     `yaml:"admin"`
}

type logConfig struct {
	Level  logLevel  `yaml:"level"`
	Format logFormat `yaml:"format"`
}

func defaults() *config {
	return &config{
		Listen:         "127.0.0.1:8080",
		AdminListen:    "127.0.0.1:8081",
		RedisDeadline:  duration(5 * time.Millisecond),
		MemoryEntries:  keys.DefaultBuckets,
		LimitsEvidence: 64,
		Drain:          duration(10 * time.Second),
		Log:            logConfig{Level: logLevel(slog.LevelInfo), Format: "auto"},
		Tracing:        defaultTracing(),
		Breached:       defaultBreached(),
		Kafka:          defaultKafka(),
		Events:         defaultEvents(),
		Aggregate:      true,
		Detection:      detectionOn,
		Recents:        defaultRecents(),
	}
}

// load lays file, environment and flags over the defaults and checks the
// whole. The error lists every fault, or says which file cannot be read.
func load(fl *flags) (*config, error) {
	c := defaults()
	var bad faults
	if err := c.readFile(fl.config, &bad); err != nil {
		return nil, err
	}
	fl.lay(c, &bad)
	c.loadPolicy(fl.config, &bad)
	c.loadSecrets(&bad)
	c.loadLimits(&bad)
	c.check(&bad)
	return c, bad.err()
}

// readFile lays a configuration file over c; "" is none.
func (c *config) readFile(file string, bad *faults) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	*bad = append(*bad, decode(f, file, c)...)
	c.SecretFile = beside(file, c.SecretFile)
	c.Policy = beside(file, c.Policy)
	c.Limits = beside(file, c.Limits)
	c.ASNFile = beside(file, c.ASNFile)
	if prefix, path, ok := plandb.IsFile(c.LimitsDB); ok {
		c.LimitsDB = prefix + beside(file, path)
	}
	for i, f := range c.Breached.Files {
		c.Breached.Files[i] = beside(file, f)
	}
	c.Kafka.beside(file)
	c.Events.SpoolDir = beside(file, c.Events.SpoolDir)
	c.SOC.beside(file)
	if c.Policy != "" && c.Realms != nil {
		bad.add("policy", "names a file, but realms are given here too")
	}
	return nil
}

// beside makes a path that a file gives relative to that file: where guardd is
// started from must not decide which secret it uses.
func beside(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// loadPolicy completes c.policy from the file that Policy names, else from
// Realms, else the default policy, and reads the peppers it names.
func (c *config) loadPolicy(file string, bad *faults) {
	p := c.choosePolicy(bad)
	if p == nil {
		return
	}
	if c.Policy != "" {
		file = c.Policy
	}
	c.readPeppers(file, p, bad)
	validatePolicy(p, bad)
	c.loadReach(file, p, bad)
	c.policy = p
}

// readPeppers reads those that a policy of the file names.
func (c *config) readPeppers(file string, p *escalation.Policy, bad *faults) {
	for _, name := range slices.Sorted(maps.Keys(p.Realms)) {
		r := p.Realms[name]
		if r == nil || r.PepperFile == "" {
			continue
		}
		pepper, err := c.readSecretFile(beside(file, r.PepperFile))
		if err == nil && len(pepper) != 1 {
			err = fmt.Errorf("must hold one line, not %d", len(pepper))
		}
		if err != nil {
			bad.add("realms."+name+".pepper_file", "%v", err)
			continue
		}
		r.Pepper = pepper[0]
	}
}

// choosePolicy returns the policy that c gives, names, or leaves at its
// default, unchecked; nil when its file cannot be read.
func (c *config) choosePolicy(bad *faults) *escalation.Policy {
	switch {
	case c.Policy != "":
		return c.readPolicy(bad)
	case c.Realms == nil:
		return escalation.DefaultPolicy()
	}
	return &escalation.Policy{Realms: c.Realms}
}

// validatePolicy completes p, and adds its faults to the others.
func validatePolicy(p *escalation.Policy, bad *faults) { addPolicyFaults(p.Validate(), bad) }

func addPolicyFaults(err error, bad *faults) {
	var many escalation.Faults
	switch {
	case errors.As(err, &many):
		for _, f := range many {
			bad.add(f.Field, "%s", f.Reason)
		}
	case err != nil:
		bad.add("realms", "%v", err)
	}
}

func (c *config) readPolicy(bad *faults) *escalation.Policy {
	f, err := os.Open(c.Policy)
	if err != nil {
		bad.add("policy", "%v", err)
		return nil
	}
	defer f.Close()
	p := &escalation.Policy{}
	wrong := decode(f, c.Policy, p)
	*bad = append(*bad, wrong...)
	if p.Realms == nil {
		if len(wrong) == 0 {
			bad.add("realms", "missing in %s", c.Policy)
		}
		return nil
	}
	return p
}

// loadSecrets reads the secret file, has its lines judged, and whether the
// policy goes with them: as soon as there are two, each realm needs a pepper.
func (c *config) loadSecrets(bad *faults) {
	if c.SecretFile == "" {
		return
	}
	lines, err := c.readSecretFile(c.SecretFile)
	if err != nil {
		bad.add("secret_file", "%v", err)
		return
	}
	secrets, err := escalation.NewSecrets(lines)
	if err != nil {
		bad.add("secret_file", "%v", err)
		return
	}
	c.secrets = secrets
	if len(*bad) > 0 {
		return
	}
	var never struct { // this guard is never asked
		keys.Store
		keys.Records
	}
	_, err = escalation.New(escalation.Config{Store: never, Records: never, Policy: c.policy, Secrets: secrets})
	addPolicyFaults(err, bad)
}

// differs names the keys, beside those of what a reload swaps, whose value is another in b.
func (c *config) differs(b *config) (names []string) {
	x, y := reflect.ValueOf(c).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		name := x.Type().Field(i).Tag.Get("yaml")
		if name == "" || name == "realms" || name == "policy" || name == "limits" {
			continue
		}
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, name)
		}
	}
	if !slices.Contains(names, "secret_file") && !c.secrets.Equal(b.secrets) {
		names = append(names, "secret_file") // the same file, other lines
	}
	return names
}

func (c *config) check(bad *faults) {
	c.checkListeners(bad)
	c.checkPublicURL(bad)
	c.checkKeys(bad)
	c.checkLimitsDB(bad)
	if c.Region != "" {
		if err := plans.CheckRegion(c.Region); err != nil {
			bad.add("region", "%v", err)
		}
	}
	c.checkKafka(bad)
	c.checkEvents(bad)
	c.checkSOC(bad)
	c.Tracing.check(bad)
	c.Recents.check(bad)
	c.Breached.check(bad)
	if c.ASNFile != "" {
		if _, err := os.Stat(c.ASNFile); err != nil {
			bad.add("asn_file", "%v", err)
		}
	}
	if c.Redis != "" {
		if client, err := redisstore.Open(c.Redis, time.Second); err != nil {
			bad.add("redis", "%v", err)
		} else {
			client.Close()
		}
		if c.SecretFile == "" {
			bad.add("secret_file", "needed with redis: instances that share one count must open each other's tokens")
		}
	}
	if c.RedisDeadline < duration(100*time.Microsecond) || c.RedisDeadline > duration(10*time.Second) {
		bad.add("redis_deadline", "must be from 100us to 10s, not %s", c.RedisDeadline)
	}
	if c.Instances < 0 || c.Instances > keys.MaxInstances {
		bad.add("instances", "must be from 1 to %d, or 0 to have them counted, not %d", keys.MaxInstances, c.Instances)
	}
	if c.MemoryEntries < leastEntries || c.MemoryEntries > mostEntries {
		bad.add("memory_entries", "must be from %d to %d, not %d", leastEntries, mostEntries, c.MemoryEntries)
	}
	if c.LimitsEvidence < 0 || c.LimitsEvidence > mostEvidence {
		bad.add("limits_evidence", "must be from 0 to %d MiB, not %d", mostEvidence, c.LimitsEvidence)
	}
	checkDrain("drain", c.Drain, bad)
	checkDrain("drain_notice", c.DrainNotice, bad)
}

// The bounds of memory_entries: some of each kind of mark in each part of the
// memory, and what a machine might have (40 GB).
const (
	leastEntries = 1 << 12
	mostEntries  = 1 << 26
)

func checkDrain(name string, d duration, bad *faults) {
	if d < 0 || d > duration(10*time.Minute) {
		bad.add(name, "must be from 0s to 10m, not %s", d)
	}
}

// checkListeners holds the rule that whoever can reach guardd without a key
// sits on the same machine.
func (c *config) checkListeners(bad *faults) {
	at := func(name, addr string) (loopback bool) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			bad.add(name, "%q is not host:port", addr)
			return true
		}
		if _, err := net.LookupPort("tcp", port); err != nil {
			bad.add(name, "%q has no such port", addr)
		}
		ip, err := netip.ParseAddr(host)
		return host == "localhost" || err == nil && ip.IsLoopback()
	}
	if !at("listen", c.Listen) && len(c.APIKeys) == 0 {
		bad.add("listen", "%s is not a loopback address: api_keys are needed", c.Listen)
	}
	if c.ChallengeListen != "" {
		at("challenge_listen", c.ChallengeListen) // browsers have no key
	}
	if !at("admin_listen", c.AdminListen) && !c.AdminOpen {
		bad.add("admin_listen", "%s is not a loopback address: needs admin_open: true (whoever reaches it can read the metrics)", c.AdminListen)
	}
}

func (c *config) checkKeys(bad *faults) {
	names, sums := map[string]bool{}, map[plans.Digest]bool{}
	for i, k := range c.APIKeys {
		at := fmt.Sprintf("api_keys[%d]", i)
		switch {
		case k.Name == "":
			bad.add(at+".name", "missing")
		case names[k.Name]:
			bad.add(at+".name", "%q is used twice", k.Name)
		}
		switch {
		case k.SHA256 == (plans.Digest{}):
			bad.add(at+".sha256", "missing")
		case k.SHA256 == plans.Digest(sha256.Sum256(nil)):
			bad.add(at+".sha256", "is that of the empty key")
		case sums[k.SHA256]:
			bad.add(at+".sha256", "is used twice")
		}
		names[k.Name], sums[k.SHA256] = true, true
		for j, r := range k.Realms {
			if c.policy != nil && c.policy.Realms[r] == nil {
				bad.add(fmt.Sprintf("%s.realms[%d]", at, j), "no realm %q", r)
			}
		}
	}
}

// duration is a time.Duration in text form.
type duration time.Duration

// UnmarshalText reads "5ms", "1h30m" and the like.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration such as 5ms or 10s, not %q", text)
	}
	*d = duration(v)
	return nil
}

// String is the Duration's.
func (d duration) String() string { return time.Duration(d).String() }

// logLevel is the least level that is logged.
type logLevel slog.Level

// UnmarshalText reads one of four words.
func (l *logLevel) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "debug", "info", "warn", "error":
		return (*slog.Level)(l).UnmarshalText(text)
	default:
		return fmt.Errorf("must be debug, info, warn or error, not %q", s)
	}
}

// Level makes it a slog.Leveler.
func (l logLevel) Level() slog.Level { return slog.Level(l) }

// logFormat is auto, text or json.
type logFormat string

// UnmarshalText refuses any other word.
func (l *logFormat) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "auto", "text", "json":
		*l = logFormat(s)
		return nil
	}
	return errors.New("must be auto, text or json")
}
