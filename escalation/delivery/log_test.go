package delivery

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/guardd/guardd/escalation"
)

func TestLogPrintsTheCodeAndNoName(t *testing.T) {
	for _, row := range []struct {
		m    *escalation.Message
		want []string
	}{
		{code("alice@example.com"), []string{"code=ABCDE12345", "token_begins=0123456789abcdef", "account_hash=h4sh", "realm=shop", "flow=login", "expires_at=2026-03-01T12:15:00.000Z"}},
		{notice("alice@example.com"), []string{"notice=new_device", "account_hash=h4sh", "suppressed=3", "at=2026-03-01T12:00:00.000Z"}},
	} {
		var out bytes.Buffer
		c := Config{Realm: "shop", Log: slog.New(slog.NewTextHandler(&out, nil))}
		c.Driver = DriverLog
		d, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Deliver(t.Context(), row.m); err != nil {
			t.Fatal(err)
		}
		for _, w := range row.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s does not say %s", out.String(), w)
			}
		}
		if strings.Contains(out.String(), "alice") {
			t.Errorf("%s names the account", out.String())
		}
	}
}
