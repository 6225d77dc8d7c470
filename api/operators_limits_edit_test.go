package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

func limitsDB(t *testing.T) *plandb.DB {
	t.Helper()
	db, err := plandb.Open(filepath.Join(t.TempDir(), "limits.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

const someKey = "6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e"

// limitsOrders are changes of each kind, in an order in which they succeed.
var limitsOrders = []struct{ method, path, body, changes string }{
	{"POST", api.RouteLimitsRules, `{"name":"burst","capacity":50,"refill":"10/1s","reason":"r"}`, `create rule burst`},
	{"POST", api.RouteLimitsRules, `{"name":"daily","capacity":90,"refill":"90/24h","routes":{"GET /search":5,"*":1},"failure":"closed","reason":"r"}`, `create rule daily`},
	{"PATCH", api.RouteLimitsRules, `{"name":"daily","routes":{},"refund":"none","reason":"r"}`, `change rule daily`},
	{"POST", api.RouteLimitsPlans, `{"name":"free","rules":["burst"],"reason":"r"}`, `create plan free`},
	{"PATCH", api.RouteLimitsPlans, `{"name":"free","rules":["burst","daily"],"reason":"r"}`, `change plan free`},
	{"POST", api.RouteLimitsKeys, `{"sha256":"` + someKey + `","plan":"free","reason":"r"}`, `create key ` + someKey},
	{"PATCH", api.RouteLimitsKeys, `{"sha256":"` + someKey + `","overrides":[{"rule":"burst","capacity":70}],"state":"suspended","reason":"r"}`, `change key ` + someKey},
	{"PUT", api.RouteLimits, `{"definition":{"rules":[{"name":"hourly","capacity":5,"refill":"5/1h"}]},"merge":true,"reason":"r"}`, `create rule hourly`},
	{"DELETE", api.RouteLimitsKeys, `{"sha256":"` + someKey + `","reason":"r"}`, `delete key ` + someKey},
	{"DELETE", api.RouteLimitsPlans, `{"name":"free","reason":"r"}`, `delete plan free`},
	{"DELETE", api.RouteLimitsRules, `{"name":"daily","reason":"r"}`, `delete rule daily`},
	{"POST", api.RouteLimitsRules, `{"name":"inflight","kind":"concurrency","capacity":20,"ttl":"30s","reason":"r"}`, `create rule inflight`},
	{"PATCH", api.RouteLimitsRules, `{"name":"inflight","ttl":"","reason":"r"}`, `change rule inflight`},
	{"DELETE", api.RouteLimitsRules, `{"name":"inflight","reason":"r"}`, `delete rule inflight`},
	{"PUT", api.RouteLimits, `{"definition":{},"reason":"over"}`, `delete rule burst, delete rule hourly`},
}

type limitsAnswer struct {
	Version         int64
	DryRun, Changed bool
	Changes         []struct {
		Action, Kind, Name string
		By, Reason         string
		At                 time.Time
		Before, After      json.RawMessage
	}
	Key string
}

func (a *limitsAnswer) said() string {
	var all []string
	for _, c := range a.Changes {
		all = append(all, c.Action+" "+c.Kind+" "+c.Name)
	}
	return strings.Join(all, ", ")
}

// Each change is made once, tried without, signed, and seen by who lists them.
func TestOperatorsChangePlanLimits(t *testing.T) {
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, LimitsStore: limitsDB(t), Loopback: true})
	version := int64(0)
	for _, o := range limitsOrders {
		dry := *read[limitsAnswer](t, s.do(o.method, o.path, strings.Replace(o.body, "{", `{"dry_run":true,`, 1)))
		if dry.said() != o.changes || !dry.Changed || dry.Version != 0 {
			t.Errorf("%s %s %s, tried without: %+v", o.method, o.path, o.body, dry)
		}
		a := *read[limitsAnswer](t, s.do(o.method, o.path, o.body))
		if a.said() != o.changes || !a.Changed || a.Version <= version || a.Key != "" {
			t.Errorf("%s %s %s: %+v", o.method, o.path, o.body, a)
		}
		version = a.Version
		if again := s.do(o.method, o.path, o.body); o.method == "DELETE" {
			again.problem(t, 404, client.ProblemNoRow)
		} else if a := *read[limitsAnswer](t, again); a.Changed || len(a.Changes) > 0 {
			t.Errorf("%s %s %s, again: %+v", o.method, o.path, o.body, a)
		}
	}
	all := read[limitsAnswer](t, s.do("GET", api.RouteLimitsChanges, "")).Changes
	if len(all) != len(limitsOrders)+1 || all[0].By != "loopback" || all[0].Reason != "over" || all[0].At.IsZero() || string(all[0].Before) == "" {
		t.Errorf("%d changes, the last %+v", len(all), all[0])
	}
	if one := read[limitsAnswer](t, s.do("GET", api.RouteLimitsChanges+"?limit=1&since=2026-01-01T00:00:00Z", "")).Changes; len(one) != 1 {
		t.Errorf("at most one: %+v", one)
	}
	if none := read[limitsAnswer](t, s.do("GET", api.RouteLimitsChanges+"?since=2100-01-01T00:00:00Z", "")).Changes; len(none) != 0 {
		t.Errorf("of the future: %+v", none)
	}
}

// A made up key is shown once, and what is listed can be brought back.
func TestOperatorsMakeKeysAndMoveLimits(t *testing.T) {
	db := limitsDB(t)
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, LimitsStore: db, Loopback: true})
	for _, o := range limitsOrders[:4] {
		s.do(o.method, o.path, o.body)
	}
	if dry := read[limitsAnswer](t, s.do("POST", api.RouteLimitsKeys, `{"plan":"free","reason":"r","dry_run":true}`)); dry.Key != "" || !dry.Changed {
		t.Errorf("tried without: %+v", dry)
	}
	made := read[limitsAnswer](t, s.do("POST", api.RouteLimitsKeys, `{"name":"shop","plan":"free","reason":"r"}`))
	_, d, err := db.Load(t.Context())
	if err != nil || len(d.Keys) != 1 || made.Key == "" || d.Keys[0].SHA256 != plans.Digest(sha256.Sum256([]byte(made.Key))) {
		t.Fatalf("%+v, %+v, %v", made, d, err)
	}
	listed := s.do("GET", api.RouteLimits, "")
	if strings.Contains(listed.body, made.Key) || strings.Contains(s.log.String(), made.Key) {
		t.Error("the key is told again")
	}
	all := read[struct {
		Version    int64
		Definition json.RawMessage
		Bad        []plans.Fault
	}](t, listed)
	s.do("PUT", api.RouteLimits, `{"definition":{},"reason":"r"}`)
	if back := read[limitsAnswer](t, s.do("PUT", api.RouteLimits, `{"definition":`+string(all.Definition)+`,"reason":"r"}`)); len(back.Changes) != 4 || len(all.Bad) != 0 {
		t.Errorf("brought back: %+v, bad %v", back, all.Bad)
	}
}

