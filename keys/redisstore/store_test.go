package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// now is an owned time, near enough to the real one for TTLs to make sense.
var now = time.Now().UnixMicro()

func limit(t testing.TB, capacity, count int64, period time.Duration) keys.Limit {
	t.Helper()
	l, err := keys.NewLimit(capacity, count, period)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// login is a small policy: an account with two limits and an address.
func login(t testing.TB, account keys.Limit) *keys.Rules {
	t.Helper()
	r, err := keys.NewRules([]keys.TierSpec{
		{Tier: keys.TierAccount, Limits: []keys.LimitSpec{
			{Name: "burst", Limit: account, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}},
			{Name: "sustained", Limit: limit(t, 1000, 10, 24*time.Hour), Steps: keys.NoSteps},
		}},
		{Tier: keys.TierIP, Role: keys.ScaleIP | keys.SkipFamiliar, Limits: []keys.LimitSpec{
			{Name: "burst", Limit: limit(t, 500, 20, 10*time.Minute), Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}},
		}},
	}, [4]keys.Effect{}, keys.Pace{Base: keys.Second, Max: 30 * keys.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ask(r *keys.Rules, at int64) *keys.Ask {
	a := &keys.Ask{Now: at, Rules: r, Keys: []string{"gd:{t/0}:login:account:a", "gd:{t/0}:login:ip:b"}, Cost: 1}
	rand.Read(a.AttemptID[:])
	return a
}

func take(t testing.TB, s keys.Store, a *keys.Ask) keys.Answer {
	t.Helper()
	var ans keys.Answer
	if err := s.Take(context.Background(), a, &ans); err != nil {
		t.Fatal(err)
	}
	return ans
}

func give(t testing.TB, s keys.Store, r *keys.Return) keys.Receipt {
	t.Helper()
	var rcp keys.Receipt
	if err := s.Give(context.Background(), r, &rcp); err != nil {
		t.Fatal(err)
	}
	return rcp
}

// outcome reports on what ans let through.
func outcome(a *keys.Ask, ans *keys.Answer, at int64, o keys.Outcome) *keys.Return {
	r := &keys.Return{Now: at, Rules: a.Rules, Keys: a.Keys, Outcome: o, Stamp: ans.Now, Expires: ans.Now + keys.AttemptLifetime,
		OutcomeKey: fmt.Sprintf("gd:{t/0}:outcome:%x", ans.ID), PlaceKey: "gd:{t/0}:place:a:b", FailuresKey: "gd:{t/0}:failures:a"}
	for _, l := range ans.Limits {
		if l.Took {
			tier := &a.Rules.Tiers()[l.Tier]
			r.Took = append(r.Took, keys.Took{Tier: tier.Tier, Limit: tier.Limits[l.Index].ID(), In: l.Limit})
		}
	}
	return r
}

// spent is what a bucket holds of its first limit, in units.
func spent(ans *keys.Answer) int64 { return ans.Limits[0].Limit.Units() - ans.Limits[0].Left }

func TestParallelTakesLetThroughExactlyTheCapacity(t *testing.T) {
	server := redistest.Start(t)
	// Two Stores, as in two processes: they share one count.
	stores := []keys.Store{open(t, server), open(t, server)}
	rules := login(t, limit(t, 50, 1, 24*time.Hour))
	var let atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			var ans keys.Answer
			if err := stores[i%2].Take(context.Background(), ask(rules, 0), &ans); err != nil {
				t.Error(err)
			}
			if ans.Let {
				let.Add(1)
			}
		})
	}
	wg.Wait()
	if let.Load() != 50 {
		t.Errorf("%d of 200 were let through, want 50", let.Load())
	}
}

