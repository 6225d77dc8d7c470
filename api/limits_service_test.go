package api_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// counter is plan limits over HTTP, as services meet them, on an owned clock.
type counter struct {
	*service
	now int64
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{now: 1_800_000_000 * keys.Second}
	clock := func() int64 { return c.now }
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	taker := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{Now: clock}), Sealer: secrets.Reservations(), Slots: secrets.Slots(), Now: clock,
		Hash: func(d plans.Digest) keys.Account { return keys.Account(d[:16]) }})
	b, faults := plans.Compile(&plans.Definition{
		Rules: []plans.Rule{{Name: "burst", Capacity: 5, Refill: "1/400ms"}, {Name: "day", Capacity: 100, Refill: "100/24h"}, {Name: "dear", Capacity: 9_000_000_000_000_000, Refill: "1/1us"},
			{Name: "inflight", Kind: plans.Concurrency, Capacity: 2}},
		Plans: []plans.Plan{{Name: "free", Rules: []string{"burst", "day"}}},
		Keys:  []plans.Key{{SHA256: sha256.Sum256([]byte("acme")), Plan: "free"}, {SHA256: sha256.Sum256([]byte("stopped")), Plan: "free", State: plans.Suspended}},
	}, "1", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	taker.Swap(b)
	c.service = start(t, api.Config{Guard: allowing(), Limits: taker})
	return c
}

func (c *counter) take(body string) (*client.TakeResponse, http.Header) {
	c.t.Helper()
	a := c.post(api.RouteTake, body)
	return read[client.TakeResponse](c.t, a), a.Header
}

// rateFields are the fields of an answer that are about limits.
var rateFields = []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}

// The answer's headers, those in its body and its figures are of one decision:
// read by somebody else's parser (RFC 9651), they agree.
func TestATakeSaysTheSameInItsHeadersAndItsBody(t *testing.T) {
	c := newCounter(t)
	refused := 0
	for n := range 40 {
		body := fmt.Sprintf(`{"key":"acme","cost":%d}`, n%4)
		a, h := c.take(body)
		sent := map[string]string{}
		for _, name := range rateFields {
			if v := h.Get(name); v != "" {
				sent[name] = v
			}
		}
		if !reflect.DeepEqual(sent, a.Headers) {
			t.Fatalf("%s: sent %v, in the body %v", body, sent, a.Headers)
		}
		policy, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
		if err != nil {
			t.Fatal(err)
		}
		state, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
		if err != nil || len(state) != 2 || len(policy) != 2 {
			t.Fatalf("%v, %v: %v", policy, state, err)
		}
		of := func(l httpsfv.List, i int, param string) int64 {
			v, _ := l[i].(httpsfv.Item).Params.Get(param)
			n, ok := v.(int64)
			if !ok && (param != "t") {
				t.Errorf("%s: %v has no whole %s", body, l[i], param)
			}
			return n
		}
		for i := range state {
			name := state[i].(httpsfv.Item).Value.(string)
			j := slices.IndexFunc(a.Limits, func(l client.LimitLevel) bool { return l.Rule == name })
			if j < 0 || policy[i].(httpsfv.Item).Value != name || of(policy, i, "q") != a.Limits[j].Limit || of(state, i, "r") != a.Limits[j].Remaining {
				t.Errorf("%s: %v and %v, in the body %+v", body, policy[i], state[i], a.Limits)
			}
			if w := map[string]int64{"burst": 2, "day": 86400}[name]; of(policy, i, "w") != w {
				t.Errorf("%s: %v fills in %d s", body, policy[i], w)
			}
		}
		if state[0].(httpsfv.Item).Value != a.Rule || h.Get("X-RateLimit-Remaining") != strconv.FormatInt(a.Remaining, 10) || h.Get("X-RateLimit-Limit") != strconv.FormatInt(a.Limit, 10) ||
			h.Get("X-RateLimit-Reset") != strconv.FormatInt((a.ResetAfterMS+999)/1000, 10) {
			t.Errorf("%s: %v, in the body %+v", body, h, a)
		}
		if a.Allowed {
			if h.Get("Retry-After") != "" || a.RetryAfterMS != 0 {
				t.Errorf("%s: allowed, and %q", body, h.Get("Retry-After"))
			}
			continue
		}
		refused++
		retry, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
		if err != nil || retry < 1 || retry*1000 < a.RetryAfterMS || retry != of(state, 0, "t") || a.Remaining >= int64(max(n%4, 1)) { // a look asks for one
			t.Errorf("%s: Retry-After %q, %d ms, %v, %d left", body, h.Get("Retry-After"), a.RetryAfterMS, state, a.Remaining)
		}
		c.now += retry * keys.Second
		if again, _ := c.take(body); !again.Allowed {
			t.Errorf("%s: refused after Retry-After %d", body, retry)
		}
	}
	if refused < 5 {
		t.Errorf("only %d refused", refused)
	}
}

