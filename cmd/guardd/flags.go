package main

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// settings are the keys of the configuration file that are flags and
// environment variables too: --redis-deadline, GUARDD_REDIS_DEADLINE,
// redis_deadline. Tables (api_keys, realms) live in files only.
var settings = []struct {
	flag  string
	usage string
	field func(*config) any
}{
	{"listen", "`address` of /v1, for services", func(c *config) any { return &c.Listen }},
	{"admin-listen", "`address` of /admin/v1, /metrics, /healthz, /readyz and pprof", func(c *config) any { return &c.AdminListen }},
	{"admin-open", "let admin-listen be more than loopback (then without pprof, and /admin/v1 with keys only)", func(c *config) any { return &c.AdminOpen }},
	{"challenge-listen", "`address` of /challenges, for browsers; none: that of /v1", func(c *config) any { return &c.ChallengeListen }},
	{"public-url", "`URL` by which browsers reach /challenges", func(c *config) any { return &c.PublicURL }},
	{"redis", "`URL` of the store that all instances share; none: this process alone", func(c *config) any { return &c.Redis }},
	{"redis-deadline", "`time` after which an answer is given without the store", func(c *config) any { return &c.RedisDeadline }},
	{"instances", "`number` of guardd processes that share the store; 0: as many as send heartbeats there", func(c *config) any { return &c.Instances }},
	{"memory-entries", "`number` of buckets, and of marks, kept in memory: up to 600 bytes each", func(c *config) any { return &c.MemoryEntries }},
	{"secret-file", "`file` of sealing secrets, one a line: the first seals, all open", func(c *config) any { return &c.SecretFile }},
	{"shadow", "answer allow to everything, and say what would have been", func(c *config) any { return &c.Shadow }},
	{"drain", "`time` that requests have to finish when told to stop", func(c *config) any { return &c.Drain }},
	{"drain-notice", "`time` to go on answering after /readyz has turned to 503", func(c *config) any { return &c.DrainNotice }},
	{"log-level", "debug, info, warn or error", func(c *config) any { return &c.Log.Level }},
	{"log-format", "text, json or auto (text on a terminal)", func(c *config) any { return &c.Log.Format }},
	{"native-histograms", "offer native histograms beside classic ones", func(c *config) any { return &c.NativeHistograms }},
	{"tracing", "`URL` of an OpenTelemetry collector that takes traces of requests, as http://127.0.0.1:4318; none: nobody does", func(c *config) any { return &c.Tracing.OTLP }},
	{"breached", "`files` of leaked passwords, as guardd breached build makes them, at most one of each kind", func(c *config) any { return (*fileList)(&c.Breached.Files) }},
	{"kafka", "`brokers` that carry events, as host:port,host:port; none: events stay in this process", func(c *config) any { return (*brokerList)(&c.Kafka.Brokers) }},
	{"aggregate", "read the events of all logins and learn from them; false: this instance does not", func(c *config) any { return &c.Aggregate }},
	{"detection", "look for attacks in all logins together: on, dry-run (say what is found and do nothing) or off", func(c *config) any { return &c.Detection }},
	{"asn-file", "`file` of addresses' providers in MaxMind's format (GeoLite2-ASN and the like)", func(c *config) any { return &c.ASNFile }},
	{"soc", "`sinks` that are told what is found: topic:NAME, file:PATH, syslog+tls://HOST:PORT, https://..., alertmanager+https://..., each with #format=cef&min_severity=high and the like, with commas between", func(c *config) any { return (*socList)(&c.SOC.Sinks) }},
	{"limits", "`file` of plan limits: rules, plans and keys of a general API", func(c *config) any { return &c.Limits }},
	{"limits-evidence", "`MiB` in all of why plan limits refused, and what they let through, for 6 hours; 0: none", func(c *config) any { return &c.LimitsEvidence }},
	{"limits-db", "`database` of plan limits that guardd limits changes: postgres://..., or an SQLite file, as sqlite:limits.db", func(c *config) any { return &c.LimitsDB }},
	{"region", "`name` of the region that this instance is in, for plan limits that have shares by region", func(c *config) any { return &c.Region }},
	{"policy", "`file` with the realms: part alone", func(c *config) any { return &c.Policy }},
}

// flags is what the command line and the environment said, unjudged.
type flags struct {
	config string
	given  map[string]said // by settings.flag
}

// said is a value and where it was said.
type said struct{ where, value string }

// env is os.LookupEnv, or a test's.
type env func(string) (string, bool)

// parseFlags reads the arguments of serve or policy check; errors are those of
// commandLine. An environment variable set to nothing counts as not set.
func parseFlags(name, help string, args []string, getenv env, out, errOut io.Writer) (fl *flags, rest []string, err error) {
	fl = &flags{given: map[string]said{}}
	for _, s := range settings {
		if v, _ := getenv(envName(s.flag)); v != "" {
			fl.given[s.flag] = said{envName(s.flag), v}
		}
	}
	fl.config, _ = getenv(envName("config"))

	fs := newCommandLine(name, help+"Each flag is also an environment variable (--redis-deadline, GUARDD_REDIS_DEADLINE).\n\n", out, errOut)
	fs.StringVar(&fl.config, "config", fl.config, "configuration `file` (guardd config example prints one)")
	standard := defaults()
	for _, s := range settings {
		usage := s.usage + shownDefault(s.field(standard))
		set := func(v string) error {
			where := "--" + s.flag
			if _, many := s.field(&config{}).(*fileList); many && fl.given[s.flag].where == where {
				v = fl.given[s.flag].value + "," + v // given again
			}
			fl.given[s.flag] = said{where, v}
			return nil
		}
		if _, isBool := s.field(&config{}).(*bool); isBool {
			fs.BoolFunc(s.flag, usage, set)
		} else {
			fs.Func(s.flag, usage, set)
		}
	}
	rest, err = fs.parse(args)
	return fl, rest, err
}

// shownDefault is how the help shows a default; "" where there is none.
func shownDefault(field any) string {
	switch f := field.(type) {
	case *string:
		if *f == "" {
			return ""
		}
		return fmt.Sprintf(" (default %s)", *f)
	case *bool, *fileList, *socList:
		return "" // all are off
	case *logLevel:
		return " (default " + strings.ToLower(f.Level().String()) + ")"
	default:
		return fmt.Sprintf(" (default %v)", reflect.ValueOf(field).Elem())
	}
}

func envName(flag string) string {
	return "GUARDD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// lay sets what was said on c.
func (fl *flags) lay(c *config, bad *faults) {
	for _, s := range settings {
		v, ok := fl.given[s.flag]
		if !ok {
			continue
		}
		if err := assign(s.field(c), v.value); err != nil {
			bad.add(v.where, "%v", err)
		}
	}
}

// assign leaves the field as it is when the value cannot be read.
func assign(field any, value string) error {
	switch f := field.(type) {
	case *string:
		*f = value
	case *bool:
		v, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("must be true or false, not %q", value)
		}
		*f = v
	case *int:
		v, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("must be a whole number, not %q", value)
		}
		*f = v
	case encoding.TextUnmarshaler:
		return f.UnmarshalText([]byte(value))
	default:
		panic(fmt.Sprintf("setting of type %T", field)) // a new setting's type is missing here; every test would meet it
	}
	return nil
}
