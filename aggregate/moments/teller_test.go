package moments_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/moments"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

// fleet is some Tellers over one store and one bus, by one clock that the test owns.
type fleet struct {
	*testing.T
	clock  atomic.Int64
	store  *store
	desk   *operate.Desk
	bus    *bus
	all    []*moments.Teller
	realms []string
}

// store is the shared one, whose Swap may fail before or after it was done.
type store struct {
	*keys.Memory
	fail func() (done, failed bool)
	gone string // in the keys that do not answer; "": none
}

var errGone = errors.New("gone")

func (s *store) Get(ctx context.Context, key string) ([]byte, error) {
	if s.gone != "" && strings.Contains(key, s.gone) {
		return nil, errGone
	}
	return s.Memory.Get(ctx, key)
}

func (s *store) Swap(ctx context.Context, key string, was, value []byte, ttl int64) (bool, error) {
	if s.fail == nil || !strings.HasSuffix(key, ":told") {
		return s.Memory.Swap(ctx, key, was, value, ttl)
	}
	done, failed := s.fail()
	ok := false
	if done {
		ok, _ = s.Memory.Swap(ctx, key, was, value, ttl)
	}
	if failed {
		return false, errGone
	}
	return ok, nil
}

// bus keeps what was published; it may fail before or after that.
type bus struct {
	aggregate.Bus
	fail func() (done, failed bool)
	got  []aggregate.Finding
}

func (b *bus) Publish(_ context.Context, topic aggregate.Topic, msgs []aggregate.Message) error {
	done, failed := true, false
	if b.fail != nil {
		done, failed = b.fail()
	}
	for _, m := range msgs {
		var f aggregate.Finding
		if err := json.Unmarshal(m.Value, &f); err != nil || topic != aggregate.TopicFindings || m.Key != f.Realm {
			return fmt.Errorf("%s of %q: %w", topic, m.Key, err)
		}
		if done {
			b.got = append(b.got, f)
		}
	}
	if failed {
		return errGone
	}
	return nil
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{T: t, bus: &bus{}, realms: []string{"default", "shop"}}
	f.clock.Store(1_800_000_000 * keys.Second)
	f.store = &store{Memory: keys.NewMemory(keys.MemoryConfig{Now: f.clock.Load})}
	p := escalation.DefaultPolicy()
	p.Realms["shop"] = &escalation.Realm{Shards: 2, Delivery: escalation.Delivery{Driver: "log"}}
	secrets, err := escalation.NewSecrets([][]byte{[]byte("a secret of the tests, long enough")})
	if err != nil {
		t.Fatal(err)
	}
	g, err := escalation.New(escalation.Config{Store: f.store, Records: f.store, Policy: p, Secrets: secrets, Now: f.clock.Load})
	if err != nil {
		t.Fatal(err)
	}
	f.desk = operate.New(operate.Config{Guard: g, Store: f.store, Realms: func() []string { return f.realms }, Reload: func(bool) error { return nil }}, "desk")
	for range n {
		f.join()
	}
	return f
}

func (f *fleet) join() *moments.Teller {
	t := moments.New(moments.Config{Store: f.store, Journal: f.desk, Bus: f.bus, Instance: fmt.Sprint("instance ", len(f.all)),
		Realms: func() []string { return f.realms },
		Shards: func(realm string) (int, bool) { return map[string]int{"default": 1, "shop": 2}[realm], true },
		Now:    func() time.Time { return time.UnixMicro(f.clock.Load()) }})
	f.all = append(f.all, t)
	return t
}

// look has every Teller look some times, a second apart.
func (f *fleet) look(times int) {
	f.Helper()
	for range times {
		f.clock.Add(keys.Second)
		for _, t := range f.all {
			if err := t.Look(f.Context()); err != nil && !errors.Is(err, errGone) {
				f.Fatal(err)
			}
		}
	}
}

// told is what was published since, one line each.
func (f *fleet) told() (lines []string) {
	for _, x := range f.bus.got {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s -> %s (%s) %s", x.Realm, x.What, x.Action, x.Was, x.Is, x.Reason, x.By)))
		if x.V != 1 || x.State != aggregate.FindingOnce || x.ID == "" || x.Start.IsZero() || x.Start != x.Last || !x.End.IsZero() {
			f.Errorf("%+v is no finding of a moment", x)
		}
	}
	f.bus.got = nil
	return lines
}

