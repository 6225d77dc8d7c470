package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

// desk is a real one over a store in memory, by a clock that the test owns.
type desk struct {
	*operate.Desk
	guard *escalation.Guard
	clock atomic.Int64
	wrong error // with the configuration
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{}
	d.clock.Store(1_800_000_000 * keys.Second)
	store := keys.NewMemory(keys.MemoryConfig{Now: d.clock.Load})
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	p := escalation.DefaultPolicy()
	p.Realms["shop"] = &escalation.Realm{Delivery: escalation.Delivery{Driver: "log"},
		Lists: escalation.Lists{Deny: []escalation.ListEntry{{CIDR: "198.51.100.66", Reason: "old"}}}}
	d.guard, err = escalation.New(escalation.Config{Store: store, Records: store, Codes: store, Tallies: store, Policy: p, Secrets: secrets, Now: d.clock.Load})
	if err != nil {
		t.Fatal(err)
	}
	d.Desk = operate.New(operate.Config{Guard: d.guard, Store: store, Realms: func() []string { return []string{"default", "shop"} },
		Reload: func(bool) error { return d.wrong }}, "0123456789abcdef")
	return d
}

// startAdmin is a running admin listener whose every answer is held against
// openapi.yaml.
func startAdmin(t *testing.T, c api.OperatorsConfig) *service {
	t.Helper()
	return startWith(t, func(base api.Config) http.Handler {
		c.Log, c.Observer = base.Log, base.Observer
		return api.Admin(api.AdminConfig{Operators: &c})
	}, api.Config{Observer: c.Observer})
}

// do is any request with a body.
func (s *service) do(method, path, body string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(r, body)
}

func ofRole(name string, role api.Role, realms ...string) api.Key {
	k := key(name, name, realms...)
	k.Role = role
	return k
}

// everything is a request of each kind that succeeds, and whether it changes.
var everything = []struct {
	method, path, body string
	changes            bool
}{
	{"POST", api.RouteExplain, `{"account":"alice","ip":"203.0.113.7"}`, false},
	{"GET", api.RouteStatus, "", false},
	{"POST", api.RouteClear, `{"account":"alice","ip":"203.0.113.7","reason":"a ticket"}`, true},
	{"PUT", "/admin/v1/lists/deny", `{"cidr":"192.0.2.0/24","reason":"a scan","expires_at":"2030-01-01T00:00:00Z"}`, true},
	{"GET", "/admin/v1/lists/deny?realm=default", "", false},
	{"DELETE", "/admin/v1/lists/deny", `{"cidr":"192.0.2.0/24","reason":"over"}`, true},
	{"PUT", api.RoutePosture, `{"posture":"high","expires_in":"1h","reason":"a leak"}`, true},
	{"GET", api.RoutePosture, "", false},
	{"DELETE", api.RoutePosture, `{"reason":"over"}`, true},
	{"POST", api.RouteReload, `{"reason":"new limits"}`, true},
	{"GET", api.RouteAudit + "?limit=10", "", false},
	{"POST", api.RouteLimitsExplain, `{"key":"nobody"}`, false},
}

func TestOperatorsAreServedByRole(t *testing.T) {
	ks := []api.Key{key("shop", "shop"), ofRole("reader", api.RoleRead), ofRole("ops", api.RoleOperate)}
	for _, row := range []struct {
		name, key   string
		keys        []api.Key
		loopback    bool
		reads, does int
	}{
		{"operate", "ops", ks, false, 200, 200},
		{"read", "reader", ks, false, 200, 403},
		{"a service's key", "shop", ks, true, 403, 403},
		{"an unknown key", "nobody", ks, true, 401, 401},
		{"no key where some have roles", "", ks, true, 401, 401},
		{"no key on loopback", "", ks[:1], true, 200, 200},
		{"no key elsewhere", "", ks[:1], false, 401, 401},
		{"no keys at all elsewhere", "", nil, false, 401, 401},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDesk(t)
			s := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Keys: row.keys, Loopback: row.loopback})
			s.key = row.key
			for _, q := range everything {
				want := row.reads
				if q.changes {
					want = row.does
				}
				a := s.do(q.method, q.path, q.body)
				switch {
				case want == 401:
					a.problem(t, 401, client.ProblemUnauthorized)
				case want == 403:
					a.problem(t, 403, client.ProblemRole)
				case a.StatusCode != want:
					t.Errorf("%s %s: answered %d %s, want %d", q.method, q.path, a.StatusCode, a.body, want)
				}
			}
			if n := len(d.audit(t)); (n > 0) != (row.does == 200) {
				t.Errorf("the audit has %d entries", n)
			}
		})
	}
}

