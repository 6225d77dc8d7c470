package plandb_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/guardd/guardd/keys/keystest/postgrestest"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is an empty database of one kind, and how to reach it as somebody at a
// console would.
type place struct {
	url     string
	console func(t *testing.T, statements string)
}

// TestSuite holds both databases to one contract.
func TestSuite(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		suite(t, func(t *testing.T) place {
			file := filepath.Join(t.TempDir(), "limits %20?#.db")
			return place{"sqlite:" + file, func(t *testing.T, statements string) {
				t.Helper()
				db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: file, RawQuery: "_pragma=busy_timeout(5000)"}).String())
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if _, err := db.Exec(statements); err != nil {
					t.Fatalf("%s: %v", statements, err)
				}
			}}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		server := postgrestest.Start(t)
		suite(t, func(t *testing.T) place {
			url := server.Database()
			return place{url, func(t *testing.T, statements string) { server.Exec(url, statements) }}
		})
	})
}

func suite(t *testing.T, open func(*testing.T) place) {
	for _, c := range []struct {
		name string
		test func(*testing.T, place)
	}{
		{"what goes in comes out", comesOut},
		{"two who make the schema make it once", oneSchema},
		{"an edit is judged, and signed", judged},
		{"of many who change it nobody's change is lost", nobodyLost},
		{"a bad change changes nothing", nothing},
		{"a change made by hand is seen", byHand},
		{"a rule of another kind comes back as it went", kinds},
		{"a bad row is skipped and told, the old one stays", badRows},
		{"a newer schema is read and not written", newer},
		{"what is deleted goes, to the last row", deleted},
		{"who follows an empty database makes its schema", emptyAtFirst},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func digest(key string) plans.Digest { return sha256.Sum256([]byte(key)) }

func say[T any](v T) *T { return &v }

// full has everything that a definition can say.
func full() *plans.Definition {
	return &plans.Definition{
		Rules: []plans.Rule{
			{Name: "burst", Capacity: 50, Refill: "10/1s"},
			{Name: "daily", Capacity: 900_000, Refill: "7/1h30m", Routes: map[string]int64{"GET /search": 5, "*": 1, `"quoted" '; --`: 0}, Failure: plans.Closed},
			{Name: "requests", Capacity: 600, Refill: "600/1h", Counts: plans.CountsRequests, Failure: plans.Open, Refund: plans.RefundNone},
		},
		Plans: []plans.Plan{{Name: "free", Rules: []string{"daily", "burst"}}, {Name: "paid", Rules: []string{"requests"}}},
		Keys: []plans.Key{
			{SHA256: digest("a"), Plan: "free", Name: "shop, Ltd ✓", Overrides: []plans.Override{{Rule: "burst", Capacity: say(int64(100))}, {Rule: "daily", Refill: "8/1h"}}},
			{SHA256: digest("b"), Plan: "paid", State: plans.Suspended},
		},
	}
}

func connect(t *testing.T, p place) *plandb.DB {
	t.Helper()
	db, err := plandb.Open(p.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

var when = time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)

func order(edit func(*plans.Definition) error) plans.Order {
	return plans.Order{Author: plans.Author{Who: "ann", Why: "test"}, At: when, Edit: edit}
}

func replace(with *plans.Definition) func(*plans.Definition) error {
	return func(d *plans.Definition) error {
		*d = *with
		return nil
	}
}

// put makes the database what d says.
func put(t *testing.T, db *plandb.DB, d *plans.Definition) []plans.Record {
	t.Helper()
	records, err := db.Change(t.Context(), order(replace(d)))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func load(t *testing.T, db *plandb.DB) (int64, *plans.Definition) {
	t.Helper()
	version, d, err := db.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return version, d
}

func same(t *testing.T, got, want *plans.Definition) {
	t.Helper()
	for _, r := range plans.Diff(want, got) {
		t.Errorf("%s %s %s: want %s, have %s", r.Action, r.Kind, r.Name, r.Before, r.After)
	}
}

func comesOut(t *testing.T, p place) {
	db := connect(t, p)
	before, d := load(t, db)
	same(t, d, &plans.Definition{})
	records := put(t, db, full())
	after, d := load(t, db)
	same(t, d, full())
	if len(records) != 7 || after <= before {
		t.Errorf("%d rows were made, version %d became %d", len(records), before, after)
	}
	if _, faults := plans.Compile(d, "", nil); len(faults) > 0 {
		t.Error(faults)
	}
	if records := put(t, db, full()); len(records) > 0 {
		t.Errorf("the same again changed %+v", records)
	}
	if again, _ := load(t, db); again != after {
		t.Errorf("and made version %d of %d", again, after)
	}
	many := full()
	for i := range 1300 { // more than a statement takes
		many.Keys = append(many.Keys, plans.Key{SHA256: digest(fmt.Sprint(i)), Plan: "free"})
	}
	put(t, db, many)
	_, d = load(t, db)
	same(t, d, many)
}

func oneSchema(t *testing.T, p place) {
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			db, err := plandb.Open(p.url)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	put(t, connect(t, p), full())
}

func judged(t *testing.T, p place) {
	db := connect(t, p)
	put(t, db, full())
	version, _ := load(t, db)
	o := order((&plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "burst", Capacity: say(int64(60))}}).Apply)
	o.DryRun = true
	records, err := db.Change(t.Context(), o)
	if now, _ := load(t, db); err != nil || len(records) != 1 || now != version {
		t.Errorf("a dry run: %+v, %v, version %d became %d", records, err, version, now)
	}
	o.DryRun, o.Author = false, plans.Author{Who: "bob", Why: "a contract of 1 December"}
	if _, err := db.Change(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	now, d := load(t, db)
	all, err := db.Records(t.Context(), when.Add(-time.Hour), 100)
	if err != nil || len(all) != 8 || d.Rules[0].Capacity != 60 {
		t.Fatalf("%d lines, %v, capacity %d", len(all), err, d.Rules[0].Capacity)
	}
	r := all[0]
	if r.Version != now || !r.At.Equal(when) || r.Author != o.Author || r.Action != plans.Change || r.Kind != plans.KindRule || r.Name != "burst" ||
		string(r.Before) != `{"name":"burst","capacity":50,"refill":"10/1s"}` || string(r.After) != `{"name":"burst","capacity":60,"refill":"10/1s"}` {
		t.Errorf("%+v", r)
	}
	if one, err := db.Records(t.Context(), when, 1); err != nil || len(one) != 1 {
		t.Errorf("at most one: %v, %v", one, err)
	}
	if none, err := db.Records(t.Context(), when.Add(time.Microsecond), 100); err != nil || len(none) != 0 {
		t.Errorf("since later: %v, %v", none, err)
	}
	var bad plans.Faults
	o.Author.Why = ""
	if _, err := db.Change(t.Context(), o); !errors.As(err, &bad) || !bad.On("reason") {
		t.Errorf("without a reason: %v", err)
	}
}

func nobodyLost(t *testing.T, p place) {
	const who, each = 4, 10
	put(t, connect(t, p), &plans.Definition{Rules: []plans.Rule{{Name: "shared", Capacity: 1, Refill: "1/1s"}}})
	more := func(d *plans.Definition) error {
		i := slices.IndexFunc(d.Rules, func(r plans.Rule) bool { return r.Name == "shared" })
		d.Rules = slices.Clone(d.Rules)
		d.Rules[i].Capacity++
		return nil
	}
	var wg sync.WaitGroup
	for i := range who {
		db := connect(t, p)
		wg.Go(func() {
			for j := range each {
				e := plans.Edit{Action: plans.Create, Rule: &plans.RuleEdit{Name: fmt.Sprint("r", i, "-", j), Capacity: say(int64(1)), Refill: say("1/1s")}}
				both := func(d *plans.Definition) error { return errors.Join(e.Apply(d), more(d)) }
				if _, err := db.Change(t.Context(), order(both)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	db := connect(t, p)
	_, d := load(t, db)
	all, err := db.Records(t.Context(), when, 1000)
	if shared := d.Rules[len(d.Rules)-1]; len(d.Rules) != 1+who*each || shared.Capacity != 1+who*each || err != nil || len(all) != 1+2*who*each {
		t.Errorf("%d rules, %+v, %d lines in the audit, %v", len(d.Rules), shared, len(all), err)
	}
	versions := map[int64]bool{}
	for _, r := range all {
		versions[r.Version] = true
	}
	if len(versions) != 1+who*each {
		t.Errorf("%d changes made %d versions", who*each, len(versions))
	}
}

func nothing(t *testing.T, p place) {
	db := connect(t, p)
	put(t, db, full())
	version, _ := load(t, db)
	worse := full()
	worse.Rules[0].Capacity = 0
	worse.Plans = worse.Plans[:1]
	var bad plans.Faults
	if _, err := db.Change(t.Context(), order(replace(worse))); !errors.As(err, &bad) || !bad.On("rules[burst].capacity") || !bad.On("keys["+digest("b").String()+"].plan") {
		t.Errorf("%v", err)
	}
	mine := errors.New("mine")
	if _, err := db.Change(t.Context(), order(func(*plans.Definition) error { return mine })); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := db.Change(ctx, order(func(d *plans.Definition) error { cancel(); return replace(&plans.Definition{})(d) })); err == nil {
		t.Error("a change whose asker has gone was made")
	}
	now, d := load(t, db)
	same(t, d, full())
	if now != version {
		t.Errorf("version %d became %d", version, now)
	}
}

// follow keeps what a Follower swaps in, newest last.
func follow(t *testing.T, db *plandb.DB, c plandb.FollowConfig) *followed {
	t.Helper()
	w := &followed{t: t, changed: make(chan struct{}, 1)}
	c.Swap = func(b *plans.Book, bad plans.Faults) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.book, w.bad, w.swaps = b, bad, w.swaps+1
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	c.OnError = func(op string, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errs = append(w.errs, op+": "+err.Error())
	}
	w.Follower = db.NewFollower(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

type followed struct {
	*plandb.Follower
	t       *testing.T
	changed chan struct{}

	mu    sync.Mutex
	book  *plans.Book
	bad   plans.Faults
	errs  []string
	swaps int
}

// patience is how long a test waits before it fails. None passes or fails by how
// fast something was.
const patience = 30 * time.Second

// until waits until a book is in force of which is says true.
func (w *followed) until(what string, is func(*plans.Book, plans.Faults) bool) {
	w.t.Helper()
	late := time.After(patience)
	for {
		w.mu.Lock()
		book, bad, errs := w.book, w.bad, w.errs
		w.mu.Unlock()
		if book != nil && is(book, bad) {
			return
		}
		select {
		case <-w.changed:
		case <-time.After(20 * time.Millisecond):
		case <-late:
			w.t.Fatalf("waited %s for %s; faults %v, errors %v", patience, what, bad, errs)
		}
	}
}

func (w *followed) failures() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

func hasRules(n int) func(*plans.Book, plans.Faults) bool {
	return func(b *plans.Book, _ plans.Faults) bool { rules, _, _ := b.Sizes(); return rules == n }
}

func byHand(t *testing.T, p place) {
	db := connect(t, p)
	put(t, db, full())
	w := follow(t, db, plandb.FollowConfig{Every: 20 * time.Millisecond})
	w.until("the first reading", hasRules(3))
	for _, c := range []struct {
		statement string
		rules     int
	}{
		{`INSERT INTO guardd_limits_rules (name, capacity, refill_count, refill_period) VALUES ('x', 1, 1, '1s'), ('y', 1, 1, '1s')`, 5},
		{`UPDATE guardd_limits_rules SET name = 'z' WHERE name = 'y'`, 5},
		{`DELETE FROM guardd_limits_rules WHERE name IN ('x', 'z')`, 3},
		{`INSERT INTO guardd_limits_plans (name, rules) VALUES ('x', '["burst"]')`, 3},
		{`UPDATE guardd_limits_plans SET rules = '["daily"]' WHERE name = 'x'`, 3},
		{`DELETE FROM guardd_limits_plans WHERE name = 'x'`, 3},
		{`INSERT INTO guardd_limits_keys (sha256, plan) VALUES ('` + digest("z").String() + `', 'free')`, 3},
		{`UPDATE guardd_limits_keys SET state = 'suspended' WHERE plan = 'free'`, 3},
		{`DELETE FROM guardd_limits_keys`, 3},
	} {
		before, _ := load(t, db)
		p.console(t, c.statement)
		after, d := load(t, db)
		if after <= before {
			t.Errorf("%s: version %d became %d", c.statement, before, after)
		}
		if len(d.Unread) > 0 {
			t.Errorf("%s: %+v", c.statement, d.Unread)
		}
		w.until(c.statement, func(b *plans.Book, bad plans.Faults) bool {
			return b.Version() == fmt.Sprint("db ", after) && len(bad) == 0 && hasRules(c.rules)(b, bad)
		})
	}
}

// kinds: a rule of another kind, and what only that kind has, comes back as it went.
func kinds(t *testing.T, p place) {
	db := connect(t, p)
	made := &plans.Definition{Rules: []plans.Rule{
		{Name: "inflight", Kind: plans.Concurrency, Capacity: 20, Failure: plans.Closed, Settings: plans.Settings{TTL: say("30s")}},
		{Name: "standard", Kind: plans.Concurrency, Capacity: 3, Routes: map[string]int64{"GET /": 1}}}}
	put(t, db, made)
	there := func() *plans.Definition {
		t.Helper()
		_, d := load(t, db)
		if _, bad := plans.Compile(d, "", nil); len(bad) > 0 || len(d.Unread) > 0 {
			t.Errorf("%v %v", bad, d.Unread)
		}
		return d
	}
	if diff := plans.Diff(made, there()); len(diff) > 0 {
		t.Errorf("not as it was written: %s", diff[0].After)
	}
	for _, c := range []struct{ ttl, want string }{{"45s", "45s"}, {"", ""}} {
		e := plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "inflight", Settings: plans.Settings{TTL: say(c.ttl)}}}
		if _, err := db.Change(t.Context(), order(e.Apply)); err != nil {
			t.Fatal(err)
		}
		made.Rules[0].TTL = nil
		if c.want != "" {
			made.Rules[0].TTL = say(c.want)
		}
		if diff := plans.Diff(made, there()); len(diff) > 0 {
			t.Errorf("ttl %q: %s", c.ttl, diff[0].After)
		}
	}
	e := plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "standard", Kind: say(plans.Rate), Refill: say("3/1m")}}
	if _, err := db.Change(t.Context(), order(e.Apply)); err != nil {
		t.Fatal(err)
	}
	made.Rules[1].Kind, made.Rules[1].Refill = plans.Rate, "3/1m"
	if diff := plans.Diff(made, there()); len(diff) > 0 {
		t.Errorf("made another kind: %s", diff[0].After)
	}
}

func badRows(t *testing.T, p place) {
	db := connect(t, p)
	put(t, db, full())
	w := follow(t, db, plandb.FollowConfig{Every: 20 * time.Millisecond})
	w.until("the first reading", hasRules(3))
	key := digest("a").String()
	for _, c := range []struct{ statement, field, heal string }{
		{`UPDATE guardd_limits_rules SET capacity = -5 WHERE name = 'burst'`, "rules[burst].capacity", `UPDATE guardd_limits_rules SET capacity = 50 WHERE name = 'burst'`},
		{`UPDATE guardd_limits_rules SET refill_count = 0 WHERE name = 'burst'`, "rules[burst].refill", `UPDATE guardd_limits_rules SET refill_count = 10 WHERE name = 'burst'`},
		{`UPDATE guardd_limits_rules SET refill_period = 'a while' WHERE name = 'burst'`, "rules[burst].refill", `UPDATE guardd_limits_rules SET refill_period = '1s' WHERE name = 'burst'`},
		{`UPDATE guardd_limits_rules SET routes = '{"GET /": "five"}' WHERE name = 'burst'`, "rules[burst].routes", `UPDATE guardd_limits_rules SET routes = '{}' WHERE name = 'burst'`},
		{`UPDATE guardd_limits_rules SET failure = 'maybe' WHERE name = 'burst'`, "rules[burst].failure", `UPDATE guardd_limits_rules SET failure = 'local' WHERE name = 'burst'`},
		{`UPDATE guardd_limits_rules SET kind = 'speed' WHERE name = 'burst'`, "rules[burst].kind", `UPDATE guardd_limits_rules SET kind = 'rate' WHERE name = 'burst'`},
		{`UPDATE guardd_limits_rules SET settings = '{"slots": 3}' WHERE name = 'burst'`, "rules[burst].settings", `UPDATE guardd_limits_rules SET settings = '{}' WHERE name = 'burst'`},
		{`UPDATE guardd_limits_plans SET rules = '["daily", "burst", "none"]' WHERE name = 'free'`, "plans[free].rules[2]", `UPDATE guardd_limits_plans SET rules = '["daily", "burst"]' WHERE name = 'free'`},
		{`UPDATE guardd_limits_plans SET rules = 'daily, burst' WHERE name = 'free'`, "plans[free].rules", `UPDATE guardd_limits_plans SET rules = '["daily", "burst"]' WHERE name = 'free'`},
		{`UPDATE guardd_limits_keys SET overrides = '[{"rule": "burst", "capacty": 3}]' WHERE plan = 'free'`, "keys[" + key + "].overrides", `UPDATE guardd_limits_keys SET overrides = '[]' WHERE plan = 'free'`},
		{`UPDATE guardd_limits_keys SET plan = 'none' WHERE plan = 'free'`, "keys[" + key + "].plan", `UPDATE guardd_limits_keys SET plan = 'free' WHERE plan = 'none'`},
	} {
		p.console(t, c.statement)
		w.until(c.statement, func(b *plans.Book, bad plans.Faults) bool {
			rules, ps, ks := b.Sizes()
			return len(bad) == 1 && bad.On(c.field) && rules == 3 && ps == 2 && ks == 2
		})
		e := plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "requests", Capacity: say(int64(601))}}
		if _, err := db.Change(t.Context(), order(e.Apply)); err != nil {
			t.Errorf("%s: another row cannot be changed: %v", c.statement, err)
		}
		e.Rule.Capacity = say(int64(600))
		if _, err := db.Change(t.Context(), order(e.Apply)); err != nil {
			t.Error(err)
		}
		p.console(t, c.heal)
		w.until(c.heal, func(b *plans.Book, bad plans.Faults) bool { return len(bad) == 0 })
	}
	p.console(t, `UPDATE guardd_limits_keys SET sha256 = upper(sha256)`)
	w.until("keys in upper case", func(b *plans.Book, bad plans.Faults) bool {
		return len(bad) == 2 && bad[0].Field[len(bad[0].Field)-7:] == ".sha256"
	})
	p.console(t, `UPDATE guardd_limits_rules SET routes = '{' WHERE name = 'burst'`)
	e := plans.Edit{Action: plans.Delete, Rule: &plans.RuleEdit{Name: "burst"}}
	var bad plans.Faults
	if _, err := db.Change(t.Context(), order(e.Apply)); err == nil {
		t.Error("a rule that a plan needs was deleted")
	} else if !errors.As(err, &bad) {
		t.Error(err)
	}
	e = plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "burst", Capacity: say(int64(50)), Refill: say("10/1s")}}
	if _, err := db.Change(t.Context(), order(e.Apply)); err != nil {
		t.Errorf("made anew: %v", err)
	}
}

func newer(t *testing.T, p place) {
	db := connect(t, p)
	put(t, db, full())
	p.console(t, `INSERT INTO guardd_limits_schema (version) VALUES (1000)`)
	if err := db.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	_, d := load(t, db)
	same(t, d, full())
	if _, err := db.Change(t.Context(), order(replace(&plans.Definition{}))); !errors.Is(err, plans.ErrNewer) {
		t.Errorf("%v", err)
	}
}

func deleted(t *testing.T, p place) {
	db := connect(t, p)
	put(t, db, full())
	w := follow(t, db, plandb.FollowConfig{Every: 20 * time.Millisecond})
	w.until("the first reading", hasRules(3))
	records := put(t, db, &plans.Definition{})
	w.until("the end of all", hasRules(0))
	if len(records) != 7 {
		t.Errorf("%+v", records)
	}
}

func emptyAtFirst(t *testing.T, p place) {
	w := follow(t, mustOpen(t, p.url), plandb.FollowConfig{Every: 20 * time.Millisecond})
	w.until("the first reading", hasRules(0))
	put(t, mustOpen(t, p.url), full())
	w.until("a change", hasRules(3))
	if errs := w.failures(); len(errs) > 0 {
		t.Error(errs)
	}
}

// Who are customers, and who changed what, is nobody's business.
func TestAFileIsItsOwnersAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.db")
	put(t, connect(t, place{url: file}), full())
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}