// set is what the aggregator does.
func (f *fleet) set(realm string, shards int, p keys.Posture, lasts time.Duration) {
	f.Helper()
	now := f.clock.Load()
	c := &keys.Control{Epoch: now, Posture: p}
	if p > keys.Normal {
		c.Until = now + lasts.Microseconds()
	}
	if _, err := keys.NewSpaces(realm, shards).SetControl(f.Context(), f.store, c, now); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

var ops = &operate.Who{Name: "ops"}

func (f *fleet) expect(want ...string) {
	f.Helper()
	got := f.told()
	for i := range got { // times are the clock's
		got[i] = regexp.MustCompile(`2027-01-15T\d\d:\d\d:\d\dZ`).ReplaceAllString(got[i], "T")
	}
	if !slices.Equal(got, want) {
		f.Errorf("told:\n%s\nnot:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEachMomentIsToldOnceByAFleet: what operators do and every change of posture,
// with who made it, whichever of three instances sees it first.
func TestEachMomentIsToldOnceByAFleet(t *testing.T) {
	f := newFleet(t, 3)
	f.look(2)
	f.expect()
	f.set("shop", 2, keys.Elevated, 15*time.Minute)
	f.look(2)
	f.expect("shop posture_change:  normal -> elevated (detection)")
	f.set("shop", 2, keys.Elevated, 15*time.Minute) // renewed
	f.look(2)
	f.expect()
	_, err := f.desk.Pin(t.Context(), ops, &operate.PinRequest{Realm: "shop", Posture: "critical", ExpiresIn: "10m", Reason: "ticket 1"})
	f.must(err)
	f.look(2)
	f.expect("shop operator_action: posture.pin elevated, not pinned -> critical, pinned until T (ticket 1) ops",
		"shop posture_change:  elevated -> critical (an operator has pinned it until T)")
	f.clock.Add(10 * 60 * keys.Second)
	f.look(2)
	f.expect("shop posture_change:  critical -> elevated (an operator's pin has ended)")
	f.clock.Add(10 * 60 * keys.Second)
	f.look(2)
	f.expect("shop posture_change:  elevated -> normal (nobody has renewed what detection had set)")
	_, err = f.desk.Pin(t.Context(), ops, &operate.PinRequest{Posture: "elevated", ExpiresIn: "2h", Reason: "ticket 1"})
	f.must(err)
	f.look(2)
	f.told()
	_, err = f.desk.Release(t.Context(), ops, &operate.ReleaseRequest{Reason: "over"})
	f.must(err)
	f.look(2)
	f.expect("default operator_action: posture.release elevated, pinned until T -> normal, not pinned (over) ops",
		"default posture_change:  elevated -> normal (an operator has released it)")
	_, err = f.desk.Pin(t.Context(), ops, &operate.PinRequest{Posture: "high", ExpiresIn: "2h", Reason: "ticket 2"})
	f.must(err)
	_, err = f.desk.Release(t.Context(), ops, &operate.ReleaseRequest{Reason: "over"}) // between two looks: of the posture nobody tells
	f.must(err)
	f.look(2)
	f.expect("default operator_action: posture.pin normal, not pinned -> high, pinned until T (ticket 2) ops",
		"default operator_action: posture.release high, pinned until T -> normal, not pinned (over) ops")
	_, err = f.desk.Reload(t.Context(), ops, &operate.ReloadRequest{Reason: "a new policy"})
	f.must(err)
	f.look(2)
	f.expect("operator_action: reload  ->  (a new policy) ops") // of all realms
	f.join()
	f.look(2)
	f.expect()
}

// TestWhomAnOperatorMeantIsTold, as hashes and networks, and what became of it.
func TestWhomAnOperatorMeantIsTold(t *testing.T) {
	f := newFleet(t, 1)
	_, err := f.desk.Clear(t.Context(), ops, &operate.ClearRequest{Account: "alice@example.com", IP: "203.0.113.7", Reason: "ticket 3"})
	f.must(err)
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("198.51.100.%d/32", i))
	}
	for _, cidr := range all {
		_, err = f.desk.List(t.Context(), ops, "deny", &operate.ListRequest{CIDR: cidr, Reason: "a scan", ExpiresAt: time.UnixMicro(f.clock.Load()).Add(time.Hour)})
		f.must(err)
	}
	f.look(1)
	if len(f.bus.got) != 31 {
		t.Fatalf("%d are told", len(f.bus.got))
	}
	c, l := f.bus.got[0], f.bus.got[1]
	if len(c.Samples) != 1 || len(c.Samples[0]) != 22 || c.Groups[0] != (aggregate.FindingGroup{Kind: "source", Key: "203.0.113.7/32"}) {
		t.Errorf("a clear is told as %+v", c)
	}
	if l.Groups[0] != (aggregate.FindingGroup{Kind: "network", Key: "198.51.100.0/32"}) || len(l.Done) != 1 || !strings.Contains(l.Done[0].What, "list.set on deny, networks: 1") {
		t.Errorf("a list is told as %+v", l)
	}
	b, _ := json.Marshal(f.bus.got)
	if strings.Contains(string(b), "alice") {
		t.Errorf("a name is told: %s", b)
	}
}

// TestWhatWasLongAgoIsNotToldByTheFirst, and what is more than is told at once is told.
func TestWhatWasLongAgoIsNotToldByTheFirst(t *testing.T) {
	f := newFleet(t, 0)
	for i := range 80 {
		if i == 20 {
			f.clock.Add(2 * 3600 * keys.Second)
		}
		_, err := f.desk.Release(t.Context(), ops, &operate.ReleaseRequest{Reason: fmt.Sprint("number ", i)})
		f.must(err)
	}
	f.join()
	f.look(5)
	if n := len(f.told()); n != 60 {
		t.Errorf("%d are told by the first of 60 in the hour and 20 before", n)
	}
	for i := range 250 {
		_, err := f.desk.Release(t.Context(), ops, &operate.ReleaseRequest{Reason: fmt.Sprint("number ", i)})
		f.must(err)
	}
	f.look(7)
	if n := len(f.told()); n != 250 {
		t.Errorf("%d of 250 are told", n)
	}
}

// TestARealmThatDoesNotAnswerHoldsUpNoOther.
func TestARealmThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	f := newFleet(t, 1)
	f.set("shop", 2, keys.High, time.Hour)
	f.set("default", 1, keys.High, time.Hour)
	f.store.gone = "{shop"
	f.look(2)
	f.expect("default posture_change:  normal -> high (detection)")
	f.store.gone = ""
	f.look(2)
	f.expect("shop posture_change:  normal -> high (detection)")
}

// TestMomentsThroughFaults: instances that come and go, a store and a bus that fail
// before or after they did it. Everything is told, in order, each under one id, and
// twice only what a fault has left open.
func TestMomentsThroughFaults(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFleet(t, 3)
		faults, rate := 0, 0.3
		fail := func() (done, failed bool) {
			switch x := r.Float64(); {
			case x < rate/2:
				faults++
				return false, true
			case x < rate:
				faults++
				return true, true
			}
			return true, false
		}
		f.store.fail, f.bus.fail = fail, fail
		var want []string
		posture := keys.Normal
		for step := range 60 {
			switch r.IntN(4) {
			case 0:
				_, err := f.desk.Release(t.Context(), ops, &operate.ReleaseRequest{Reason: fmt.Sprint("step ", step)})
				f.must(err)
				want = append(want, fmt.Sprint("step ", step))
			case 1:
				posture = keys.Posture(r.IntN(4))
				f.set("shop", 2, posture, time.Hour*9)
			case 2: // one dies, another comes
				f.all[r.IntN(3)] = f.join()
				f.all = f.all[:3]
			}
			f.clock.Add(int64(1+r.IntN(9)) * keys.Second)
			x := f.all[r.IntN(3)]
			if err := x.Look(t.Context()); err != nil && !errors.Is(err, errGone) {
				t.Fatal(err)
			}
		}
		rate = 0
		for range 5 {
			f.look(1)
			f.clock.Add(20 * keys.Second)
		}
		seen, is := map[string]string{}, "normal"
		var got []string
		twice := 0
		for _, x := range f.bus.got {
			b, _ := json.Marshal(x)
			if was, again := seen[x.ID]; again {
				if twice++; was != string(b) {
					t.Fatalf("seed %d: under one id were told\n%s\n%s", seed, was, b)
				}
				continue
			}
			seen[x.ID] = string(b)
			if x.What == aggregate.PostureChange {
				if x.Was != is {
					t.Errorf("seed %d: a change from %s, and %s was told", seed, x.Was, is)
				}
				is = x.Is
				continue
			}
			got = append(got, x.Reason)
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: told of operators %v, not %v", seed, got, want)
		}
		if is != posture.String() {
			t.Errorf("seed %d: %s was told last, and %v is in force", seed, is, posture)
		}
		if twice > 0 && faults == 0 {
			t.Errorf("seed %d: %d were told twice without a fault", seed, twice)
		}
	}
}

// TestWhoeverIsAtItIsNotOvertaken: what one has said that it publishes no other does,
// until its time is over.
func TestWhoeverIsAtItIsNotOvertaken(t *testing.T) {
	f := newFleet(t, 2)
	f.look(1)
	f.bus.fail = func() (bool, bool) { return true, true } // published, and nobody knows
	f.set("shop", 2, keys.High, time.Hour)
	f.look(1)
	f.bus.fail = nil
	f.look(10)
	if n := len(f.bus.got); n != 1 {
		t.Errorf("told %d times while somebody was at it", n)
	}
	f.look(10)
	f.look(10)
	if n := len(f.bus.got); n != 2 || f.bus.got[0].ID != f.bus.got[1].ID {
		t.Errorf("told %d times", n)
	}
}
