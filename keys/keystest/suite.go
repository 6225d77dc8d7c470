package keystest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// Run holds what open returns to the whole contract but the walk, which is
// Walk's. open is called once for each part.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Run("vectors", func(t *testing.T) { Vectors(t, open(t)) })
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) { b.run(t, open(t), keys.NewSpace("suite-"+unique(), 0)) })
	}
	codes(t, open)
}

var behaviours = []struct {
	name string
	run  func(t *testing.T, s Subject, names keys.Space)
}{
	{"200 parallel takes from 10 tokens let 10 through", parallelTakes},
	{"one request id in parallel takes once", parallelRequests},
	{"one outcome in parallel is recorded once", parallelOutcomes},
	{"a proof in parallel lets its guesses through and no more", parallelProofs},
	{"without a time the store's clock is used", ownClock},
	{"a revocation never goes back", revocations},
	{"bad asks are refused as such", badAsks},
	{"an answer can be used again", reuse},
	{"a record's value can be used again", recordReuse},
	{"a key without a TTL still counts", persisted},
	{"a server that forgets its scripts is told again", flushed},
	{"what was let through elsewhere is charged once, and no more than there is", charges},
	{"what is leased nobody else gets", leases},
	{"a document is swapped only for what is there", documents},
	{"of many who change a document nobody's change is lost", changes},
	{"of many who write a journal everybody's entry is read once", journal},
	{"of two who set a realm the later wins, and a pin stays", controls},
	{"a suspect network is set and let go everywhere", suspects},
	{"of many who set a realm the latest wins in every shard", laterWins},
	{"a stream keeps the last of what was appended, and for its time", streams},
	{"a stream replaces what is of another type", streamTyped},
	{"a clear takes buckets away and nothing else", clears},
	{"200 parallel askers get 10 slots, and each comes back once", parallelSlots},
	{"an empty set of slots never reads as unlimited", emptySlots},
	{"bad asks for slots are refused as such", badSlots},
}

// simple is one tier account with one limit.
func simple(t *testing.T, capacity int64, steps keys.Steps) *keys.Rules {
	t.Helper()
	l, err := keys.NewLimit(capacity, 1, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierAccount, Limits: []keys.LimitSpec{{Name: "burst", Limit: l, Steps: steps}}}},
		[4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var untilEmpty = keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}

func simpleAsk(r *keys.Rules, names keys.Space) keys.Ask {
	return keys.Ask{Rules: r, Keys: []string{names.Account("login", sheetAccount)}, Cost: 1}
}

// together runs n calls at once and counts those that say yes.
func together(t *testing.T, n int, call func(i int) (bool, error)) (yes int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			ok, err := call(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if ok {
				yes++
			}
		})
	}
	close(start)
	wg.Wait()
	return yes
}

func parallelTakes(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 10, untilEmpty)
	let := together(t, 200, func(int) (bool, error) {
		a, ans := simpleAsk(r, names), keys.Answer{}
		err := s.Take(t.Context(), &a, &ans)
		return ans.Let && ans.Taken, err
	})
	if let != 10 {
		t.Errorf("%d were let through", let)
	}
}

func parallelRequests(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 100, untilEmpty)
	var mu sync.Mutex
	ids := map[[16]byte]bool{}
	first := together(t, 50, func(i int) (bool, error) {
		a, ans := simpleAsk(r, names), keys.Answer{}
		a.Request = keys.Request{Key: names.Request("login", "r")}
		a.AttemptID = [16]byte{byte(i)}
		err := s.Take(t.Context(), &a, &ans)
		mu.Lock()
		defer mu.Unlock()
		ids[ans.ID] = true
		return !ans.Replayed, err
	})
	if first != 1 || len(ids) != 1 {
		t.Errorf("%d were judged, and %d attempts made", first, len(ids))
	}
	a, ans := simpleAsk(r, names), keys.Answer{}
	if err := s.Take(t.Context(), &a, &ans); err != nil || ans.Limits[0].Tokens() != 98 {
		t.Errorf("%d tokens are left (%v), not 98", ans.Limits[0].Tokens(), err)
	}
}

func parallelOutcomes(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 10, untilEmpty)
	a, ans := simpleAsk(r, names), keys.Answer{}
	for range 5 {
		if err := s.Take(t.Context(), &a, &ans); err != nil {
			t.Fatal(err)
		}
	}
	l := ans.Limits[0].Limit
	gave := together(t, 50, func(int) (bool, error) {
		var rcp keys.Receipt
		err := s.Give(t.Context(), &keys.Return{Rules: r, Keys: a.Keys, Outcome: keys.Success, Stamp: ans.Now, Expires: ans.Now + keys.AttemptLifetime,
			Took:       []keys.Took{{Tier: keys.TierAccount, Limit: r.Tiers()[0].Limits[0].ID(), In: l}},
			OutcomeKey: names.Outcome("a")}, &rcp)
		return rcp.Recorded && rcp.Gave == 1, err
	})
	if gave != 1 {
		t.Errorf("%d gave back", gave)
	}
}

func parallelProofs(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 1, untilEmpty)
	a, ans := simpleAsk(r, names), keys.Answer{}
	if err := s.Take(t.Context(), &a, &ans); err != nil {
		t.Fatal(err)
	}
	let := together(t, 50, func(int) (bool, error) {
		a, got := simpleAsk(r, names), keys.Answer{}
		a.Proof = keys.Proof{Key: names.Proof("p"), Rung: keys.Verify, Issued: ans.Now, Expires: ans.Now + 600*keys.Second, Uses: 5}
		err := s.Take(t.Context(), &a, &got)
		return got.Let, err
	})
	if let != 5 {
		t.Errorf("%d were let through", let)
	}
}

