package keys_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/guardd/guardd/keys"
)

// nodes are a store in parts, each of which can be down: a key's is what home says
// of its hash tag.
type nodes struct {
	*keys.Memory
	home  map[string]string
	down  map[string]bool
	mu    sync.Mutex // of asked, and of flips: parts are probed together
	asked map[string]int
}

var errDown = errors.New("node is down")

func (n *nodes) Part(key string) string {
	tag, _, _ := strings.Cut(strings.TrimPrefix(key, "gd:{"), "}")
	return n.home[tag]
}

func (n *nodes) call(key string) error {
	part := n.Part(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[part]++
	if n.down[part] {
		return errDown
	}
	return nil
}

func (n *nodes) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	if err := n.call(a.Keys[0]); err != nil {
		return err
	}
	return n.Memory.Take(ctx, a, ans)
}

func (n *nodes) Charge(ctx context.Context, c *keys.Charge) error {
	if err := n.call(c.Keys[0]); err != nil {
		return err
	}
	return n.Memory.Charge(ctx, c)
}

func (n *nodes) Beat(_ context.Context, key string, _ [8]byte, _, _ int64) (int64, error) {
	return 1, n.call(key)
}

// apart is one instance over such a store, by a clock that the test owns.
type apart struct {
	*keys.Fallback
	*nodes
	t        *testing.T
	now      int64
	local    *keys.Memory
	breakers *keys.Breakers
	live     *keys.Live
	rules    *keys.Rules
	flips    []string
}