func (d *desk) audit(t *testing.T) []operate.Record {
	t.Helper()
	all, err := d.Audit(t.Context(), &operate.Who{}, "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A page whose name has been made to lead to this machine must not operate.
func TestWithoutKeysTheRequestIsForThisMachine(t *testing.T) {
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, Loopback: true})
	for host, want := range map[string]int{"127.0.0.1:8081": 200, "localhost:8081": 200, "[::1]:8081": 200, "[::1]": 200, "localhost": 200,
		"evil.example:8081": 403, "evil.example": 403, "localhost.evil.example": 403, "[": 403, "": 403} {
		r, _ := http.NewRequest(http.MethodGet, s.url+api.RoutePosture, nil)
		r.Host = host
		if host == "" {
			r.Host = "x" // net/http fills in what is empty
		}
		if a := s.send(r, ""); a.StatusCode != want && a.StatusCode != 400 || want == 200 && a.StatusCode != 200 {
			t.Errorf("Host %q: %d, want %d", host, a.StatusCode, want)
		}
	}
	r, _ := http.NewRequest(http.MethodPost, s.url+api.RouteExplain, strings.NewReader(`{"account":"a"}`))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	s.send(r, `{"account":"a"}`).problem(t, 403, client.ProblemBrowser)
}

// A key acts for its realms; who acts for some only has no say in what is all's.
func TestAnOperatorsRealms(t *testing.T) {
	d := newDesk(t)
	s := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Keys: []api.Key{ofRole("shopkeeper", api.RoleOperate, "shop"), ofRole("ops", api.RoleOperate)}})
	for _, q := range everything {
		s.key = "shopkeeper"
		if strings.HasPrefix(q.path, api.RouteAudit) {
			continue // shows what is theirs
		}
		s.do(q.method, q.path, q.body).problem(t, 403, client.ProblemForbidden)
		if q.path == api.RouteReload || q.path == api.RouteLimitsExplain || q.method == "GET" {
			continue
		}
		body := strings.Replace(q.body, "{", `{"realm":"shop",`, 1)
		if a := s.do(q.method, q.path, body); a.StatusCode != 200 {
			t.Errorf("%s %s %s: %d %s", q.method, q.path, body, a.StatusCode, a.body)
		}
	}
	s.key = "ops"
	s.do("PUT", api.RoutePosture, `{"posture":"high","expires_in":"1h","reason":"a leak"}`)
	s.key = "shopkeeper"
	seen := read[struct{ Entries []operate.Record }](t, s.do("GET", api.RouteAudit, ""))
	for _, e := range seen.Entries {
		if e.Realm != "shop" || e.By != "shopkeeper" {
			t.Errorf("sees %+v", e)
		}
	}
	if len(seen.Entries) != 5 {
		t.Errorf("%d entries", len(seen.Entries))
	}
}