func ownClock(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 100, untilEmpty)
	last := int64(0)
	for range 20 {
		a, ans := simpleAsk(r, names), keys.Answer{}
		if err := s.Take(t.Context(), &a, &ans); err != nil {
			t.Fatal(err)
		}
		if ans.Now < last || ans.Now < 1_700_000_000*keys.Second {
			t.Fatalf("the clock says %d after %d", ans.Now, last)
		}
		last = ans.Now
	}
	stamp, err := s.Revoke(t.Context(), names.Revoked(sheetAccount), 0, keys.Day)
	if err != nil || stamp < last {
		t.Errorf("revoked at %d (%v), after %d", stamp, err, last)
	}
}

func revocations(t *testing.T, s Subject, names keys.Space) {
	key := names.Revoked(sheetAccount)
	for _, x := range [][2]int64{{100, 100}, {300, 300}, {200, 301}, {302, 302}, {302, 303}} {
		if got, err := s.Revoke(t.Context(), key, x[0], keys.Day); err != nil || got != x[1] {
			t.Errorf("revoking at %d answers %d (%v), not %d", x[0], got, err, x[1])
		}
	}
}

func badAsks(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 10, untilEmpty)
	for name, bend := range map[string]func(*keys.Ask){
		"no rules": func(a *keys.Ask) { a.Rules = nil }, "no keys": func(a *keys.Ask) { a.Keys = nil },
		"an empty key": func(a *keys.Ask) { a.Keys = []string{""} }, "a negative cost": func(a *keys.Ask) { a.Cost = -1 },
		"a cost out of range": func(a *keys.Ask) { a.Cost = keys.MaxExact + 1 }, "a negative time": func(a *keys.Ask) { a.Now = -1 },
		"a device without a tier": func(a *keys.Ask) { a.Device.Issued = 1 }, "no such floor": func(a *keys.Ask) { a.Floor = 4 },
	} {
		a, ans := simpleAsk(r, names), keys.Answer{}
		bend(&a)
		if err := s.Take(t.Context(), &a, &ans); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bend := range map[string]func(*keys.Return){
		"no outcome": func(r *keys.Return) { r.Outcome = 0 }, "no such outcome": func(r *keys.Return) { r.Outcome = 8 },
		"no mark":          func(r *keys.Return) { r.OutcomeKey = "" },
		"took of no limit": func(r *keys.Return) { r.Took = []keys.Took{{}} },
		"no rules":         func(x *keys.Return) { x.Rules, x.Took = nil, []keys.Took{{In: r.Tiers()[0].Limits[0].Limit}} },
	} {
		x := keys.Return{Rules: r, Keys: []string{"k"}, Outcome: keys.Success, Stamp: 1, Expires: 2, Now: 1, OutcomeKey: names.Outcome("x")}
		bend(&x)
		var rcp keys.Receipt
		if err := s.Give(t.Context(), &x, &rcp); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func reuse(t *testing.T, s Subject, names keys.Space) {
	big, small := simple(t, 10, untilEmpty), simple(t, 5, keys.NoSteps)
	var used keys.Answer
	a := simpleAsk(big, names)
	a.Floor, a.Now = keys.Verify, 1<<50
	if err := s.Take(t.Context(), &a, &used); err != nil {
		t.Fatal(err)
	}
	for i, now := range []int64{1 << 50, 1<<50 + 1} {
		b, fresh := simpleAsk(small, names), keys.Answer{}
		b.Now = now
		b.Keys = []string{fmt.Sprint(b.Keys[0], i)}
		if err := s.Take(t.Context(), &b, &used); err != nil {
			t.Fatal(err)
		}
		b.Keys[0] += "fresh"
		if err := s.Take(t.Context(), &b, &fresh); err != nil {
			t.Fatal(err)
		}
		if u, f := answer(&used), answer(&fresh); !reflect.DeepEqual(u, f) {
			t.Errorf("a used answer says %+v, a fresh one %+v", u, f)
		}
	}
}

func recordReuse(t *testing.T, s Subject, names keys.Space) {
	r := simple(t, 10, untilEmpty)
	value := keys.EncodeUntil(1 << 51)
	key := names.Suspect(sheetIP.Wide())
	if err := s.Put(t.Context(), key, value, keys.Day); err != nil {
		t.Fatal(err)
	}
	clear(value)
	a, ans := simpleAsk(r, names), keys.Answer{}
	a.SuspectKeys[1] = key
	if err := s.Take(t.Context(), &a, &ans); err != nil || ans.Causes != keys.BySuspect {
		t.Errorf("causes are %v (%v)", ans.Causes, err)
	}
}

func persisted(t *testing.T, s Subject, names keys.Space) {
	p, ok := s.(Persister)
	if !ok {
		t.Skip("the subject has no TTLs that could be taken away")
	}
	tampered(t, s, names, p.Persist)
}

func flushed(t *testing.T, s Subject, names keys.Space) {
	f, ok := s.(ScriptFlusher)
	if !ok {
		t.Skip("the subject has no scripts that could be forgotten")
	}
	tampered(t, s, names, func(string) error { return f.FlushScripts() })
}

// tampered counts on through what tamper does before each take.
func tampered(t *testing.T, s Subject, names keys.Space, tamper func(bucket string) error) {
	t.Helper()
	r := simple(t, 10, untilEmpty)
	a, ans := simpleAsk(r, names), keys.Answer{}
	for left := int64(9); left >= 7; left-- {
		if err := tamper(a.Keys[0]); err != nil {
			t.Fatal(err)
		}
		if err := s.Take(t.Context(), &a, &ans); err != nil || ans.Limits[0].Tokens() != left {
			t.Fatalf("%d tokens are left (%v), not %d", ans.Limits[0].Tokens(), err, left)
		}
	}
}
