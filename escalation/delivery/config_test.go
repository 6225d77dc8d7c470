package delivery

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/guardd/guardd/escalation"
)

func TestFaultsAreNamed(t *testing.T) {
	type d = escalation.Delivery
	key := strings.Repeat("k", 24)
	smtp := func(change func(*d)) d {
		x := d{Driver: "smtp", Host: "mail.example.com", TLS: "starttls", From: "login@shop.example"}
		change(&x)
		return x
	}
	for _, row := range []struct {
		name    string
		data    d
		secrets []string
		fields  string // of all faults
	}{
		{"log", d{Driver: "log"}, nil, ""},
		{"webhook", d{Driver: "webhook", URL: "https://app.example.com/guardd"}, []string{key}, ""},
		{"webhook within", d{Driver: "webhook", URL: "http://10.1.2.3/", AllowNetworks: []string{"10.0.0.0/8"}}, []string{key}, ""},
		{"smtp", smtp(func(*d) {}), nil, ""},
		{"smtp with words", smtp(func(x *d) { x.Code.Text = "{{.Code}} {{.ExpiresAt}} {{if .Only}}!{{end}}" }), nil, ""},

		{"no driver", d{}, nil, "driver"},
		{"unknown driver", d{Driver: "pigeon"}, nil, "driver"},
		{"another driver's settings", d{Driver: "log", URL: "https://x.example", Host: "h"}, nil, "url host"},
		{"words for a webhook", d{Driver: "webhook", URL: "https://x.example", Code: escalation.Words{Text: "x"}}, []string{key}, "code"},
		{"nothing of a webhook", d{Driver: "webhook"}, nil, "url secret_file"},
		{"plain http", d{Driver: "webhook", URL: "http://app.example.com/"}, []string{key}, "url"},
		{"ftp", d{Driver: "webhook", URL: "ftp://app.example.com/"}, []string{key}, "url"},
		{"a user in the URL", d{Driver: "webhook", URL: "https://a:b@app.example.com/"}, []string{key}, "url"},
		{"bad networks", d{Driver: "webhook", URL: "https://x.example", AllowNetworks: []string{"10.0.0.0/8", "10.1.0.0/8", "all"}}, []string{key}, "allow_networks[1] allow_networks[2]"},
		{"short secrets", d{Driver: "webhook", URL: "https://x.example"}, []string{"short", "whsec_AAAA", "whsec_!", key}, "secret_file secret_file secret_file"},
		{"nothing of smtp", d{Driver: "smtp"}, nil, "host tls from"},
		{"a URL for a host", smtp(func(x *d) { x.Host = "smtp://mail.example.com" }), nil, "host"},
		{"a port beyond", smtp(func(x *d) { x.Port = 65536 }), nil, "port"},
		{"opportunistic", smtp(func(x *d) { x.TLS = "opportunistic" }), nil, "tls"},
		{"from is a header", smtp(func(x *d) { x.From = "a@shop.example\r\nBcc: b@shop.example" }), nil, "from"},
		{"helo is a command", smtp(func(x *d) { x.Helo = "a\r\nMAIL FROM:<b>" }), nil, "helo"},
		{"password without user", smtp(func(*d) {}), []string{"p"}, "username"},
		{"user without password", smtp(func(x *d) { x.Username = "u" }), nil, "secret_file"},
		{"password in clear", smtp(func(x *d) { x.Username, x.TLS = "u", "none" }), []string{"p"}, "username"},
		{"a misspelt field", smtp(func(x *d) { x.Code.Text = "{{.Cod}}" }), nil, "code.text"},
		{"a misspelt field in a branch", smtp(func(x *d) { x.Code.HTML = "{{if .Only}}{{.Untill}}{{end}}" }), nil, "code.html"},
		{"not a template", smtp(func(x *d) { x.Notice.Subject, x.Notice.HTML = "{{", "<p {{if" }), nil, "notice.subject notice.html"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := Config{Delivery: row.data, Realm: "shop", Log: slog.New(slog.DiscardHandler)}
			for _, s := range row.secrets {
				c.Secrets = append(c.Secrets, []byte(s))
			}
			err := c.Validate()
			var faults escalation.Faults
			errors.As(err, &faults)
			var got []string
			for _, f := range faults {
				field, ok := strings.CutPrefix(f.Field, "realms.shop.delivery.")
				if !ok || f.Reason == "" {
					t.Errorf("fault %+v", f)
				}
				got = append(got, field)
			}
			if strings.Join(got, " ") != row.fields || (err == nil) != (row.fields == "") {
				t.Errorf("faults of %q, want %q: %v", strings.Join(got, " "), row.fields, err)
			}
			if d, err := New(c); (d == nil) != (err != nil) {
				t.Errorf("New: %v, %v", d, err)
			}
		})
	}
}