func TestWhatOperatorsGetWrongIsNamed(t *testing.T) {
	d := newDesk(t)
	s := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Loopback: true})
	many := make([]string, escalation.MaxListed+1)
	for i := range many {
		many[i] = fmt.Sprintf("10.%d.%d.0/32", i/256, i%256)
	}
	for _, row := range []struct{ method, path, body, want string }{
		{"POST", api.RouteExplain, `{}`, "account: missing"},
		{"POST", api.RouteExplain, `{"account":"a","realm":"nowhere"}`, "realm: unknown"},
		{"POST", api.RouteExplain, `{"account":"a","flow":"nothing"}`, "flow: unknown"},
		{"POST", api.RouteExplain, `{"account":"a","acount":"b"}`, "acount: unknown_field"},
		{"POST", api.RouteExplain, `{"account":7}`, "account: wrong_type"},
		{"POST", api.RouteExplain, `{"ip":"home.example"}`, "ip: not_an_address"},
		{"POST", api.RouteExplain, `{"network":"203.0.113.0/25"}`, "network: not_network"},
		{"POST", api.RouteExplain, `{"device":"x"}`, "device: invalid"},
		{"POST", api.RouteExplain, `{"decision":"x"}`, "decision: unknown"},
		{"POST", api.RouteClear, `{"account":"a"}`, "reason: missing"},
		{"POST", api.RouteClear, `{"account":"a","reason":"` + strings.Repeat("x", 201) + `"}`, "reason: too_long"},
		{"PUT", "/admin/v1/lists/deny", `{"cidr":"192.0.2.1/24","reason":"r"}`, "cidr: "},
		{"PUT", "/admin/v1/lists/deny", `{"cidr":"0.0.0.0/0","reason":"r"}`, "cidr: "},
		{"PUT", "/admin/v1/lists/deny", `{"reason":"r"}`, "cidr: missing"},
		{"PUT", "/admin/v1/lists/deny", `{"cidr":"192.0.2.1","expires_at":"2020-01-01T00:00:00Z","reason":"r"}`, "expires_at: past"},
		{"PUT", "/admin/v1/lists/deny", `{"cidr":"192.0.2.1","expires_at":"tomorrow","reason":"r"}`, "expires_at: wrong_type"},
		{"PUT", "/admin/v1/lists/deny", `{"cidrs":["` + strings.Join(many, `","`) + `"],"reason":"r"}`, "cidrs: too_many"},
		{"PUT", "/admin/v1/lists/grey", `{"cidr":"192.0.2.1","reason":"r"}`, "list: unknown"},
		{"GET", "/admin/v1/lists/grey", "", "list: unknown"},
		{"DELETE", "/admin/v1/lists/deny", `{"realm":"shop","cidr":"198.51.100.66","reason":"r"}`, "cidr: in_policy"},
		{"PUT", api.RoutePosture, `{"posture":"worse","expires_in":"1h","reason":"r"}`, "posture: unknown"},
		{"PUT", api.RoutePosture, `{"posture":"high","reason":"r"}`, "expires_in: missing"},
		{"PUT", api.RoutePosture, `{"posture":"high","expires_in":"721h","reason":"r"}`, "expires_in: out_of_range"},
		{"GET", api.RoutePosture + "?relam=shop", "", "relam: unknown_field"},
		{"GET", api.RoutePosture + "?realm=shop&realm=default", "", "realm: duplicate"},
		{"GET", api.RouteAudit + "?limit=many", "", "limit: not_a_number"},
		{"GET", api.RouteAudit + "?limit=1001", "", "limit: out_of_range"},
		{"GET", api.RouteAudit + "?before=-1", "", "before: out_of_range"},
	} {
		got := s.do(row.method, row.path, row.body).problem(t, 400, client.ProblemInvalid)
		if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, row.want) }) {
			t.Errorf("%s %s %.80s: %q, want %s", row.method, row.path, row.body, got, row.want)
		}
	}
	s.do("PUT", "/admin/v1/lists/deny", `{"reason":"`+strings.Repeat("x", api.MaxOperatorBody)+`"}`).problem(t, 413, client.ProblemTooLarge)
	s.do("PATCH", api.RoutePosture, "").problem(t, 405, client.ProblemMethod)
	d.wrong = escalation.Faults{{Field: "realms.default.normalise", Reason: "must be exact, fold or email"}}
	if got := s.do("POST", api.RouteReload, `{"reason":"r"}`).problem(t, 400, client.ProblemInvalid); !slices.Equal(got, []string{"realms.default.normalise: must be exact, fold or email"}) {
		t.Errorf("a wrong configuration: %q", got)
	}
	if all := d.audit(t); len(all) > 0 {
		t.Errorf("the audit has what was refused: %+v", all)
	}
}

// Every change is idempotent, and says with dry_run what it would do and does it not.
func TestChangesAreMadeOnceAndTriedWithout(t *testing.T) {
	d := newDesk(t)
	told := &told{}
	s := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Loopback: true, Observer: told})
	spend := func() {
		for range 8 {
			if _, err := d.guard.Check(t.Context(), &escalation.Attempt{Account: "alice", IP: "203.0.113.7"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	spend()
	if x := read[operate.Explained](t, s.do("POST", api.RouteExplain, `{"account":"alice","ip":"203.0.113.7"}`)); x.Action == escalation.ActionAllow || len(x.Changes) == 0 || len(x.Limits) == 0 {
		t.Errorf("explained as %+v", x)
	}
	for _, q := range everything {
		if !q.changes || q.path == api.RouteReload {
			continue
		}
		type changed struct {
			Changed bool  `json:"changed"`
			DryRun  bool  `json:"dry_run"`
			Seq     int64 `json:"seq"`
		}
		dry := strings.Replace(q.body, "{", `{"dry_run":true,`, 1)
		for i, want := range []changed{{true, true, 0}, {true, true, 0}, {true, false, 1}, {false, false, 1}, {false, true, 0}} {
			body := q.body
			if want.DryRun {
				body = dry
			}
			got := *read[changed](t, s.do(q.method, q.path, body))
			got.Seq = min(got.Seq, 1)
			if got != want {
				t.Errorf("%s %s, try %d: %+v, want %+v", q.method, q.path, i, got, want)
			}
		}
	}
	if all := d.audit(t); len(all) != 10 || all[0].By != "loopback" || all[0].Reason != "over" || all[0].Action != operate.ActionRelease {
		t.Errorf("%d entries, the last %+v", len(all), all[0])
	}
	if !slices.Contains(told.answered, api.RouteLists) || !slices.Contains(told.answered, api.RouteClear) {
		t.Errorf("told of %q", told.answered)
	}
	if log := s.log.String(); strings.Contains(log, "alice") {
		t.Errorf("a name is logged: %s", log)
	}
}