// An attempt is one script call, which reads everything at once and writes what
// has changed: nothing, where nobody was let through.
func TestATakeIsOneCallThatReadsOnceAndWritesWhatChanged(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 2, 1, time.Hour))
	take(t, s, ask(rules, now)) // the first brings the script with it
	for _, row := range []struct {
		name       string
		let        bool
		sets, ttls int // PTTL: a bucket that is not written is looked at for its TTL
	}{{"let through", true, 2, 0}, {"refused", false, 0, 2}} {
		before := map[string]int{}
		for _, c := range []string{"evalsha", "eval", "mget", "get", "set", "pexpire", "pttl"} {
			before[c] = calls(t, s, c)
		}
		if ans := take(t, s, ask(rules, now)); ans.Let != row.let {
			t.Fatalf("%s: let %t", row.name, ans.Let)
		}
		for c, want := range map[string]int{"evalsha": 1, "eval": 0, "mget": 1, "get": 0, "set": row.sets, "pexpire": 0, "pttl": row.ttls} {
			if n := calls(t, s, c) - before[c]; n != want {
				t.Errorf("%s: %d calls of %s, want %d", row.name, n, c, want)
			}
		}
	}
}

func TestFlushedScriptsAreLoadedAgain(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 5, 1, time.Minute))
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		a := ask(rules, now)
		ans := take(t, s, a)
		if got := spent(&ans); got != (i+1)*a.Rules.Tiers()[0].Limits[0].Period {
			t.Fatalf("take %d: %d units are spent: a replay charged twice, or none did", i, got)
		}
		if err := s.FlushScripts(); err != nil {
			t.Fatal(err)
		}
		if rcp := give(t, s, outcome(a, &ans, now, keys.Failure)); !rcp.Recorded {
			t.Fatalf("give %d: %+v", i, rcp)
		}
		if err := s.FlushScripts(); err != nil {
			t.Fatal(err)
		}
		if at, err := s.Revoke(context.Background(), "gd:{t/0}:revoked:x", now+i, keys.Day); err != nil || at != now+i {
			t.Fatalf("revoke: %d, %v", at, err)
		}
		if err := s.FlushScripts(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNoBucketCountsAsMissing(t *testing.T) {
	s := open(t, redistest.Start(t))
	ctx := context.Background()
	rules := login(t, limit(t, 5, 1, time.Minute))
	a := ask(rules, now)
	ans := take(t, s, a)
	one := spent(&ans)
	good, err := s.raw.Get(ctx, a.Keys[0]).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if len(good) != 44 {
		t.Errorf("a bucket of two limits takes %d bytes, want 44: the most that Redis stores in one piece", len(good))
	}
	garbage := map[string]string{"empty": "", "text": "hello", "short": string(good[:43]), "long": string(good) + "x",
		"half": string(good[:8+18]) + "x", "head only": string(good[:8]), "another version": "\x04" + string(good[1:]),
		"forty cells": string(good[:8]) + strings.Repeat(string(good[8:26]), 40)}
	for name, v := range garbage {
		if err := s.raw.Set(ctx, a.Keys[0], v, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if ans := take(t, s, ask(rules, now)); !ans.Let || spent(&ans) != one {
			t.Errorf("%s: let %t, %d units spent, want those of one token", name, ans.Let, spent(&ans))
		}
	}
	for range 2 {
		if err := s.SetWrongType(a.Keys[0]); err != nil {
			t.Fatal(err)
		}
		if ans := take(t, s, ask(rules, now)); !ans.Let || spent(&ans) != one {
			t.Errorf("wrong type: let %t, %d units spent", ans.Let, spent(&ans))
		}
	}
	if typ := s.raw.Type(ctx, a.Keys[0]).Val(); typ != "string" {
		t.Errorf("the key of a wrong type is now a %s", typ)
	}
	// More spent than there is, and more than a double holds: empty, not an error.
	full := append([]byte(nil), good...)
	for i := range 14 {
		full[12+i] = 0xff
	}
	s.raw.Set(ctx, a.Keys[0], full, time.Hour)
	if ans := take(t, s, ask(rules, now)); ans.Let || ans.Needed != keys.Verify {
		t.Errorf("overspent: let %t needed %s", ans.Let, ans.Needed)
	}
}

func TestMarksOfAWrongTypeAreReplaced(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 5, 1, time.Minute))
	a := ask(rules, now)
	a.Request = keys.Request{Key: "gd:{t/0}:request:r"}
	a.Proof = keys.Proof{Key: "gd:{t/0}:proof:p", Rung: keys.Captcha, Issued: now, Expires: now + keys.Second, Uses: 1}
	a.Floor = keys.Captcha
	a.RevokedKey, a.PlaceKey, a.StateKey = "gd:{t/0}:revoked:a", "gd:{t/0}:place:a:b", "gd:{t/0}:state"
	for _, k := range []string{a.Request.Key, a.Proof.Key, a.RevokedKey, a.PlaceKey, a.StateKey, "gd:{t/0}:failures:a"} {
		if err := s.SetWrongType(k); err != nil {
			t.Fatal(err)
		}
	}
	ans := take(t, s, a)
	if !ans.Let || ans.Proof != keys.ProofUsed {
		t.Fatalf("let %t proof %d", ans.Let, ans.Proof)
	}
	s.SetWrongType(outcome(a, &ans, now, keys.Failure).OutcomeKey)
	if rcp := give(t, s, outcome(a, &ans, now, keys.Failure)); !rcp.Recorded || rcp.Failures != 1 {
		t.Errorf("outcome: %+v", rcp)
	}
	if again := take(t, s, a); !again.Replayed || again.ID != ans.ID {
		t.Errorf("the request mark was not replaced: %+v", again)
	}
	if _, err := s.Revoke(context.Background(), a.RevokedKey, now, keys.Day); err != nil {
		t.Errorf("revoke: %v", err)
	}
}