func newApart(t *testing.T) *apart {
	t.Helper()
	a := &apart{t: t, now: 1_800_000_000 * keys.Second}
	clock := func() int64 { return a.now }
	a.nodes = &nodes{Memory: keys.NewMemory(keys.MemoryConfig{Now: clock}), down: map[string]bool{}, asked: map[string]int{},
		home: map[string]string{"fleet": "one", "r/0": "one", "s/0": "two", "t/0": "three"}}
	a.local = keys.NewMemory(keys.MemoryConfig{Now: clock})
	a.breakers = keys.NewBreakers(keys.BreakersConfig{Store: a.nodes, Flipped: func(part string, open bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.flips = append(a.flips, fmt.Sprint(part, " ", open))
	}})
	a.live = keys.NewLive(keys.LiveConfig{Store: a.nodes, Breakers: a.breakers, Now: clock})
	a.Fallback = keys.NewFallback(keys.FallbackConfig{Primary: a.nodes, Local: a.local, Instances: 1, Breakers: a.breakers, Heart: true})
	var err error
	a.rules, err = keys.NewRules([]keys.TierSpec{{Tier: keys.TierPair, Limits: []keys.LimitSpec{
		{Name: "burst", Limit: perTenMinutes(t, 10), Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *apart) take(key string) (ans keys.Answer) {
	a.t.Helper()
	if err := a.Fallback.Take(a.t.Context(), &keys.Ask{Rules: a.rules, Keys: []string{key}, Cost: 1}, &ans); err != nil {
		a.t.Fatal(err)
	}
	return ans
}

// left is what a store has left in a bucket.
func (a *apart) left(s keys.Store, key string) int64 {
	a.t.Helper()
	var ans keys.Answer
	if err := s.Take(a.t.Context(), &keys.Ask{Rules: a.rules, Keys: []string{key}}, &ans); err != nil {
		a.t.Fatal(err)
	}
	return ans.Limits[0].Tokens()
}

// loops passes so many quarters of a second, the instance's own loops in each.
func (a *apart) loops(n int) {
	for range n {
		a.now += keys.Second / 4
		_ = a.live.Beat(a.t.Context())
		a.live.Tend(a.t.Context(), nil)
		a.Return(a.t.Context())
	}
}

func (a *apart) open(part string) bool {
	_, each := a.Breakers()
	for _, p := range each {
		if p.Part == part {
			return p.Open
		}
	}
	a.t.Fatalf("there is no part %s in %+v", part, each)
	return false
}

// One of three parts is gone, whichever: what lives on the others is counted there
// all the while, the breaker before it opens once and closes once, and what was
// let through there alone comes back.
func TestAPartThatIsGoneTakesNoOtherWithIt(t *testing.T) {
	for gone, tag := range map[string]string{"one": "r/0", "two": "s/0", "three": "t/0"} {
		a := newApart(t)
		key := func(tag string, i int) string { return fmt.Sprintf("gd:{%s}:%d", tag, i) }
		a.loops(1)
		for i := range 1000 {
			a.down[gone] = i >= 100 && i < 800
			for _, on := range []string{"r/0", "s/0", "t/0"} {
				ans := a.take(key(on, i))
				if alone := on == tag && a.down[gone]; ans.Degraded != alone && (i < 800 || i > 850 || on != tag) {
					t.Fatalf("%s is gone: round %d at %s: degraded %v", gone, i, on, ans.Degraded)
				}
			}
			a.loops(1)
		}
		if want := fmt.Sprint([]string{gone + " true", gone + " false"}); fmt.Sprint(a.flips) != want {
			t.Errorf("%s is gone: %s, want %s", gone, a.flips, want)
		}
		if st := a.Debts(); st.Owed != 0 || st.Lost != 0 {
			t.Errorf("%s is gone: %+v", gone, st)
		}
		for i := 790; i < 1000; i++ {
			if n := a.left(a.Memory, key(tag, i)); n != 9 && n != 10 { // refilled, or charged, or both
				t.Errorf("%d left", n)
			}
		}
		if all, _ := a.Breakers(); all.Opened != 1 || all.Open || all.Probes < 700 || all.Skipped < 500 {
			t.Errorf("%+v", all)
		}
	}
}

// A part that nobody asks but who owes it finds back, too: nothing is let through
// there before it has worked once, and only its heart can find that.
func TestAPartAskedByDebtorsAloneIsFoundAgain(t *testing.T) {
	a := newApart(t)
	const key = "gd:{t/0}:victim"
	a.loops(1)
	a.down["three"] = true
	a.take(key) // one failure opens nothing
	a.down["three"] = false
	if ans := a.take(key); !ans.Degraded || a.open("three") {
		t.Fatalf("degraded %v, open %v", ans.Degraded, a.open("three"))
	}
	a.loops(1)
	if ans := a.take(key); ans.Degraded || ans.Limits[0].Tokens() != 7 {
		t.Errorf("degraded %v, %d left", ans.Degraded, ans.Limits[0].Tokens())
	}
}

// A take pays first what its own buckets owe, whether or not the loop that brings
// back all else has come to it.
func TestATakePaysWhatItsBucketsOweFirst(t *testing.T) {
	a := newApart(t)
	const key = "gd:{t/0}:victim"
	a.loops(1)
	a.down["three"] = true
	a.take(key)
	a.down["three"] = false
	a.live.Tend(t.Context(), nil)
	if ans := a.take(key); ans.Degraded || ans.Limits[0].Tokens() != 8 {
		t.Errorf("degraded %v, %d left of 10, of which 2 were taken", ans.Degraded, ans.Limits[0].Tokens())
	}
}

// What is owed to a part that is gone, and be it ten thousand buckets, keeps
// nothing from coming back to another, and nothing of another's from being
// mirrored.
func TestDebtsToAPartThatIsGoneHoldUpNoOthers(t *testing.T) {
	a := newApart(t)
	a.loops(1)
	a.down["two"], a.down["three"] = true, true
	for i := range 10_000 {
		a.take(fmt.Sprintf("gd:{s/0}:%d", i))
	}
	for i := range 50 {
		a.take(fmt.Sprintf("gd:{t/0}:%d", i))
	}
	a.down["three"] = false
	for i := 0; a.Debts().Returned < 50; i++ {
		if a.loops(1); i == 400 {
			t.Fatalf("%+v", a.Debts())
		}
	}
	if a.take("gd:{r/0}:x"); a.left(a.local, "gd:{r/0}:x") != 9 {
		t.Errorf("%d are left of 10 in the twin, of which one was taken", a.left(a.local, "gd:{r/0}:x"))
	}
}

// A charge that failed when its part had just begun to work waits for the next
// probe that works, and for nothing else: a part that is gone is asked no more
// often for what it is owed.
func TestAChargeThatFailedWaitsForAProbeThatWorks(t *testing.T) {
	a := newApart(t)
	a.loops(1)
	a.down["two"] = true
	for i := range 20 {
		a.take(fmt.Sprintf("gd:{s/0}:%d", i))
	}
	a.now += keys.Second / 4
	a.down["two"] = false
	a.live.Tend(t.Context(), nil) // the first probe works
	a.down["two"] = true
	a.Return(t.Context())
	a.now += keys.Second / 4
	a.live.Tend(t.Context(), nil) // the second does not
	calls := a.asked["two"]
	for range 50 {
		a.Return(t.Context())
	}
	if n := a.asked["two"] - calls; n != 0 || a.Debts().Owed != 20 {
		t.Errorf("asked %d times between two probes, %+v", n, a.Debts())
	}
	a.down["two"] = false
	if a.loops(10); a.Debts().Owed != 0 || a.Debts().Returned != 20 {
		t.Errorf("%+v", a.Debts())
	}
}

// Where a part's keys live elsewhere, after a failover, its heir begins open, so
// that debts come back first; what is left behind is forgotten, but for what it
// has done, and holds nothing open for ever.
func TestAnHeirBeginsOpenAndThePartThatLeftIsForgotten(t *testing.T) {
	a := newApart(t)
	const key = "gd:{s/0}:victim"
	a.loops(1)
	a.down["two"] = true
	for range 8 {
		a.take(key)
	}
	a.loops(100)
	if !a.open("two") {
		t.Fatal("closed")
	}
	a.home["s/0"] = "replica"
	if ans := a.take(key); !ans.Degraded || !a.open("replica") {
		t.Errorf("the heir is asked at once")
	}
	a.loops(20)
	if ans := a.take(key); ans.Degraded || ans.Limits[0].Tokens() > 2 {
		t.Errorf("after the failover: degraded %v, %d left", ans.Degraded, ans.Limits[0].Tokens())
	}
	all, each := a.Breakers()
	for _, p := range each {
		if p.Part == "two" {
			t.Errorf("%+v is not forgotten", p)
		}
	}
	if all.Opened != 2 || all.Open || all.Probes < 100 {
		t.Errorf("%+v", all)
	}
	calls := a.asked["two"]
	if a.loops(20); a.asked["two"] != calls {
		t.Error("who is gone is asked for ever")
	}
}

// A Cluster that was gone at the start is one part until its nodes are known, and
// then each begins open.
func TestNodesThatAreFoundLaterBeginOpen(t *testing.T) {
	a := newApart(t)
	home := a.home
	a.home = map[string]string{}
	a.down[""] = true
	a.loops(20)
	if ans := a.take("gd:{s/0}:x"); !ans.Degraded || !a.open("") {
		t.Fatal("closed")
	}
	a.home = home
	for range 2 { // of those that are asked at once, and of those that are asked later
		if ans := a.take("gd:{s/0}:x"); !ans.Degraded || !a.open("two") {
			t.Error("asked at once")
		}
		a.loops(1)
	}
	a.loops(10)
	for _, tag := range []string{"r/0", "s/0", "t/0"} {
		if a.take("gd:{" + tag + "}:x").Degraded {
			t.Errorf("%s is not asked", tag)
		}
	}
	if _, each := a.Breakers(); len(each) != 3 {
		t.Errorf("%+v", each)
	}
}

func TestABeatKeyIsInTheSlotOfItsKey(t *testing.T) {
	for key, want := range map[string]string{
		keys.LiveKey:                             "gd:{fleet}:beat",
		keys.NewSpace("shop", 3).Global("login"): "gd:{shop/3}:beat",
		keys.PlanSpace(keys.Account{}).Rule("x"): "gd:{plan/" + keys.Account{}.String() + "}:beat",
	} {
		if got := keys.BeatKey(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
