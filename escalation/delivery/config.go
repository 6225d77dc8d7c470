package delivery

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/delivery/hook"
)

// Config is what New makes a Deliverer of.
type Config struct {
	escalation.Delivery
	Realm string // whose delivery it is; in the paths of faults
	// Secrets are the lines of SecretFile, read by whoever reads files.
	Secrets [][]byte
	Log     *slog.Logger   // for driver log; nil is slog.Default
	RootCAs *x509.CertPool // whom to trust for TLS; nil is the system's
}

// The drivers.
const (
	DriverLog     = "log"
	DriverWebhook = "webhook"
	DriverSMTP    = "smtp"
)

// settings are the fields of escalation.Delivery that each driver reads; any
// other is refused, since whoever wrote it expects something of it.
var settings = map[string][]string{
	DriverLog:     {"Driver", "Name"},
	DriverWebhook: {"Driver", "Name", "SecretFile", "URL", "AllowNetworks"},
	DriverSMTP: {"Driver", "Name", "SecretFile", "Host", "Port", "TLS", "Username", "From", "Helo",
		"Code", "Notice"},
}

// Validate returns nil, or escalation.Faults that name every fault with its
// path (realms.default.delivery.url).
func (c *Config) Validate() error {
	_, err := New(*c)
	return err
}

// New makes the Deliverer that c describes. It dials nobody. Errors are those
// of Validate. The Deliverer is safe for concurrent use.
func New(c Config) (escalation.Deliverer, error) {
	f := &faultList{path: "realms." + c.Realm + ".delivery."}
	reads, ok := settings[c.Driver]
	if !ok {
		f.add("driver", "%q is not one of log, webhook, smtp", c.Driver)
		return nil, f.all
	}
	given := reflect.ValueOf(c.Delivery)
	for _, field := range reflect.VisibleFields(given.Type()) {
		if !given.FieldByIndex(field.Index).IsZero() && !slices.Contains(reads, field.Name) {
			key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			f.add(key, "means nothing to driver %s", c.Driver)
		}
	}
	d := c.build(f)
	if len(f.all) > 0 {
		return nil, f.all
	}
	return d, nil
}

func (c *Config) build(f *faultList) escalation.Deliverer {
	switch c.Driver {
	case DriverWebhook:
		return c.webhook(f)
	case DriverSMTP:
		return c.smtp(f)
	}
	if c.Log == nil {
		return logDriver{slog.Default()}
	}
	return logDriver{c.Log}
}

func (c *Config) webhook(f *faultList) *webhook {
	g := hook.Target(c.URL, c.AllowNetworks, f.add)
	if g.Plain && len(c.AllowNetworks) == 0 {
		f.add("url", "is plain http, which gives codes away: use https, or name the receiver's network in allow_networks")
	}
	keys := hook.Keys(c.Secrets, func(format string, args ...any) { f.add("secret_file", format, args...) })
	return newWebhook(c, keys, g)
}

func (c *Config) tls(host string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs, ServerName: host}
}

type faultList struct {
	path string
	all  escalation.Faults
}

func (f *faultList) add(field, format string, args ...any) {
	f.all.Add(f.path+field, format, args...)
}