func ttl(t testing.TB, s subject, key string) time.Duration {
	t.Helper()
	d, err := s.raw.PTTL(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTTLIsTimeToFullAndSlack(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 5, 1, time.Minute))
	a := ask(rules, now)
	take(t, s, a)
	// One token of 1,000 at 10 per 24 h is back after 8,640 s: the longest.
	if d := ttl(t, s, a.Keys[0]); d > 8700*time.Second+time.Millisecond || d < 8640*time.Second {
		t.Errorf("account: %s, want 8,640 s and up to 60 s of slack", d)
	}
	if d := ttl(t, s, a.Keys[1]); d > 90*time.Second+time.Millisecond || d < 60*time.Second {
		t.Errorf("ip: %s, want 30 s and 60 s of slack", d)
	}
}

func TestTTLFollowsTheLongerTimeToFullWhenALimitChanges(t *testing.T) {
	s := open(t, redistest.Start(t))
	slow := login(t, limit(t, 10, 1, 30*24*time.Hour))
	quick := login(t, limit(t, 20, 1, time.Second))
	a := ask(slow, now)
	take(t, s, a)
	before := ttl(t, s, a.Keys[0])
	if before < 30*24*time.Hour {
		t.Fatalf("a token a month lives %s", before)
	}
	take(t, s, ask(quick, now))
	if d := ttl(t, s, a.Keys[0]); d < before-time.Minute {
		t.Errorf("after the change it lives %s, before it was %s: changing back would find a full bucket too soon", d, before)
	}
	take(t, s, ask(slow, now))
	if d := ttl(t, s, a.Keys[0]); d < before {
		t.Errorf("changed back: %s, want more than %s", d, before)
	}
}

