package main

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/aggregate/soc/sink"
)

// socConfig says who is told what was found.
type socConfig struct {
	Sinks       []*socSink `yaml:"sinks"`
	DeadLetters string     `yaml:"dead_letters"`
}

// socSink is one place where findings, and perhaps decisions, are told.
type socSink struct {
	Name   string     `yaml:"name"`
	To     string     `yaml:"to"`
	Format soc.Format `yaml:"format"`

	What        []string      `yaml:"what"`
	Realms      []string      `yaml:"realms"`
	MinSeverity soc.Severity  `yaml:"min_severity"`
	Decisions   soc.Decisions `yaml:"decisions"`
	PerMinute   *int          `yaml:"per_minute"`
	Queue       int           `yaml:"queue"`

	RotateBytes   int               `yaml:"rotate_bytes"`
	Keep          *int              `yaml:"keep"`
	SecretFile    string            `yaml:"secret_file"`
	AllowNetworks []string          `yaml:"allow_networks"`
	Labels        map[string]string `yaml:"labels"`
	TLS           tlsFiles          `yaml:"tls"`
}

// tlsFiles say whom to trust, and who to be.
type tlsFiles struct {
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// What a sink has where the file does not say.
const (
	socPerMinute   = 60
	socRotateBytes = 64 << 20
	socKeep        = 5
)

func (s *socSink) perMinute() int { return orElse(s.PerMinute, socPerMinute) }

func orElse(n *int, standard int) int {
	if n == nil {
		return standard
	}
	return *n
}

func (s *socSink) filter() soc.Filter {
	return soc.Filter{What: s.What, Realms: s.Realms, Min: s.MinSeverity, Decisions: s.Decisions}
}

// sink is without what is in files.
func (s *socSink) sink() sink.Config {
	c := sink.Config{To: s.To, Format: s.Format, RotateBytes: int64(s.RotateBytes), Keep: orElse(s.Keep, socKeep), AllowNetworks: s.AllowNetworks, Labels: s.Labels}
	if c.Format == "" {
		c.Format = soc.OCSF
	}
	if c.RotateBytes == 0 {
		c.RotateBytes = socRotateBytes
	}
	return c
}

// socList is a setting of several sinks, each an address and behind a # what the file
// has in keys: syslog+tls://siem.example.com:6514#format=cef&min_severity=high.
type socList []*socSink

// UnmarshalText reads them, with commas between.
func (l *socList) UnmarshalText(text []byte) error {
	*l = nil
	for _, one := range strings.Split(string(text), ",") {
		to, more, _ := strings.Cut(one, "#")
		values, err := url.ParseQuery(more)
		if err != nil {
			return fmt.Errorf("behind the # of %q: %w", to, err)
		}
		var yaml strings.Builder
		for key, v := range values {
			fmt.Fprintf(&yaml, "%s: %s\n", key, v[len(v)-1])
		}
		s := &socSink{}
		if bad := decode(strings.NewReader(yaml.String()), to, s); len(bad) > 0 {
			return fmt.Errorf("behind the # of %q: %w", to, bad)
		}
		s.To = to
		*l = append(*l, s)
	}
	return nil
}

func (c *socConfig) beside(file string) {
	c.DeadLetters = beside(file, c.DeadLetters)
	for _, s := range c.Sinks {
		if s == nil {
			continue
		}
		if path, ok := strings.CutPrefix(s.To, "file:"); ok {
			s.To = "file:" + beside(file, path)
		}
		for _, path := range []*string{&s.SecretFile, &s.TLS.CAFile, &s.TLS.CertFile, &s.TLS.KeyFile} {
			*path = beside(file, *path)
		}
	}
}

var sinkName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// checkSOC finds faults of c.SOC, names sinks that have no name, and reads their files.
func (c *config) checkSOC(bad *faults) {
	names := map[string]bool{}
	for i, s := range c.SOC.Sinks {
		at := fmt.Sprintf("soc.sinks[%d]", i)
		if s == nil {
			bad.add(at+".to", "missing")
			c.SOC.Sinks[i] = &socSink{}
			continue
		}
		kind, reads := sink.Kind(s.To)
		if s.Name == "" {
			s.Name = map[string]string{sink.KindSyslogTLS: "syslog", sink.KindWebhook: "webhook", sink.KindAlertmanager: "alertmanager"}[kind]
			if s.Name == "" {
				s.Name = kind
			}
		}
		switch {
		case reads == nil: // said below
		case !sinkName.MatchString(s.Name):
			bad.add(at+".name", "must be up to 32 small letters, digits and dashes, not %q", s.Name)
		case names[s.Name]:
			bad.add(at+".name", "%q is used twice: name them", s.Name)
		}
		names[s.Name] = true
		c.checkSink(at, kind, reads, s, bad)
	}
}

func (c *config) checkSink(at, kind string, reads []string, s *socSink, bad *faults) {
	for key, given := range map[string]bool{"format": s.Format != "", "rotate_bytes": s.RotateBytes != 0, "keep": s.Keep != nil, "secret_file": s.SecretFile != "",
		"allow_networks": len(s.AllowNetworks) > 0, "labels": len(s.Labels) > 0, "tls": s.TLS != (tlsFiles{})} {
		if given && reads != nil && !slices.Contains(reads, key) {
			bad.add(at+"."+key, "means nothing to %s", kind)
		}
	}
	for j, what := range s.What {
		if !slices.Contains(soc.Kinds(), what) {
			bad.add(fmt.Sprintf("%s.what[%d]", at, j), "must be one of %s, not %q", strings.Join(soc.Kinds(), ", "), what)
		}
	}
	for j, r := range s.Realms {
		if c.policy != nil && c.policy.Realms[r] == nil {
			bad.add(fmt.Sprintf("%s.realms[%d]", at, j), "no realm %q", r)
		}
	}
	for key, n := range map[string]int{"per_minute": s.perMinute(), "queue": s.Queue, "rotate_bytes": s.RotateBytes, "keep": orElse(s.Keep, socKeep)} {
		if n < 0 || n > 1<<30 {
			bad.add(at+"."+key, "must be from 0 to %d, not %d", 1<<30, n)
		}
	}
	if kind == sink.KindAlertmanager && s.Decisions != "" && s.Decisions != soc.NoDecisions {
		bad.add(at+".decisions", "Alertmanager is told of findings only")
	}
	if kind == sink.KindSyslog {
		c.warnings = append(c.warnings, s.To+" shows what is found to whoever listens on the way: syslog+tls does not")
	}
	to := s.sink()
	if s.SecretFile != "" {
		var err error
		if to.Secrets, err = c.readSecretFile(s.SecretFile); err != nil {
			bad.add(at+".secret_file", "%v", err)
		}
	}
	to.TLS = (&kafkaTLS{On: s.TLS != (tlsFiles{}), CAFile: s.TLS.CAFile, CertFile: s.TLS.CertFile, KeyFile: s.TLS.KeyFile}).config(at+".tls", bad)
	if topic, ok := strings.CutPrefix(s.To, "topic:"); ok {
		if c.kafka == nil {
			bad.add(at+".to", "needs kafka")
			return
		}
		c.kafka.More = append(c.kafka.More, aggregate.Topic(topic))
	}
	c.sinks = append(c.sinks, to)
	sink.New(to, func(field, format string, args ...any) { bad.add(at+"."+field, format, args...) })
}
