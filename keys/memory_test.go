package keys

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table
		model, fulls := map[hash]Bucket{}, map[hash]int64{} // and when full again
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			h := hash{uint64(rapid.IntRange(0, 7).Draw(t, "home")), uint64(rapid.IntRange(0, 9).Draw(t, "rest"))}
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				if at := tab.find(h); at >= 0 {
					tab.remove(at)
				}
				delete(model, h)
				delete(fulls, h)
			case 1: // once around, all that are full again are gone, and nobody else
				then := rapid.Int64Range(0, 9).Draw(t, "then")
				n := 0
				for i := range tab.slabs {
					n += int(tab.slabs[i].used)
				}
				tab.sweep(n, then)
				for h, full := range fulls {
					if full <= then {
						delete(model, h)
						delete(fulls, h)
					}
				}
			default:
				b := Bucket{Stamp: rapid.Int64Range(0, MaxExact).Draw(t, "stamp"), Distrust: rapid.Bool().Draw(t, "distrust")}
				for i := range rapid.IntRange(1, 4).Draw(t, "cells") {
					b.Cells = append(b.Cells, Cell{uint32(i+1) << 28, rapid.Int64Range(0, MaxExact).Draw(t, "spent"), MaxExact,
						max(0, rapid.Int64Range(-5, 5).Draw(t, "a stamp of its own"))})
				}
				full := rapid.Int64Range(0, 9).Draw(t, "full")
				if at := tab.find(h); at >= 0 && (model[h].Stamp <= b.Stamp || b.width() > len(b.Cells)) {
					full = max(full, fulls[h])
				}
				tab.write(h, rapid.IntRange(-1, 40).Draw(t, "at"), &b, full, 0, false)
				model[h], fulls[h] = b, full
			}
			if tab.live != len(model) {
				t.Fatalf("%d live, not %d", tab.live, len(model))
			}
			for h, want := range model {
				at := tab.find(h)
				if at < 0 {
					t.Fatalf("%v is gone", h)
				}
				if got := tab.read(at, make([]Cell, MaxCells)); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%v is %v, not %v", h, got, want)
				}
			}
		}
	})
}