func TestTTLIsAlsoThatOfWhatIsKeptForOthers(t *testing.T) {
	s := open(t, redistest.Start(t))
	here := login(t, limit(t, 10, 1, 30*24*time.Hour))
	there, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierAccount, Limits: []keys.LimitSpec{
		{Name: "other", Limit: limit(t, 10, 1, time.Second), Steps: keys.NoSteps}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	a := ask(here, now)
	ans := take(t, s, a)
	one, before := spent(&ans), ttl(t, s, a.Keys[0])
	for range 3 { // more writes make it neither shorter nor longer
		b := ask(there, now)
		b.Keys = a.Keys[:1]
		take(t, s, b)
		if d := ttl(t, s, a.Keys[0]); d < before-time.Minute || d > before {
			t.Errorf("written by who does not know the limit it lives %s, before it was %s", d, before)
		}
	}
	if ans := take(t, s, ask(here, now)); spent(&ans) != 2*one {
		t.Errorf("%d units are spent by two tokens of %d", spent(&ans), one)
	}
}

func TestMissingTTLIsHealed(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 1, 1, time.Hour))
	a := ask(rules, now)
	take(t, s, a)
	for _, kind := range []string{"refused", "allowed"} {
		for _, k := range a.Keys {
			if err := s.Persist(k); err != nil {
				t.Fatal(err)
			}
		}
		at := now
		if kind == "allowed" {
			at += 3600 * keys.Second
		}
		if ans := take(t, s, ask(rules, at)); ans.Let != (kind == "allowed") {
			t.Fatalf("%s: let %t", kind, ans.Let)
		}
		for _, k := range a.Keys {
			if d := ttl(t, s, k); d <= 0 {
				t.Errorf("%s: %s has no TTL (%s)", kind, k, d)
			}
		}
	}
}

// everything is all keys and values, to see that nothing was written.
func everything(t testing.TB, s subject) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	names, err := s.raw.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range names {
		fmt.Fprintf(&b, "%s=%q\n", k, s.raw.Dump(ctx, k).Val())
	}
	return b.String()
}

func TestLateScriptWritesNothing(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 5, 1, time.Minute))
	first := ask(rules, now)
	ans := take(t, s, first)
	before := everything(t, s)

	a := ask(rules, now)
	a.Deadline = now - 1
	a.Request.Key = "gd:{t/0}:request:r"
	if late := take(t, s, a); late.Status != keys.Late || late.Let || late.Now != now {
		t.Errorf("take: %+v", late)
	}
	r := outcome(first, &ans, now, keys.Success)
	r.Deadline = now - 1
	if rcp := give(t, s, r); rcp.Status != keys.Late || rcp.Recorded {
		t.Errorf("give: %+v", rcp)
	}
	if after := everything(t, s); after != before {
		t.Errorf("a late call wrote:\n%s\nbefore:\n%s", after, before)
	}

	a.Deadline, r.Deadline = now, now
	if in := take(t, s, a); in.Status != keys.Decided || !in.Let {
		t.Errorf("in time: %+v", in)
	}
	if rcp := give(t, s, r); !rcp.Recorded {
		t.Errorf("in time: %+v", rcp)
	}
}

