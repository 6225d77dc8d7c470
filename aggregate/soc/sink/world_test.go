package sink

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/soc"
)

// patience is how long a test waits for another process. No test passes or fails by
// how fast something was.
const patience = 20 * time.Second

var producer = soc.Producer{Version: "1.2.3", Host: "login-1"}

// open makes a sink that ends with the test.
func open(t *testing.T, c Config) soc.Sink {
	t.Helper()
	c.Producer = producer
	if c.Format == "" {
		c.Format = soc.OCSF
	}
	s := New(c, func(field, format string, args ...any) { t.Errorf("%s: %s", field, fmt.Sprintf(format, args...)) })
	if s == nil {
		t.FailNow()
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Log(err)
		}
	})
	return s
}

// records are n campaigns that were opened just now.
func records(n int) (all []*soc.Record) {
	for i := range n {
		at := time.Now().UTC().Truncate(time.Microsecond)
		all = append(all, soc.OfFinding(&aggregate.Finding{V: 1, ID: fmt.Sprint("spray-", i), Realm: "default", What: "spray", State: "open", Start: at.Add(-time.Minute), Last: at,
			Reason: "one password on 25 accounts", Guesses: 25, Accounts: 25, Samples: []string{"wxyzWXYZ0123456789_-Ab"}}, soc.Opened))
	}
	return all
}

// changed is a record of the same campaign.
func changed(r *soc.Record, c soc.Change, change func(*aggregate.Finding)) *soc.Record {
	f := *r.Finding
	change(&f)
	return soc.OfFinding(&f, c)
}

// deliver expects that a sink takes all.
func deliver(t *testing.T, s soc.Sink, all ...*soc.Record) {
	t.Helper()
	if n, err := s.Deliver(t.Context(), all); n != len(all) || err != nil {
		t.Fatalf("%d of %d are taken: %v", n, len(all), err)
	}
}

// idsIn are those of the records that some lines tell of, in order; twice counts once.
func idsIn(lines []string, all []*soc.Record) (ids []string) {
	for _, line := range lines {
		for _, r := range all {
			if strings.Contains(line, r.ID) && !slices.Contains(ids, r.ID) {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

func ids(all []*soc.Record) (ids []string) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

// await waits until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

func TestFaultsOfSinksAreNamed(t *testing.T) {
	secret := [][]byte{[]byte("0123456789abcdef0123456789abcdef")}
	for _, tt := range []struct {
		c    Config
		want string // fields
	}{
		{Config{To: "pigeon:loft"}, "to"}, {Config{To: ""}, "to"}, {Config{To: "siem.example.com:6514"}, "to"},
		{Config{To: "topic:"}, "to"}, {Config{To: "topic:a b"}, "to"}, {Config{To: "topic:events"}, "to"}, {Config{To: "topic:soc"}, ""},
		{Config{To: "file:"}, "to"}, {Config{To: "file://host/x"}, "to"}, {Config{To: "file:/tmp/x"}, ""}, {Config{To: "file:x.jsonl"}, ""},
		{Config{To: "syslog://host"}, "to"}, {Config{To: "syslog:host:1"}, "to"}, {Config{To: "syslog://:1"}, "to"}, {Config{To: "syslog://host:99999"}, "to"},
		{Config{To: "syslog+tls://host:6514"}, ""}, {Config{To: "syslog://[::1]:601"}, ""},
		{Config{To: "https://soc.example/hook"}, "secret_file"}, {Config{To: "https://soc.example/hook", Secrets: secret}, ""},
		{Config{To: "http://soc.example/hook", Secrets: secret}, "to"}, {Config{To: "http://10.0.0.1/hook", Secrets: secret, AllowNetworks: []string{"10.0.0.0/8"}}, ""},
		{Config{To: "https://u:p@soc.example/", Secrets: secret}, "to"}, {Config{To: "https://soc.example/", Secrets: [][]byte{[]byte("short")}}, "secret_file"},
		{Config{To: "https://soc.example/", Secrets: secret, AllowNetworks: []string{"10.0.0.1/8"}}, "allow_networks[0]"},
		{Config{To: "alertmanager+https://am.example"}, ""}, {Config{To: "alertmanager+http://am.example"}, "to"}, {Config{To: "alertmanager+https://"}, "to"},
		{Config{To: "alertmanager+https://am.example/?x=1"}, "to"}, {Config{To: "alertmanager+https://am.example", Labels: map[string]string{"a-b": "c"}}, "labels"},
		{Config{To: "alertmanager+https://am.example", Labels: map[string]string{"severity": "c"}}, "labels"},
	} {
		var got []string
		s := New(tt.c, func(field, _ string, _ ...any) { got = append(got, field) })
		if strings.Join(got, " ") != tt.want || (s == nil) != (tt.want != "") {
			t.Errorf("%+v: %v, not %q", tt.c, got, tt.want)
		}
	}
}