// rulesOf makes rules of one tier for tests.
func rulesOf(t testing.TB, tier Tier, role Role, limits ...LimitSpec) *Rules {
	t.Helper()
	r, err := NewRules([]TierSpec{{tier, role, limits}}, [4]Effect{}, Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func limitOf(t testing.TB, name string, capacity, count int64, per time.Duration) LimitSpec {
	t.Helper()
	l, err := NewLimit(capacity, count, per)
	if err != nil {
		t.Fatal(err)
	}
	return LimitSpec{Name: name, Limit: l, Steps: Steps{Never, Never, Empty}}
}

// clocked is a Memory whose clock the test owns.
func clocked(c MemoryConfig) (*Memory, *int64) {
	now := int64(1_800_000_000) * Second
	c.Now = func() int64 { return now }
	return NewMemory(c), &now
}

func mustTake(t testing.TB, m *Memory, a *Ask) Answer {
	t.Helper()
	var ans Answer
	if err := m.Take(t.Context(), a, &ans); err != nil {
		t.Fatal(err)
	}
	return ans
}

func TestAFloodOfNamesFreesNoSpentBucketAndLocksNoNewcomerOut(t *testing.T) {
	m, now := clocked(MemoryConfig{Buckets: 64 * 20})
	r := rulesOf(t, TierAccount, 0, limitOf(t, "burst", 2, 1, time.Hour))
	take := func(name string) Answer { return mustTake(t, m, &Ask{Rules: r, Keys: []string{name}, Cost: 1}) }
	for i := range 200 {
		take(fmt.Sprint("victim", i))
		take(fmt.Sprint("victim", i))
	}
	captchas := 0
	for i := range 20_000 {
		switch ans := take(fmt.Sprint("flood", i)); ans.Needed {
		case Verify:
			t.Fatal("a newcomer was asked for a code because of what others spent")
		case Captcha:
			captchas++
		}
	}
	if st := m.Stats(); st.Buckets > 64*(20+MaxTiers) || st.Shared == 0 || st.Shared > OverflowBuckets || captchas == 0 || st.Overflowed == 0 {
		t.Errorf("%+v after %d captchas", st, captchas)
	}
	for i := range 200 {
		if ans := take(fmt.Sprint("victim", i)); ans.Needed != Verify {
			t.Fatalf("the flood freed victim %d", i)
		}
	}
	// Once buckets are full again, they make room.
	*now += 2 * 3600 * Second
	before := m.Stats().Overflowed
	for i := range 64 * 10 {
		if ans := take(fmt.Sprint("later", i)); ans.Needed != Allow {
			t.Fatalf("newcomer %d needs %s", i, ans.Needed)
		}
	}
	// (One whose short look around meets only shared buckets clears those.)
	if st := m.Stats(); st.Overflowed-before > 32 {
		t.Errorf("%d newcomers of 640 still share buckets", st.Overflowed-before)
	}
}

func TestAFloodOfNamesLeavesRoomForDevices(t *testing.T) {
	m, _ := clocked(MemoryConfig{Buckets: 64 * 80})
	r := rulesOf(t, TierAccount, 0, limitOf(t, "burst", 2, 1, time.Hour))
	for i := range 20_000 {
		mustTake(t, m, &Ask{Rules: r, Keys: []string{fmt.Sprint("flood", i)}, Cost: 1})
	}
	d := rulesOf(t, TierDevice, DeviceOwn, limitOf(t, "burst", 2, 1, time.Hour))
	before := m.Stats().Overflowed
	for i := range 64 {
		ans := mustTake(t, m, &Ask{Rules: d, Keys: []string{fmt.Sprint("device", i)}, Cost: 1, Device: Device{Issued: 1, Expires: MaxExact}})
		if ans.Device != DeviceKnown {
			t.Fatalf("device %d is %d", i, ans.Device)
		}
	}
	if st := m.Stats(); st.Overflowed != before {
		t.Errorf("%d of 64 devices share a bucket", st.Overflowed-before)
	}
}

func TestABucketIsKeptForTheLongerOfTwoTimesToFull(t *testing.T) {
	m, now := clocked(MemoryConfig{Buckets: 64})
	slow := rulesOf(t, TierAccount, 0, limitOf(t, "burst", 3, 1, time.Hour))
	fast := rulesOf(t, TierAccount, 0, limitOf(t, "burst", 3, 1, time.Second))
	key := []string{"victim"}
	mustTake(t, m, &Ask{Rules: slow, Keys: key, Cost: 1})
	mustTake(t, m, &Ask{Rules: fast, Keys: key, Cost: 1})
	*now += 60 * Second // full by the fast limit
	for i := range 1000 {
		mustTake(t, m, &Ask{Rules: slow, Keys: []string{fmt.Sprint("flood", i)}, Cost: 1})
	}
	h := m.hash("victim")
	if m.shard(h).buckets.find(h) < 0 {
		t.Error("the bucket went while the slow limit still counted")
	}
	*now += 3600 * Second
	for i := range 1000 {
		mustTake(t, m, &Ask{Rules: slow, Keys: []string{fmt.Sprint("flood again", i)}, Cost: 1})
	}
	if m.shard(h).buckets.find(h) >= 0 {
		t.Error("the bucket stays when it is full by both")
	}
}

// A clock that was far ahead is mended by who does not know the slow limit.
func TestABucketIsKeptForWhatOthersKnowWhenAClockIsMended(t *testing.T) {
	m, now := clocked(MemoryConfig{Buckets: 64})
	slow := rulesOf(t, TierAccount, 0, limitOf(t, "slow", 3, 1, time.Hour))
	fast := rulesOf(t, TierAccount, 0, limitOf(t, "fast", 3, 1, time.Second))
	key := []string{"victim"}
	mustTake(t, m, &Ask{Now: *now + 600*Second, Rules: slow, Keys: key, Cost: 1})
	mustTake(t, m, &Ask{Now: *now, Rules: fast, Keys: key, Cost: 1})
	*now += 60 * Second // full by the fast limit
	for i := range 1000 {
		mustTake(t, m, &Ask{Rules: slow, Keys: []string{fmt.Sprint("flood", i)}, Cost: 1})
	}
	if ans := mustTake(t, m, &Ask{Rules: slow, Keys: key}); ans.Limits[0].Tokens() != 2 {
		t.Errorf("of 3 guesses at the slow limit %d are left, after one", ans.Limits[0].Tokens())
	}
}

func TestWhatNobodyAsksForAgainGoes(t *testing.T) {
	m, now := clocked(MemoryConfig{})
	r := rulesOf(t, TierAccount, 0, limitOf(t, "burst", 1, 1, time.Second))
	for i := range 100_000 {
		mustTake(t, m, &Ask{Rules: r, Keys: []string{fmt.Sprint("name", i)}, Cost: 1})
		*now += 10_000 // 100 names a second, each full after one and kept a minute
	}
	if n := m.Len(); n > 20_000 {
		t.Errorf("%d buckets are held for about 6100 that matter", n)
	}
}

func captchaProof(i int, rung Rung) Proof {
	return Proof{Key: fmt.Sprint("proof", rung, i), Rung: rung, Issued: 1, Expires: 1_800_000_300 * Second, Uses: 1}
}

func TestWithoutRoomForMarksCodesStillCount(t *testing.T) {
	m, _ := clocked(MemoryConfig{Marks: 64 * 16})
	l := limitOf(t, "burst", 100_000, 1, time.Hour)
	l.Steps = Steps{Never, 10000, Never}
	r := rulesOf(t, TierAccount, 0, l)
	ask := func(p Proof) Answer {
		return mustTake(t, m, &Ask{Rules: r, Keys: []string{"a"}, Cost: 1, Proof: p})
	}
	refused := 0
	for i := range 2000 {
		switch ans := ask(captchaProof(i, Captcha)); ans.Proof {
		case ProofRefused:
			if refused++; ans.Let {
				t.Fatal("let through by a proof whose use nobody remembers")
			}
		case ProofUsed:
		default:
			t.Fatalf("proof %d: %d", i, ans.Proof)
		}
	}
	if refused < 1000 {
		t.Errorf("only %d of 2000 captchas were refused with room for 256", refused)
	}
	if ans := ask(captchaProof(0, Captcha)); ans.Proof != ProofSpent {
		t.Errorf("the first proof's use was forgotten: %d", ans.Proof)
	}
	for i := range 500 {
		if ans := ask(captchaProof(i, Verify)); ans.Proof != ProofUsed {
			t.Fatalf("code %d: %d", i, ans.Proof)
		}
		if ans := ask(captchaProof(i, Verify)); ans.Proof != ProofSpent {
			t.Fatalf("code %d counts twice: %d", i, ans.Proof)
		}
	}
}

func TestWithoutRoomForMarksOutcomesGiveNothingBack(t *testing.T) {
	m, now := clocked(MemoryConfig{Marks: 64 * 64})
	l := limitOf(t, "burst", 100_000, 1, time.Hour)
	r := rulesOf(t, TierAccount, 0, l)
	gave := 0
	for i := range 4000 {
		mustTake(t, m, &Ask{Rules: r, Keys: []string{"a"}, Cost: 1})
		for range 2 {
			var rcp Receipt
			if err := m.Give(t.Context(), &Return{Rules: r, Keys: []string{"a"}, Outcome: Success, Stamp: *now, Expires: *now + AttemptLifetime,
				Took: []Took{{TierAccount, r.tiers[0].Limits[0].id, l.Limit}}, OutcomeKey: fmt.Sprint("outcome", i),
				PlaceKey: fmt.Sprint("place", i), FailuresKey: fmt.Sprint("failures", i)}, &rcp); err != nil {
				t.Fatal(err)
			}
			gave += rcp.Gave
			if !rcp.Recorded && !rcp.Duplicate {
				t.Fatalf("%+v", rcp)
			}
		}
	}
	if gave > 64*64/4 || gave < 500 {
		t.Errorf("%d gave back with room for 1024", gave)
	}
	if m.Stats().Unkept == 0 {
		t.Error("nobody would know")
	}
	// The dead make room.
	*now += 31 * Day
	var rcp Receipt
	for i := range 100 {
		mustTake(t, m, &Ask{Rules: r, Keys: []string{"a"}, Cost: 1})
		if err := m.Give(t.Context(), &Return{Rules: r, Keys: []string{"a"}, Outcome: Success, Stamp: *now, Expires: *now + AttemptLifetime,
			Took: []Took{{TierAccount, r.tiers[0].Limits[0].id, l.Limit}}, OutcomeKey: fmt.Sprint("new", i)}, &rcp); err != nil || rcp.Gave != 1 {
			t.Fatalf("%+v %v", rcp, err)
		}
	}
}

func TestRecordsDieByTheirTTL(t *testing.T) {
	m, now := clocked(MemoryConfig{})
	r, err := NewRules([]TierSpec{{TierGlobal, ScalePosture, []LimitSpec{{Name: "burst", Steps: NoSteps}}}}, [4]Effect{}, Pace{})
	if err != nil {
		t.Fatal(err)
	}
	base, _ := NewLimit(7, 1, time.Second)
	if err := m.Put(t.Context(), "state", State{Baseline: base}.Encode(), Second); err != nil {
		t.Fatal(err)
	}
	a := &Ask{Rules: r, Keys: []string{"g"}, Cost: 1, StateKey: "state"}
	if ans := mustTake(t, m, a); ans.Baseline != base {
		t.Errorf("baseline is %v", ans.Baseline)
	}
	*now += Second
	if ans := mustTake(t, m, a); !ans.Baseline.Zero() {
		t.Errorf("baseline is still %v", ans.Baseline)
	}
}

// loginLike has as many tiers and limits as DESIGN's default policy.
func loginLike(t testing.TB) (*Rules, []string) {
	t.Helper()
	var tiers []TierSpec
	for _, tier := range []struct {
		tier Tier
		role Role
	}{{TierPair, 0}, {TierAccount, 0}, {TierIP, SkipFamiliar | ScaleIP}, {TierNetwork, SkipFamiliar | ScaleNetwork}} {
		a, b := limitOf(t, "burst", 10_000_000, 10_000_000, 10*time.Minute), limitOf(t, "sustained", 10_000_000, 10_000_000, 24*time.Hour)
		tiers = append(tiers, TierSpec{tier.tier, tier.role, []LimitSpec{a, b}})
	}
	tiers = append(tiers, TierSpec{TierGlobal, SkipFamiliar | ScalePosture, []LimitSpec{{Name: "burst", Steps: NoSteps}}})
	r, err := NewRules(tiers, [4]Effect{}, Pace{})
	if err != nil {
		t.Fatal(err)
	}
	s, ip := NewSpace("default", 0), Address{}
	a := Account{1}
	return r, []string{s.Pair("login", a, ip), s.Account("login", a), s.IP("login", ip), s.Network("login", ip), s.Global("login")}
}

func TestTakeAllocatesNothing(t *testing.T) {
	m := NewMemory(MemoryConfig{})
	r, keys := loginLike(t)
	a := &Ask{Rules: r, Keys: keys, Cost: 1, StateKey: "state", SuspectKeys: [3]string{"s1", "s2"}, KKeys: [2]string{"k1", "k2"},
		RevokedKey: "revoked", PlaceKey: "place"}
	if err := m.Put(t.Context(), "state", State{}.Encode(), Day); err != nil {
		t.Fatal(err)
	}
	var ans Answer
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if err := m.Take(ctx, a, &ans); err != nil || !ans.Let {
			t.Fatal(err, ans)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestABucketNeedsFewBytes(t *testing.T) {
	m := NewMemory(MemoryConfig{})
	r := rulesOf(t, TierAccount, 0, limitOf(t, "burst", 20, 20, time.Hour), limitOf(t, "sustained", 100, 10, 24*time.Hour))
	const n = 200_000
	var before, after runtime.MemStats
	var ans Answer
	a := &Ask{Rules: r, Keys: []string{""}, Cost: 1}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		a.Keys[0] = fmt.Sprintf("gd:{default/0}:login:account:%022d", i)
		if err := m.Take(t.Context(), a, &ans); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes a key of two limits", per)
	if per > 102 || m.Len() != n { // 0.65 of a sync.Map of rate.Limiters under the same keys
		t.Errorf("%.1f bytes a key, %d keys", per, m.Len())
	}
	runtime.KeepAlive(m)
}

func BenchmarkTake(b *testing.B) {
	m := NewMemory(MemoryConfig{})
	r, keys := loginLike(b)
	a := &Ask{Rules: r, Keys: keys, Cost: 1, StateKey: "state", RevokedKey: "revoked", PlaceKey: "place"}
	var ans Answer
	for b.Loop() {
		if err := m.Take(b.Context(), a, &ans); err != nil {
			b.Fatal(err)
		}
	}
}
