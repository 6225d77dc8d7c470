package plandb_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/postgrestest"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

// never looks at the version again while a test runs: what arrives was pushed.
const never = 24 * time.Hour

// TestOutages loses what can be lost between an instance and PostgreSQL.
func TestOutages(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.Database()
	db := connect(t, place{url: url})
	rules := 0
	grow := func() int {
		t.Helper()
		rules++
		e := plans.Edit{Action: plans.Create, Rule: &plans.RuleEdit{Name: fmt.Sprint("r", rules), Capacity: say(int64(1)), Refill: say("1/1s")}}
		if _, err := db.Change(t.Context(), order(e.Apply)); err != nil {
			t.Fatal(err)
		}
		return rules
	}
	grow()
	brief := plandb.FollowConfig{Every: 50 * time.Millisecond, Patience: 300 * time.Millisecond}
	deaf := brief
	deaf.Deaf = true
	pushed := follow(t, connect(t, place{url: url}), plandb.FollowConfig{Every: never})
	polled := follow(t, connect(t, place{url: url}), deaf)
	both := follow(t, connect(t, place{url: url}), brief)
	all := map[string]*followed{"by notice": pushed, "by looking": polled, "both ways": both}
	every := func(what string, n int, of ...string) {
		t.Helper()
		for name, w := range all {
			if len(of) == 0 || slices.Contains(of, name) {
				w.until(what+", "+name, hasRules(n))
			}
		}
	}
	every("the first reading", 1)

	for range 20 { // each by its own: what comes while another is read is not lost
		n := grow()
		if n%5 == 0 {
			every("a change", n)
		}
	}
	every("the last of many changes", rules)

	// The connection that listens ends; what changes before it is back is not missed.
	server.Exec(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()`)
	every("a change with nobody listening", grow())
	if errs := pushed.failures(); !slices.ContainsFunc(errs, func(e string) bool { return strings.HasPrefix(e, "listen: ") }) {
		t.Errorf("the lost connection was not told of: %v", errs)
	}

	server.Pause()
	both.awaitFailure(t, "poll: ")
	every("the last good set stays in a hung database", rules)
	server.Resume()
	every("a change after it", grow())

	server.Stop()
	both.awaitFailure(t, "poll: ")
	polled.awaitFailure(t, "poll: ")
	every("the last good set stays without a database", rules)
	early := follow(t, mustOpen(t, url), brief)
	early.awaitFailure(t, "poll: ")
	if s := early.Stats(); s.Version != 0 || !s.Confirmed.IsZero() || s.Failures["poll"] == 0 {
		t.Errorf("started without a database: %+v", s)
	}
	server.Restart()
	all["started without it"] = early
	every("the database is back", rules, "by looking", "both ways", "started without it")
	every("a change after it", grow(), "by looking", "both ways", "started without it", "by notice")
	s := both.Stats()
	if now, _ := load(t, db); s.Version != now || s.Bad != 0 || s.Confirmed.IsZero() {
		t.Errorf("%+v, version %d", s, now)
	}

	// What was put back while nobody could look may bear a number seen before.
	version, _ := load(t, db)
	server.Exec(url, fmt.Sprintf(`BEGIN; LOCK TABLE guardd_limits_state IN ACCESS EXCLUSIVE MODE;
		DELETE FROM guardd_limits_rules WHERE name = 'r2'; UPDATE guardd_limits_state SET version = %d;
		SELECT pg_sleep(%f); COMMIT`, version, 5*brief.Patience.Seconds()))
	every("an older state of the same number", rules-1, "by looking")

	// A database that was put back to what it was counts its versions anew.
	server.Exec(url, `DELETE FROM guardd_limits_rules WHERE name <> 'r1'; UPDATE guardd_limits_state SET version = 1`)
	every("an older state", 1, "by looking", "both ways", "started without it")
}

func mustOpen(t *testing.T, url string) *plandb.DB {
	t.Helper()
	db, err := plandb.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// awaitFailure waits until one more failure of the kind is told.
func (w *followed) awaitFailure(t *testing.T, kind string) {
	t.Helper()
	count := func() (n int) {
		for _, e := range w.failures() {
			if strings.HasPrefix(e, kind) {
				n++
			}
		}
		return n
	}
	for had, end := count(), time.Now().Add(patience); count() == had; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no failure of %s in %v", kind, w.failures())
		}
	}
}

// Rights to read are enough to follow, once somebody else has made the schema.
func TestServeNeedsOnlyToRead(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.Database()
	writer := connect(t, place{url: url})
	put(t, writer, full())
	if version, _ := load(t, writer); version != 1 {
		t.Errorf("one change of many rows made %d versions: each is one more of the same row to walk past", version)
	}
	server.Exec(url, `CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`)
	reader := connect(t, place{url: strings.Replace(url, "postgres@", "reader@", 1)})
	w := follow(t, reader, plandb.FollowConfig{})
	w.until("what another has written", hasRules(3))
	if _, err := reader.Change(t.Context(), order(replace(&plans.Definition{}))); err == nil {
		t.Error("a reader has changed something")
	}
}

func TestURLs(t *testing.T) {
	dir := t.TempDir()
	for url, kind := range map[string]string{
		"sqlite:" + filepath.Join(dir, "a.db"): "sqlite", filepath.Join(dir, "b.db"): "sqlite", "sqlite:c.db": "sqlite", "d.db": "sqlite",
		"postgres://guardd@db.example.com/guardd": "postgres", "postgresql:///guardd?host=/run/postgresql": "postgres",
		"": "", "sqlite:": "", "sqlite://c.db": "", "postgre://db/guardd": "", "mysql://db/guardd": "", "postgres://db:port/x": "", "postgres://u@h/db?sslmode=maybe": "",
	} {
		db, err := plandb.Open(url)
		if (err == nil) != (kind != "") {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err == nil {
			if db.Name() != kind {
				t.Errorf("%q is %s", url, db.Name())
			}
			db.Close()
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := plandb.Open("postgres://guardd:secret@db:port/x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is told: %v", err)
	}
	for url, path := range map[string]string{"sqlite:a/b.db": "a/b.db", "b.db": "b.db", "postgres://h/d": "", "postgresql://h/d": ""} {
		if _, got, ok := plandb.IsFile(url); got != path || ok != (path != "") {
			t.Errorf("%q is the file %q", url, got)
		}
	}
}
