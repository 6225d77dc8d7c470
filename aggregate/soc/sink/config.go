package sink

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/escalation/delivery/hook"
)

// Config is what New makes a sink of.
type Config struct {
	// To says where: topic:NAME, file:PATH, syslog://HOST:PORT (TCP),
	// syslog+tls://HOST:PORT, https://..., alertmanager+https://HOST:PORT.
	To       string
	Format   soc.Format // not of Alertmanager, which has its own
	Producer soc.Producer

	// Bus is what topic:NAME is of; nil where there is none.
	Bus aggregate.Bus
	// RotateBytes is how large a file becomes before a new one is begun, and Keep how
	// many old ones stay beside it.
	RotateBytes int64
	Keep        int
	// TLS is how to speak to a server: whom to trust, and a certificate of one's own.
	TLS *tls.Config
	// Secrets sign what a webhook is sent. AllowNetworks may be dialled beside public
	// ones, by webhooks and for Alertmanager; plain http is only spoken there.
	Secrets       [][]byte
	AllowNetworks []string
	// Labels are put on every alert.
	Labels map[string]string
}

// The kinds of sinks, by the scheme of Config.To.
const (
	KindTopic        = "topic"
	KindFile         = "file"
	KindSyslog       = "syslog"
	KindSyslogTLS    = "syslog+tls"
	KindWebhook      = "https"
	KindAlertmanager = "alertmanager+https"
)

// uses are the settings that each kind reads, beside To; any other is refused, since
// whoever wrote it expects something of it.
var uses = map[string][]string{
	KindTopic:        {"format"},
	KindFile:         {"format", "rotate_bytes", "keep"},
	KindSyslog:       {"format"},
	KindSyslogTLS:    {"format", "tls"},
	KindWebhook:      {"format", "secret_file", "allow_networks", "tls"},
	KindAlertmanager: {"allow_networks", "labels", "tls"},
}

// Kind is the kind of a sink by its address; "" is none. Uses are the settings that
// it reads.
func Kind(to string) (kind string, uses_ []string) {
	scheme, _, ok := strings.Cut(to, ":")
	if !ok {
		return "", nil
	}
	switch scheme {
	case "http":
		scheme = KindWebhook
	case "alertmanager+http":
		scheme = KindAlertmanager
	}
	return scheme, uses[scheme]
}

// New makes the sink that c describes. It dials nobody and opens no file yet. bad is
// told each fault, with its field, and then the sink is nil.
func New(c Config, bad func(field, format string, args ...any)) soc.Sink {
	faults := 0
	fault := func(field, format string, args ...any) {
		faults++
		if field == "url" {
			field = "to"
		}
		bad(field, format, args...)
	}
	s := c.make(fault)
	if faults > 0 {
		return nil
	}
	return s
}

func (c *Config) make(bad func(field, format string, args ...any)) soc.Sink {
	kind, known := Kind(c.To)
	if known == nil {
		bad("to", "%q is not topic:NAME, file:PATH, syslog://HOST:PORT, syslog+tls://HOST:PORT, https://... or alertmanager+https://...", c.To)
		return nil
	}
	_, rest, _ := strings.Cut(c.To, ":")
	switch kind {
	case KindTopic:
		if rest == "" || strings.ContainsFunc(rest, notInTopic) || slices.Contains(aggregate.Topics, aggregate.Topic(rest)) {
			bad("to", "a topic's name is of letters, digits, dots, dashes and underscores, and none of %v, not %q", aggregate.Topics, rest)
		}
		return &topic{c: c, to: aggregate.Topic(rest)}
	case KindFile:
		if rest == "" || strings.HasPrefix(rest, "//") {
			bad("to", "is not file:PATH")
		}
		return newFile(c, filepath.Clean(rest))
	case KindSyslog, KindSyslogTLS:
		host, port, err := net.SplitHostPort(strings.TrimPrefix(rest, "//"))
		if _, perr := net.LookupPort("tcp", port); err != nil || perr != nil || host == "" || !strings.HasPrefix(rest, "//") {
			bad("to", "is not %s://HOST:PORT", kind)
		}
		return newSyslog(c, host, port, kind == KindSyslogTLS)
	case KindAlertmanager:
		at := strings.TrimPrefix(c.To, "alertmanager+")
		gate := hook.Target(at, c.AllowNetworks, bad)
		c.meant(gate, bad)
		for name := range c.Labels {
			if !labelName(name) || slices.Contains(ownLabels, name) {
				bad("labels", "%q is no name of a label, or one that guardd sets", name)
			}
		}
		return newAlertmanager(c, at, gate)
	}
	gate := hook.Target(c.To, c.AllowNetworks, bad)
	c.meant(gate, bad)
	keys := hook.Keys(c.Secrets, func(format string, args ...any) { bad("secret_file", format, args...) })
	return newWebhook(c, keys, gate)
}

// meant refuses plain http to anywhere: findings say who is attacked.
func (c *Config) meant(g hook.Gate, bad func(field, format string, args ...any)) {
	if u, err := url.Parse(strings.TrimPrefix(c.To, "alertmanager+")); err == nil && u.RawQuery != "" && strings.HasPrefix(c.To, "alertmanager+") {
		bad("to", "has a query")
	}
	if g.Plain && len(c.AllowNetworks) == 0 {
		bad("to", "is plain http, which shows findings to whoever listens on the way: use https, or name the receiver's network in allow_networks")
	}
}

func notInTopic(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
}

// labelName tells of the names that Prometheus takes.
func labelName(s string) bool {
	for i, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}

// line is a record and a line end.
func (c *Config) line(b []byte, r *soc.Record) ([]byte, error) {
	b, err := c.Format.AppendTo(b, r, c.Producer)
	if err != nil {
		return b, fmt.Errorf("%w: %w", soc.ErrRefused, err)
	}
	return append(b, '\n'), nil
}