// A call that its caller has given up on, but that Redis works off when it
// wakes, must not charge: the caller was answered by somebody else.
func TestCallGivenUpOnChangesNothingWhenRedisWakes(t *testing.T) {
	server := redistest.Start(t)
	long := open(t, server)
	rules := login(t, limit(t, 5, 1, 24*time.Hour))
	c, err := Open(server.URL(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	short := New(Config{Client: c, Deadline: 20 * time.Millisecond})
	if err := short.Load(context.Background()); err != nil { // which also learns Redis's clock
		t.Fatal(err)
	}
	before := take(t, long, ask(rules, 0)) // and one token on the way

	server.Pause()
	err = short.Take(context.Background(), ask(rules, 0), &keys.Answer{})
	if !errors.Is(err, context.DeadlineExceeded) || Kind(err) != "timeout" {
		t.Errorf("while the server hangs: %v (%s)", err, Kind(err))
	}
	first := ask(rules, 0)
	r := outcome(first, &before, 0, keys.Success)
	err = short.Give(context.Background(), r, &keys.Receipt{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("give while the server hangs: %v", err)
	}
	server.Resume()

	look := ask(rules, 0)
	look.Cost = 0
	after := take(t, long, look)
	if after.Limits[0].Left < before.Limits[0].Left {
		t.Errorf("what was given up on took %d units", before.Limits[0].Left-after.Limits[0].Left)
	}
	if rcp := give(t, long, r); !rcp.Recorded {
		t.Errorf("what was given up on was recorded all the same: %+v", rcp)
	}
}

func TestEveryKeyHasATTL(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 5, 1, time.Minute))
	ctx := context.Background()
	a := ask(rules, now)
	a.Floor = keys.Captcha
	a.Request.Key = "gd:{t/0}:request:r"
	a.Proof = keys.Proof{Key: "gd:{t/0}:proof:p", Rung: keys.Captcha, Issued: now, Expires: now + keys.Second, Uses: 1}
	ans := take(t, s, a)
	give(t, s, outcome(a, &ans, now, keys.SecondFactorPending))
	give(t, s, outcome(a, &ans, now, keys.Success))
	ans = take(t, s, ask(rules, now))
	give(t, s, outcome(a, &ans, now, keys.Failure))
	s.Put(ctx, "gd:{t/0}:state", keys.State{}.Encode(), keys.Second)
	s.Revoke(ctx, "gd:{t/0}:revoked:a", 0, keys.Day)
	names, err := s.raw.Keys(ctx, "*").Result()
	if err != nil || len(names) != 10 {
		t.Fatalf("%d keys, want 10 (account, ip, request, proof, two outcomes, place, failures, state, revoked): %v %v", len(names), names, err)
	}
	for _, k := range names {
		if ttl(t, s, k) <= 0 {
			t.Errorf("%s has no TTL", k)
		}
	}
}

func TestRevokeUsesRedisClockAndOnlyGoesOn(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server)
	ctx := context.Background()
	at, err := s.Revoke(ctx, "k", 0, keys.Day)
	if redis := server.Client().Time(ctx).Val().UnixMicro(); err != nil || at > redis || at < redis-60*keys.Second {
		t.Errorf("revoked at %d (%v), Redis says %d", at, err, redis)
	}
	if again, err := s.Revoke(ctx, "k", at-5, keys.Day); err != nil || again != at+1 {
		t.Errorf("an earlier revocation moved it to %d (%v), from %d", again, err, at)
	}
	if v, _ := s.raw.Get(ctx, "k").Bytes(); len(v) != 8 || binary.LittleEndian.Uint64(v) == 0 {
		t.Errorf("stored %x", v)
	}
}

// A context that has ended already, and one that ends first, end the call, whatever
// deadline the store has; neither is made.
func TestAContextThatHasEndedAsksNobody(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server)
	r := login(t, limit(t, 10, 1, time.Hour))
	take(t, s.Store, ask(r, 0))
	far, cancel := context.WithTimeout(t.Context(), time.Hour)
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	before := calls(t, s, "evalsha")
	for want, ctx := range map[error]context.Context{context.Canceled: far, context.DeadlineExceeded: past} {
		if err := s.Take(ctx, ask(r, 0), &keys.Answer{}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if n := calls(t, s, "evalsha") - before; n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func TestBadAsksAreRefusedBeforeRedisIsAsked(t *testing.T) {
	s := New(Config{Client: nil}) // would panic
	rules := login(t, limit(t, 5, 1, time.Minute))
	ctx := context.Background()
	negative := ask(rules, now)
	negative.Cost = -1
	if err := s.Take(ctx, negative, &keys.Answer{}); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("negative cost: %v", err)
	}
	if err := s.Take(ctx, ask(rules.WithShare(3), now), &keys.Answer{}); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("rules of a share: %v", err)
	}
	if err := s.Give(ctx, &keys.Return{}, &keys.Receipt{}); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("empty return: %v", err)
	}
	if err := s.Put(ctx, "", nil, 1); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("no key: %v", err)
	}
	if _, err := s.Revoke(ctx, "k", 0, 0); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("no lifetime: %v", err)
	}
}