// Whoever reads the document learns which draft the fields are of.
func TestTheDocumentNamesTheDraft(t *testing.T) {
	h := document(t).Paths.Find(api.RouteTake).Post.Responses.Status(200).Value.Headers["RateLimit-Policy"].Value
	if !strings.Contains(h.Description, limits.Draft) {
		t.Errorf("%q does not name %s", h.Description, limits.Draft)
	}
}

func TestWhatNoRuleDecidesHasNoLimitFields(t *testing.T) {
	c := newCounter(t)
	a, h := c.take(`{"key":"stopped"}`)
	if a.Allowed || a.Reason != plans.ReasonSuspended || h.Get("RateLimit") != "" || h.Get("Retry-After") != "" {
		t.Errorf("%+v %v", a, h)
	}
	impossible := c.post(api.RouteTake, `{"key":"acme","cost":6}`)
	impossible.problem(t, http.StatusUnprocessableEntity, client.ProblemImpossible)
	if impossible.Header.Get("Retry-After") != "" {
		t.Errorf("a cost above capacity can be repeated after %s", impossible.Header.Get("Retry-After"))
	}
	c.post(api.RouteTake, `{"key":"x","rule":"none"}`).problem(t, http.StatusNotFound, client.ProblemUnknownRule)
	if a, _ := c.take(`{"key":"acme","cost":0}`); a.Remaining != 5 {
		t.Errorf("refusals took something: %+v", a)
	}
}