func TestWhatOperatorsGetWrongOfPlanLimitsIsNamed(t *testing.T) {
	db := limitsDB(t)
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, LimitsStore: db, Loopback: true})
	for _, o := range limitsOrders[:7] {
		s.do(o.method, o.path, o.body)
	}
	before, _, _ := db.Load(t.Context())
	for _, row := range []struct{ method, path, body, want string }{
		{"POST", api.RouteLimitsRules, `{"name":"x","refill":"1/1s","reason":"r"}`, "capacity: "},
		{"POST", api.RouteLimitsRules, `{"name":"x y","capacity":1,"refill":"1/1s","reason":"r"}`, "name: "},
		{"POST", api.RouteLimitsRules, `{"name":"x","capacity":1,"refill":"1/1s"}`, "reason: "},
		{"POST", api.RouteLimitsRules, `{"name":"x","capacity":1,"refil":"1/1s","reason":"r"}`, "refil: unknown_field"},
		{"POST", api.RouteLimitsRules, `{"name":"x","capacity":"1","refill":"1/1s","reason":"r"}`, "capacity: wrong_type"},
		{"PATCH", api.RouteLimitsRules, `{"name":"burst","capacity":0,"reason":"r"}`, "capacity: "},
		{"PATCH", api.RouteLimitsRules, `{"name":"burst","capacity":-3,"reason":"r"}`, "capacity: "},
		{"PATCH", api.RouteLimitsRules, `{"name":"burst","refill":"0/1s","reason":"r"}`, "refill: "},
		{"PATCH", api.RouteLimitsRules, `{"name":"burst","capacity":9007199254740993,"refill":"1/8760h","reason":"r"}`, "capacity: "},
		{"PATCH", api.RouteLimitsRules, `{"name":"burst","routes":{"GET /":-1},"reason":"r"}`, "routes[GET /]: "},
		{"PATCH", api.RouteLimitsRules, `{"name":"burst","failure":"maybe","reason":"r"}`, "failure: "},
		{"DELETE", api.RouteLimitsRules, `{"name":"burst","reason":"r"}`, "plans[free].rules[0]: "},
		{"POST", api.RouteLimitsPlans, `{"name":"x","rules":["none"],"reason":"r"}`, "rules[0]: "},
		{"PATCH", api.RouteLimitsPlans, `{"name":"free","rules":["daily"],"reason":"r"}`, "keys[" + someKey + "].overrides[0].rule: "},
		{"POST", api.RouteLimitsKeys, `{"plan":"none","reason":"r"}`, "plan: "},
		{"POST", api.RouteLimitsKeys, `{"sha256":"12","plan":"free","reason":"r"}`, "sha256: wrong_type"},
		{"PATCH", api.RouteLimitsKeys, `{"plan":"free","reason":"r"}`, "sha256: missing"},
		{"PATCH", api.RouteLimitsKeys, `{"sha256":"` + someKey + `","overrides":[{"rule":"burst","capacity":0}],"reason":"r"}`, "overrides[0].capacity: "},
		{"PUT", api.RouteLimits, `{"definition":{"rules":[{"name":"burst","capacity":0,"refill":"1/1s"}]},"merge":true,"reason":"r"}`, "rules[burst].capacity: "},
		{"GET", api.RouteLimitsChanges + "?since=yesterday", "", "since: not_a_time"},
		{"GET", api.RouteLimitsChanges + "?limit=0", "", "limit: out_of_range"},
		{"GET", api.RouteLimitsChanges + "?from=x", "", "from: unknown_field"},
	} {
		got := s.do(row.method, row.path, row.body).problem(t, 400, client.ProblemInvalid)
		if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, row.want) }) {
			t.Errorf("%s %s %s: %q, want %s", row.method, row.path, row.body, got, row.want)
		}
	}
	s.do("POST", api.RouteLimitsRules, `{"name":"burst","capacity":1,"refill":"1/1s","reason":"r"}`).problem(t, 409, client.ProblemExists)
	s.do("PATCH", api.RouteLimitsRules, `{"name":"none","capacity":1,"reason":"r"}`).problem(t, 404, client.ProblemNoRow)
	if after, _, _ := db.Load(t.Context()); after != before {
		t.Errorf("version %d became %d", before, after)
	}
	db.Close()
	s.do("GET", api.RouteLimits, "").problem(t, 503, client.ProblemStore)
	s.do("DELETE", api.RouteLimitsRules, `{"name":"daily","reason":"r"}`).problem(t, 503, client.ProblemStore)
}

