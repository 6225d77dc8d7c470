package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

func TestFaultsOfRecentsAreRefusedByName(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"recents: {keep: -1}", "recents.keep: must be from 0 to 100000000, not -1"},
		{"recents: {for: 1s}", "recents.for: must be from 1m to 8784h, not 1s"},
		{"recents: {for: 10000h}", "recents.for: must be from 1m to 8784h"},
		{"recents: {many: 1}", "recents.many: "},
		{"aggregate: perhaps", "aggregate: "},
	} {
		_, err := loadWith(t, tt.yaml, nil)
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+tt.want) {
			t.Errorf("%s: %v, not %q", tt.yaml, err, tt.want)
		}
	}
	if c, err := loadWith(t, "", nil, "--aggregate=false"); err != nil || c.Aggregate {
		t.Errorf("switched off: %v, %v", c, err)
	}
}

// signIn has accounts sign in from an address.
func (p *process) signIn(t *testing.T, ip string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		account := fmt.Sprint("user", i)
		a := p.attempt(t, account, ip)
		if !a.Proceed {
			t.Fatalf("%s: %+v", account, a)
		}
		body, err := json.Marshal(map[string]string{"attempt": a.Attempt, "account": account, "outcome": "success"})
		if err != nil {
			t.Fatal(err)
		}
		p.post(t, "/v1/outcomes", string(body), nil)
	}
}

// learned is what an operator is told of an address or an account.
type learned struct {
	K      int64 `json:"k"`
	Recent []struct {
		ID, Outcome, Action string
		Repeat              bool
	}
}

func (p *process) learned(t *testing.T, field, who string) (l learned) {
	t.Helper()
	w, err := http.Post(p.admin+"/admin/v1/explain", "application/json", strings.NewReader(fmt.Sprintf("{%q:%q}", field, who)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if err := json.NewDecoder(w.Body).Decode(&l); err != nil || w.StatusCode != http.StatusOK {
		t.Fatalf("%d: %v", w.StatusCode, err)
	}
	return l
}

// TestServeLearnsOfManyLogins: without anything but the binary, an office comes to
// count as more than one person, and what happened can be looked up.
func TestServeLearnsOfManyLogins(t *testing.T) {
	p := startGuardd(t)
	p.signIn(t, "192.0.2.1", 0, 20) // more at once and the address would be asked
	p.until(t, "what was decided", func() bool { return len(p.learned(t, "account", "user7").Recent) == 2 })
	r := p.learned(t, "account", "user7").Recent
	if r[0].Outcome != "success" || r[1].Action != "allow" {
		t.Errorf("newest first: %+v", r)
	}
	p.until(t, "classes", func() bool {
		return p.metric(t, `guardd_aggregate_logins_total{class="success",realm="default"}`) == "20"
	})
	for series, want := range map[string]string{"guardd_aggregate_partitions": "1", `guardd_aggregate_events_total{realm="default"}`: "40",
		`guardd_aggregate_missing{realm="default"}`: "0", `guardd_aggregate_followed_accounts{realm="default"}`: "20"} {
		if got := p.metric(t, series); got != want {
			t.Errorf("%s is %s, not %s", series, got, want)
		}
	}
	off := startGuardd(t, "--aggregate=false")
	off.signIn(t, "192.0.2.1", 0, 3)
	if n := off.metric(t, "guardd_aggregate_partitions"); n != "0" {
		t.Errorf("switched off it reads %s partitions", n)
	}
	if r := off.learned(t, "account", "user2").Recent; len(r) != 0 {
		t.Errorf("switched off it keeps %+v", r)
	}
}

// TestAggregatorsOfAFleetTakeOver: of three instances on one Kafka and one Redis
// the one that reads is killed. Another goes on, and nothing is forgotten.
func TestAggregatorsOfAFleetTakeOver(t *testing.T) {
	kafka := kafkatest.Start(t, kafkatest.Options{})
	redis, secret := redistest.Start(t), writeFile(t, "guardd.secret", longLine+"\n")
	start := func(i int) *process {
		c := writeFile(t, "guardd.yaml", fmt.Sprintf("{kafka: {brokers: ['%s'], partitions: 1}, events: {spool_dir: %s}}", kafka.Addr(), filepath.Join(t.TempDir(), "spool")))
		return startGuardd(t, "--config", c, "--redis", redis.URL(), "--redis-deadline", "10s", "--secret-file", secret)
	}
	all := []*process{start(0), start(1), start(2)}
	reader := func() int {
		for i, p := range all {
			if p != nil && p.metric(t, "guardd_aggregate_partitions") == "1" {
				return i
			}
		}
		return -1
	}
	all[0].until(t, "a reader", func() bool { return reader() >= 0 })
	office := "2001:db8:1:2::5"
	in := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ { // through whoever lives
			p := all[i%3]
			if p == nil {
				p = all[(i+1)%3]
			}
			p.signIn(t, office, i, i+1)
		}
	}
	any := func() *process {
		for _, p := range all {
			if p != nil {
				return p
			}
		}
		return nil
	}
	in(0, 55)
	any().until(t, "55 accounts", func() bool { return any().learned(t, "ip", office).K == 2 })
	any().until(t, "what was decided", func() bool { return len(any().learned(t, "account", "user54").Recent) == 2 })

	killed := reader()
	if err := all[killed].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-all[killed].done
	all[killed] = nil
	in(55, 80)
	any().until(t, "80 accounts", func() bool { return any().learned(t, "ip", office).K == 3 })
	for i, want := range map[int]int{3: 2, 54: 2, 79: 2} {
		any().until(t, fmt.Sprint("what was decided of ", i), func() bool {
			return len(any().learned(t, "account", fmt.Sprint("user", i)).Recent) == want
		})
	}
	if now := reader(); now < 0 || now == killed {
		t.Errorf("%d reads, %d was killed", now, killed)
	}
}