// Each bad number, and each bad word, is refused where it is written.
func TestBadTakesAndSettlementsNameTheirField(t *testing.T) {
	c := newCounter(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, row := range []struct{ path, body, want string }{
		{api.RouteTake, `{"rule":"day"}`, "key: empty"},
		{api.RouteTake, `{"key":"` + long(plans.MaxKey+1) + `","rule":"day"}`, "key: too_long"},
		{api.RouteTake, `{"key":"stranger"}`, "key: not_registered"},
		{api.RouteTake, `{"key":"k","rule":"day","cost":-1}`, "cost: negative"},
		{api.RouteTake, `{"key":"k","rule":"dear","cost":9007199254740993}`, "cost: too_large"},
		{api.RouteTake, `{"key":"k","rule":"day","cost":1.5}`, "cost: wrong_type"},
		{api.RouteTake, `{"key":"k","rule":"day","cost":"1"}`, "cost: wrong_type"},
		{api.RouteTake, `{"key":"k","rule":"day","cost":1e300}`, "cost: wrong_type"},
		{api.RouteTake, `{"key":"k","rule":"day","cost":0,"reserve":true}`, "cost: nothing_to_reserve"},
		{api.RouteTake, `{"key":"k","rule":"day","rules":["burst"]}`, "rules: not_with_rule"},
		{api.RouteTake, `{"key":"k","rules":["burst","burst"]}`, "rules[1]: named_twice"},
		{api.RouteTake, `{"key":"k","rules":["` + strings.Join(make([]string, plans.MaxRules+1), `","`) + `"]}`, "rules: too_many"},
		{api.RouteTake, `{"key":"k","rule":"day","route":"` + long(plans.MaxRoute+1) + `"}`, "route: too_long"},
		{api.RouteTake, `{"key":"k","rule":"day","request_id":"` + long(plans.MaxRequestID+1) + `"}`, "request_id: too_long"},
		{api.RouteTake, `{"key":"k","rule":"day","costs":1}`, "costs: unknown_field"},
		{api.RouteSettle, `{"cost":1}`, "reservation: empty"},
		{api.RouteSettle, `{"reservation":"bent","cost":1}`, "reservation: invalid"},
		{api.RouteSettle, `{"reservation":"bent","cost":-1}`, "cost: negative"},
		{api.RouteSettle, `{"reservation":"bent"}`, "cost: missing"},
		{api.RouteTake, `{"key":"k","rule":"inflight"}`, "rules[0]: is_concurrency"},
		{api.RouteAcquire, `{"rule":"inflight"}`, "key: empty"},
		{api.RouteAcquire, `{"key":"k","rule":"day"}`, "rules[0]: not_concurrency"},
		{api.RouteAcquire, `{"key":"k","rule":"inflight","rules":["inflight"]}`, "rules: not_with_rule"},
		{api.RouteAcquire, `{"key":"stranger"}`, "key: not_registered"},
		{api.RouteAcquire, `{"key":"k","rule":"inflight","ttl_ms":999}`, "ttl_ms: out_of_range"},
		{api.RouteAcquire, `{"key":"k","rule":"inflight","ttl_ms":-1}`, "ttl_ms: out_of_range"},
		{api.RouteAcquire, `{"key":"k","rule":"inflight","ttl_ms":9223372036854775807}`, "ttl_ms: out_of_range"},
		{api.RouteAcquire, `{"key":"k","rule":"inflight","ttl_ms":"1m"}`, "ttl_ms: wrong_type"},
		{api.RouteAcquire, `{"slot":"bent"}`, "slot: invalid"},
		{api.RouteRelease, `{"slot":"bent"}`, "slot: invalid"},
		{api.RouteRelease, `{}`, "slot: empty"},
	} {
		if got := c.post(row.path, row.body).problem(t, 400, client.ProblemInvalid); !slices.Contains(got, row.want) {
			t.Errorf("%.60s: %q, want %s", row.body, got, row.want)
		}
	}
}

// A request id of the same caller charges once, whatever is repeated; another
// body under it is a conflict that names it.
func TestARequestIDOverHTTP(t *testing.T) {
	c := newCounter(t)
	const body = `{"key":"acme","cost":2,"request_id":"one"}`
	first, sent := c.take(body)
	again, repeated := c.take(body)
	if !reflect.DeepEqual(first, again) || !slices.EqualFunc(rateFields, rateFields, func(a, b string) bool { return sent.Get(a) == repeated.Get(b) }) {
		t.Errorf("first %+v, again %+v", first, again)
	}
	got := c.post(api.RouteTake, `{"key":"acme","cost":1,"request_id":"one"}`).problem(t, http.StatusConflict, client.ProblemConflict)
	if !slices.Equal(got, []string{"request_id: conflict"}) {
		t.Errorf("%q", got)
	}
	if a, _ := c.take(`{"key":"acme","cost":0}`); a.Limits[0].Remaining != 3 {
		t.Errorf("charged more than once: %+v", a.Limits)
	}
}

// A reservation is settled once, and tells nobody what it is about.
func TestReservationsOverHTTP(t *testing.T) {
	c := newCounter(t)
	a, _ := c.take(`{"key":"acme","cost":4,"reserve":true}`)
	if a.Reservation == "" || strings.Contains(a.Reservation, "burst") || strings.Contains(a.Reservation, "acme") {
		t.Fatalf("reservation %q", a.Reservation)
	}
	settle := func(cost int) *client.SettleResponse {
		return read[client.SettleResponse](t, c.post(api.RouteSettle, fmt.Sprintf(`{"reservation":%q,"cost":%d}`, a.Reservation, cost)))
	}
	if s := settle(1); !s.Settled || s.Duplicate || s.Charged != 1 || s.Remaining != 4 {
		t.Errorf("%+v", s)
	}
	if s := settle(0); s.Settled || !s.Duplicate || s.Remaining != 4 {
		t.Errorf("twice: %+v", s)
	}
	if a, _ := c.take(`{"key":"acme","cost":2}`); a.Reservation != "" || !a.Allowed {
		t.Errorf("%+v", a)
	}
	bent := []byte(a.Reservation)
	bent[len(bent)/2] ^= 1
	c.post(api.RouteSettle, fmt.Sprintf(`{"reservation":%q,"cost":0}`, bent)).problem(t, 400, client.ProblemInvalid)
}

// A slot is held until it is released or expires, and tells nobody what it is of.
func TestSlotsOverHTTP(t *testing.T) {
	c := newCounter(t)
	acquire := func(body string) (*client.AcquireResponse, http.Header) {
		t.Helper()
		a := c.post(api.RouteAcquire, body)
		return read[client.AcquireResponse](t, a), a.Header
	}
	const ask = `{"key":"k","rule":"inflight"}`
	a, h := acquire(ask)
	if !a.Allowed || a.InUse != 1 || a.Limit != 2 || a.Rule != "inflight" || a.ExpiresAt == nil || a.ExpiresAt.UnixMicro() != c.now+60*keys.Second ||
		h.Get("RateLimit-Policy") != `"inflight";q=2;qu="concurrent-requests"` || h.Get("RateLimit") != `"inflight";r=1` || a.Headers["RateLimit"] != h.Get("RateLimit") {
		t.Errorf("%+v %v", a, h)
	}
	if a.Slot == "" || strings.Contains(a.Slot, "inflight") {
		t.Fatalf("slot %q", a.Slot)
	}
	acquire(ask)
	if a, h := acquire(ask); a.Allowed || a.Slot != "" || a.InUse != 2 || a.ExpiresAt != nil || a.RetryAfterMS < 1000 || h.Get("Retry-After") != "1" || h.Get("RateLimit") != `"inflight";r=0;t=1` {
		t.Errorf("%+v %v", a, h)
	}
	c.now += 50 * keys.Second
	if b, _ := acquire(fmt.Sprintf(`{"key":"k","rule":"inflight","slot":%q,"ttl_ms":2000}`, a.Slot)); !b.Renewed || b.Slot != a.Slot || b.ExpiresAt.UnixMicro() != c.now+2*keys.Second {
		t.Errorf("%+v", b)
	}
	release := func(slot string) bool {
		return read[client.ReleaseResponse](t, c.post(api.RouteRelease, fmt.Sprintf(`{"slot":%q}`, slot))).Released
	}
	if !release(a.Slot) || release(a.Slot) {
		t.Error("a slot is released once")
	}
	once := `{"key":"k","rule":"inflight","request_id":"r"}`
	first, _ := acquire(once)
	if again, _ := acquire(once); !first.Allowed || !again.Renewed || again.InUse != 2 {
		t.Errorf("%+v, again %+v", first, again)
	}
	// What is sealed as one thing is not another.
	r, _ := c.take(`{"key":"acme","cost":1,"reserve":true}`)
	c.post(api.RouteRelease, fmt.Sprintf(`{"slot":%q}`, r.Reservation)).problem(t, 400, client.ProblemInvalid)
	c.post(api.RouteSettle, fmt.Sprintf(`{"reservation":%q,"cost":1}`, first.Slot)).problem(t, 400, client.ProblemInvalid)
	c.post(api.RouteAcquire, `{"key":"k","rule":"none"}`).problem(t, 404, client.ProblemUnknownRule)
	if a, h := acquire(`{"key":"acme","route":"GET /x"}`); !a.Allowed || a.Reason != plans.ReasonUncounted || a.Slot != "" || h.Get("RateLimit") != "" {
		t.Errorf("%+v", a)
	}
}