// Plan limits are of no realm: who acts for some has no say in them.
func TestWhoMayChangePlanLimits(t *testing.T) {
	ks := []api.Key{key("shop", "shop"), ofRole("reader", api.RoleRead), ofRole("ops", api.RoleOperate), ofRole("shopkeeper", api.RoleOperate, "shop")}
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, LimitsStore: limitsDB(t), Keys: ks})
	refused := map[string]string{"shop": client.ProblemRole, "reader": client.ProblemRole, "shopkeeper": client.ProblemForbidden}
	for _, o := range limitsOrders {
		for name, why := range refused {
			s.key = name
			s.do(o.method, o.path, o.body).problem(t, 403, why)
		}
		s.key = "ops"
		if a := s.do(o.method, o.path, o.body); a.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %d %s", o.method, o.path, a.StatusCode, a.body)
		}
	}
	delete(refused, "reader")
	for _, path := range []string{api.RouteLimits, api.RouteLimitsChanges} {
		for name, why := range refused {
			s.key = name
			s.do("GET", path, "").problem(t, 403, why)
		}
		s.key = "reader"
		if a := s.do("GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if by := read[limitsAnswer](t, s.do("GET", api.RouteLimitsChanges, "")).Changes[0].By; by != "ops" {
		t.Errorf("the audit says %q", by)
	}
}

func TestWithoutADatabaseOfPlanLimitsThatIsSaid(t *testing.T) {
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, Loopback: true})
	for _, o := range limitsOrders {
		s.do(o.method, o.path, o.body).problem(t, 404, client.ProblemNoLimits)
	}
	s.do("GET", api.RouteLimits, "").problem(t, 404, client.ProblemNoLimits)
	s.do("GET", api.RouteLimitsChanges, "").problem(t, 404, client.ProblemNoLimits)
}
