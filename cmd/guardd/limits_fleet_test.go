package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys/keystest/postgrestest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// limitsFleet is three instances on one PostgreSQL and one Redis.
type limitsFleet struct {
	t     *testing.T
	db    *postgrestest.Server
	redis *redistest.Server
	url   string
	args  []string
	all   []*process
}

func startLimitsFleet(t *testing.T) *limitsFleet {
	f := &limitsFleet{t: t, db: postgrestest.Start(t), redis: redistest.Start(t)}
	f.url = f.db.Database()
	f.args = []string{"--limits-db", f.url, "--redis", f.redis.URL(), "--redis-deadline", "10s", "--instances", "3", "--secret-file", writeFile(t, "secret", longLine)}
	return f
}

func (f *limitsFleet) start() {
	for range 3 {
		f.all = append(f.all, startGuardd(f.t, f.args...))
	}
}

// command runs guardd limits on the database.
func (f *limitsFleet) command(args ...string) (string, error) {
	cmd := exec.Command("guardd", append([]string{"limits"}, args...)...)
	cmd.Env = append(os.Environ(), "GUARDD_LIMITS_DB="+f.url)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// change is a command that must succeed, and is in force everywhere when it
// returns.
func (f *limitsFleet) change(args ...string) {
	f.t.Helper()
	out, err := f.command(append(args, "--reason", "test", "--json")...)
	if err != nil {
		f.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	begun := time.Now()
	_, rest, has := strings.Cut(out, `"version":`)
	if !has {
		return // it was so already
	}
	version, _, _ := strings.Cut(rest, ",")
	for _, p := range f.all {
		p.until(f.t, "version "+version, func() bool { return p.metric(f.t, "guardd_limits_db_version") == version })
	}
	f.t.Logf("%s: on all of %d instances after at most %s", strings.Join(args, " "), len(f.all), time.Since(begun).Round(time.Millisecond))
}

// until waits for something.
func (p *process) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// take takes one token of a rule by a fresh key, unless one is given.
func (p *process) take(t *testing.T, key, rule string, cost int) (a client.TakeResponse, status int) {
	t.Helper()
	status = p.post(t, "/v1/limits/take", fmt.Sprintf(`{"key":%q,"rule":%q,"cost":%d}`, key, rule, cost), &a)
	return a, status
}

// spend takes one token at a time, by turns through all instances, and counts
// what was let through.
func (f *limitsFleet) spend(n int, key, rule string) (let int) {
	f.t.Helper()
	for i := range n {
		if a, status := f.all[i%len(f.all)].take(f.t, key, rule, 1); status != 200 {
			f.t.Fatalf("take: %d", status)
		} else if a.Allowed {
			let++
		}
	}
	return let
}

// Three instances through a push of a rule, an outage of PostgreSQL and one of
// Redis.
func TestPlanLimitsOfADatabaseThroughOutages(t *testing.T) {
	f := startLimitsFleet(t)
	f.change("create", "rule", "r", "--capacity", "30", "--refill", "1/1000h")
	f.start()
	if n := f.spend(33, "first", "r"); n != 30 {
		t.Errorf("%d of 30 were let through by three instances", n)
	}
	f.change("change", "rule", "r", "--capacity", "60")
	if n := f.spend(63, "second", "r"); n != 60 {
		t.Errorf("after the push: %d of 60", n)
	}

	for name, outage := range map[string]struct{ begin, end func() }{
		"PostgreSQL is gone": {f.db.Stop, f.db.Restart}, "PostgreSQL hangs": {f.db.Pause, f.db.Resume},
	} {
		failed := f.all[0].metric(t, `guardd_limits_db_errors_total{operation="poll"}`)
		outage.begin()
		f.all[0].until(t, "it to be noticed", func() bool {
			return f.all[0].metric(t, `guardd_limits_db_errors_total{operation="poll"}`) != failed
		})
		if n := f.spend(63, name, "r"); n != 60 {
			t.Errorf("%s: %d of 60", name, n)
		}
		if name == "PostgreSQL is gone" {
			f.withoutDatabase()
		}
		outage.end()
		f.change("change", "rule", "r", "--refill", "2/1000h")
		f.change("change", "rule", "r", "--refill", "1/1000h")
	}

	f.change("create", "rule", "tight", "--capacity", "12", "--refill", "1/1000h")
	f.redis.Stop()
	for _, p := range f.all {
		p.until(t, "it to be noticed", func() bool { a, _ := p.take(t, "nobody", "r", 0); return a.Degraded })
	}
	if n := f.spend(90, "third", "r"); n != 60 {
		t.Errorf("Redis is gone: %d of 3 x 20", n)
	}
	f.change("change", "rule", "tight", "--capacity", "24") // a push needs no Redis
	if n := f.spend(90, "third", "tight"); n != 24 {
		t.Errorf("Redis is gone, after a push: %d of 3 x 8", n)
	}
	f.redis.Restart()
	for _, p := range f.all {
		p.until(t, "Redis to be found", func() bool { a, _ := p.take(t, "nobody", "r", 0); return !a.Degraded })
	}
	if n := f.spend(63, "fourth", "r"); n != 60 {
		t.Errorf("Redis is back: %d of 60", n)
	}

	// One bad row: what was in force stays, everything else goes on.
	f.db.Exec(f.url, `UPDATE guardd_limits_rules SET capacity = -1 WHERE name = 'r'`)
	for _, p := range f.all {
		if _, err := p.awaitLog(`"field":"rules[r].capacity"`); err != nil {
			t.Error(err)
		}
	}
	f.change("change", "rule", "tight", "--capacity", "6")
	if n, m := f.spend(63, "fifth", "r"), f.spend(9, "fifth", "tight"); n != 60 || m != 6 {
		t.Errorf("with a bad row: %d of 60, %d of 6", n, m)
	}
	if n := f.all[1].metric(t, "guardd_limits_db_bad_rows"); n != "1" {
		t.Errorf("%s bad rows", n)
	}
	f.change("delete", "rule", "tight")
	for _, p := range f.all {
		if _, status := p.take(t, "sixth", "tight", 1); status != 404 {
			t.Errorf("a deleted rule: %d", status)
		}
	}
}

// withoutDatabase starts instances while there is none, and has a command fail.
func (f *limitsFleet) withoutDatabase() {
	t := f.t
	t.Helper()
	if out, err := f.command("change", "rule", "r", "--capacity", "1", "--reason", "x"); err == nil {
		t.Errorf("a change without a database: %s", out)
	}
	early := startGuardd(t, f.args...)
	if _, status := early.take(t, "k", "r", 1); status != 503 {
		t.Errorf("started without the database: %d, nobody knows what is in force", status)
	}
	if status, _ := get(t, early.admin+"/readyz"); status != 200 {
		t.Errorf("started without the database: /readyz %d, but logins need none", status)
	}
	file := writeFile(t, "limits.yaml", `rules: [{name: r, capacity: 7, refill: 1/1000h}]`)
	stand := startGuardd(t, append(f.args, "--limits", file)...)
	if a, _ := stand.take(t, "k", "r", 1); a.Limit != 7 {
		t.Errorf("with a file to stand in: %+v", a)
	}
	f.db.Restart()
	for _, p := range []*process{early, stand} {
		p.until(t, "the database to be read", func() bool { a, _ := p.take(t, "k", "r", 0); return a.Limit == 60 })
		p.hup(t)
		if _, err := p.awaitLog("policy reloaded"); err != nil {
			t.Error(err)
		}
		if a, _ := p.take(t, "k", "r", 0); a.Limit != 60 {
			t.Errorf("after SIGHUP the file that stood in counts again: %+v", a)
		}
		p.kill()
	}
	f.db.Stop()
}

// TestChangesOfRulesScoreSheet is what callers see when the rule that counts them
// changes, in three instances at once: the spent fraction stays.
func TestChangesOfRulesScoreSheet(t *testing.T) {
	f := startLimitsFleet(t)
	f.change("create", "rule", "r", "--capacity", "10", "--refill", "10/1h")
	f.start()
	rule := func(capacity int, refill string) {
		t.Helper()
		f.change("change", "rule", "r", "--capacity", strconv.Itoa(capacity), "--refill", refill)
	}
	for _, c := range []struct {
		name        string
		capacity    int
		refill      string
		spend       int
		then        int
		thenRefill  string
		least, most int // of 100 takes right after
		await       bool
	}{
		{"upgrade of a spent one gives no more than it left", 10, "1/1000h", 10, 1000, "1/1000h", 0, 0, false},
		{"upgrade of a half spent one", 10, "1/1000h", 5, 100, "1/1000h", 50, 50, false},
		{"downgrade of a spent one: no fresh burst", 60, "1/1000h", 60, 10, "1/1000h", 0, 0, false},
		{"downgrade of a half spent one", 60, "1/1000h", 30, 10, "1/1000h", 5, 5, false},
		{"shrink: never negative", 50, "1/1000h", 30, 10, "1/1000h", 4, 4, false},
		{"the refill alone", 10, "1/1000h", 10, 10, "10/1h", 0, 1, false},
		{"upgrade of a spent one is usable at the new rate", 10, "10/1h", 10, 1000, "1000/1s", 1, 100, true},
	} {
		rule(c.capacity, c.refill)
		if n := f.spend(c.spend, c.name, "r"); n != c.spend {
			t.Fatalf("%s: spent %d of %d", c.name, n, c.spend)
		}
		rule(c.then, c.thenRefill)
		if c.await {
			begun := time.Now()
			f.all[0].until(t, "the first take after it", func() bool { a, _ := f.all[0].take(t, c.name, "r", 1); return a.Allowed })
			t.Logf("%s: after %s", c.name, time.Since(begun).Round(time.Millisecond))
		}
		n := f.spend(100, c.name, "r")
		a, _ := f.all[2].take(t, c.name, "r", 0)
		if n < c.least || n > c.most || a.Remaining < 0 {
			t.Errorf("%s: %d let through, not %d to %d; %d remain", c.name, n, c.least, c.most, a.Remaining)
		}
	}

	// Shrunk and grown back: nothing is gained, and no more lost than the fraction
	// rounds. Flapped: never more than the capacity in all.
	rule(50, "1/1000h")
	f.spend(30, "back", "r")
	rule(10, "1/1000h")
	rule(50, "1/1000h")
	if n := f.spend(60, "back", "r"); n != 20 {
		t.Errorf("shrunk and grown back: %d of 20", n)
	}
	total := f.spend(20, "flap", "r")
	for range 4 {
		rule(7, "1/1000h")
		total += f.spend(1, "flap", "r")
		rule(50, "1/1000h")
		total += f.spend(1, "flap", "r")
	}
	if total += f.spend(60, "flap", "r"); total > 50 {
		t.Errorf("flapping: %d of 50 were let through", total)
	}
}
