package aggregate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/redisstore"
)

// learned is a store that an aggregator keeps what it learns in.
type learned interface {
	aggregate.AggregatorStore
	keys.Streams
}

// stores are those there are.
func stores(t *testing.T, run func(t *testing.T, st learned)) {
	t.Run("twin", func(t *testing.T) { run(t, keys.NewMemory(keys.MemoryConfig{})) })
	t.Run("redis", func(t *testing.T) {
		const long = 10 * time.Second
		client, err := redisstore.Open(redistest.Start(t).URL(), long)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		run(t, redisstore.New(redisstore.Config{Client: client, Deadline: long}))
	})
}

// shardsOf is the policy of these tests: a realm and how many shards it has.
func shardsOf(realm string) (int, bool) { return 3, realm == "default" }

// world is a log and what reads it. Its clock is the time of the last event, so
// that nothing waits for anything.
type world struct {
	t       *testing.T
	bus     *aggregate.MemoryBus
	store   learned
	clock   atomic.Int64
	recents *aggregate.Recents
	seq     map[string]uint64
	sent    int64
}

func newWorld(t *testing.T, st learned) *world {
	w := &world{t: t, store: st, seq: map[string]uint64{}, bus: aggregate.NewMemoryBus(aggregate.MemoryBusConfig{Keep: 1 << 20})}
	w.clock.Store(time.Now().UnixMicro())
	w.recents = aggregate.NewRecents(aggregate.RecentsConfig{Streams: st, Now: w.now})
	t.Cleanup(func() { _ = w.bus.Close() })
	return w
}

func (w *world) now() time.Time { return time.UnixMicro(w.clock.Load()).UTC() }

func (w *world) later(d time.Duration) { w.clock.Add(d.Microseconds()) }

// event is one of instance "a", unless change says otherwise.
func (w *world) event(change func(e *aggregate.Event)) *aggregate.Event {
	e := &aggregate.Event{V: 1, Instance: "a", Kind: aggregate.KindOutcome, Time: w.now(), Realm: "default", Flow: "login", IP: "192.0.2.1", Outcome: "success"}
	change(e)
	if e.Seq == 0 {
		w.seq[e.Instance]++
		e.Seq = w.seq[e.Instance]
	}
	e.ID = fmt.Sprintf("%s-%d", e.Instance, e.Seq)
	return e
}

func (w *world) publish(events ...*aggregate.Event) {
	w.t.Helper()
	var msgs []aggregate.Message
	for _, e := range events {
		b, err := e.AppendTo(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		msgs = append(msgs, aggregate.Message{Key: e.Realm, Value: b})
	}
	if err := w.bus.Publish(w.t.Context(), aggregate.TopicEvents, msgs); err != nil {
		w.t.Fatal(err)
	}
	w.sent += int64(len(msgs))
}

// signIn publishes a success of each account from address.
func (w *world) signIn(ip string, from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		w.publish(w.event(func(e *aggregate.Event) { e.IP, e.Account = ip, keys.Account{byte(i), byte(i >> 8), 7}.String() }))
	}
}

// aggregator runs one until the returned function is called.
func (w *world) aggregator(change func(*aggregate.AggregatorConfig)) (a *aggregate.Aggregator, stop func()) {
	c := aggregate.AggregatorConfig{Bus: w.bus, Group: "guardd", Store: w.store, Shards: shardsOf, Recents: w.recents, Now: w.now,
		Flush: time.Millisecond, Save: 20 * time.Millisecond}
	if change != nil {
		change(&c)
	}
	a = aggregate.NewAggregator(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return a, stop
}

func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	until(w.t, what, f)
}

// read waits until a has read n events.
func (w *world) read(a *aggregate.Aggregator, n uint64) {
	w.t.Helper()
	w.until(fmt.Sprint("reading ", n), func() bool { return a.Stats().Realms["default"].Events >= n })
}

// k is the size of a network as an attempt finds it in every shard; -1 where they
// differ.
func (w *world) k(prefix string) (k int64) {
	w.t.Helper()
	p := netip.MustParsePrefix(prefix)
	for i, s := range keys.NewSpaces("default", 3) {
		b, err := w.store.Get(w.t.Context(), s.K(p))
		if err != nil {
			w.t.Fatal(err)
		}
		here := keys.K(b, w.clock.Load())
		if i > 0 && here != k {
			return -1
		}
		k = here
	}
	return k
}

// kept is how many events the store holds, repeats included.
func (w *world) kept() (n int) {
	w.t.Helper()
	for before := ""; ; {
		values, next, err := w.store.Page(w.t.Context(), keys.Recents("default"), before, keys.MaxPage)
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(values)
		if before = next; before == "" {
			return n
		}
	}
}

func TestAggregatorLearnsSharedAddresses(t *testing.T) {
	stores(t, func(t *testing.T, st learned) {
		w := newWorld(t, st)
		w.signIn("2001:db8:1:2::3", 0, 60)
		w.signIn("2001:db8:1:3::3", 60, 80)
		w.signIn("192.0.2.1", 100, 149)
		w.aggregator(nil)
		w.until("k", func() bool { return w.k("2001:db8:1:2::/64") == 2 && w.k("2001:db8:1::/48") == 3 })
		if k := w.k("192.0.2.1/32"); k != 1 {
			t.Errorf("49 accounts make k %d", k)
		}
		w.signIn("192.0.2.1", 149, 150)
		w.until("50 accounts", func() bool { return w.k("192.0.2.1/32") == 2 })
		w.later(2 * 24 * time.Hour)
		w.signIn("192.0.2.1", 100, 101)
		w.later(25 * time.Hour) // the first would have lapsed by now
		w.signIn("192.0.2.1", 100, 101)
		w.until("renewed", func() bool { return w.k("192.0.2.1/32") == 2 && w.k("2001:db8:1:2::/64") == 1 })
	})
}

func TestAggregatorKeepsWhatWasDecided(t *testing.T) {
	stores(t, func(t *testing.T, st learned) {
		w := newWorld(t, st)
		a, _ := w.aggregator(nil)
		p := publisher(t, quick(w.bus, ""))
		v := verdict("default")
		v.Now = w.now()
		p.Attempt(v, 0)
		r := recorded("default")
		r.Now = w.now()
		p.Outcome(r, 0)
		p.Attempt(verdict("another"), 0)
		w.read(a, 2)
		w.until("keeping", func() bool { return w.kept() == 2 })
		found, err := w.recents.Find(t.Context(), "default", aggregate.Query{Account: keys.Account{1, 2, 3}.String()})
		if err != nil || len(found) != 2 || found[0].Kind != aggregate.KindOutcome || found[1].Tiers[0].Left != 9 || found[0].Attempt != found[1].Attempt {
			t.Errorf("%v, %+v", err, found)
		}
		if s := a.Stats(); len(s.Realms) != 1 || len(s.Readers) != 1 || s.Readers[0].Lag != 0 || !s.Readers[0].Last.Equal(noon) {
			t.Errorf("%+v", s)
		}
	})
}

// watch records what it is told.
type watch struct {
	mu     sync.Mutex
	before []byte
	sights []string
	asns   []uint32
	bins   []detect.Bin
	act    func(*detect.Bin) aggregate.Act
}

func (x *watch) See(s *detect.Sight) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sights, x.asns = append(x.sights, s.Class.String()), append(x.asns, s.ASN)
	s.NewNetwork = true
}

func (x *watch) Bin(b *detect.Bin) aggregate.Act {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bins = append(x.bins, *b)
	if x.act == nil {
		return aggregate.Act{}
	}
	return x.act(b)
}

func (x *watch) Open(int) []aggregate.Finding { return nil }

func (x *watch) Status() aggregate.WatchStatus { return aggregate.WatchStatus{} }

func (x *watch) State() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return fmt.Append(x.before, len(x.bins), ";")
}

func (x *watch) closed() []detect.Bin {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.bins)
}

func watching(x *watch) func(*aggregate.AggregatorConfig) {
	return func(c *aggregate.AggregatorConfig) {
		c.Watch = func(_ string, state []byte) aggregate.Watch { x.before = state; return x }
	}
}

func TestAggregatorCountsByTheTimeOfEvents(t *testing.T) {
	w, x := newWorld(t, keys.NewMemory(keys.MemoryConfig{})), &watch{}
	w.clock.Store(detect.BinStart(w.clock.Load()))
	start := w.now()
	w.later(70 * time.Second)
	at := func(seconds float64, f func(e *aggregate.Event)) *aggregate.Event {
		return w.event(func(e *aggregate.Event) {
			e.Time = start.Add(time.Duration(seconds * float64(time.Second)))
			e.Account = keys.Account{byte(w.seq["a"]), 9}.String()
			f(e)
		})
	}
	failure := func(e *aggregate.Event) { e.Outcome = "failure" }
	success := func(e *aggregate.Event) {}
	warm := func(e *aggregate.Event) { e.Outcome, e.Familiar = "failure", true }
	asked := func(e *aggregate.Event) { e.Kind, e.Outcome, e.Action = aggregate.KindAttempt, "", "captcha" }
	repeated := at(12, failure)
	w.publish(at(1, failure), repeated, at(13, success), repeated, at(14, warm), at(25, asked), at(19.9, failure), repeated,
		at(30, failure),  // closes 10..20
		at(18, failure),  // too late
		at(500, failure), // from a clock that is wrong
		at(65, failure))
	a, stop := w.aggregator(watching(x))
	w.read(a, 10)
	stop()
	want := []detect.Bin{
		{Count: [detect.Classes]int{detect.Success: 1, detect.Warm: 1, detect.Cold: 2}, NewNetwork: 2, Given: 1},
		{Count: [detect.Classes]int{detect.Unsolved: 1}, NewNetwork: 1},
		{Count: [detect.Classes]int{detect.Cold: 1}, NewNetwork: 1},
		{},
	}
	for i := range want {
		want[i].Start = start.Add(time.Duration(10+10*i) * time.Second).UnixMicro()
		for j := range want[i].UA { // all of them claim nothing
			if failed := want[i].Failed(); j == len(escalation.UAClasses)-1 {
				want[i].UA[j] = failed
			}
		}
	}
	if got := x.closed(); !slices.Equal(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	if len(x.sights) != 9 {
		t.Errorf("saw %v", x.sights)
	}
	s := a.Stats().Realms["default"]
	if s.Duplicates != 2 || s.Late != 1 || s.Ahead != 1 || s.Missing != 0 || s.Bins != 4 || s.Classes != [detect.Classes]uint64{1, 1, 6, 0, 1} {
		t.Errorf("%+v", s)
	}
}

func TestSightsKnowTheProvider(t *testing.T) {
	w, x := newWorld(t, keys.NewMemory(keys.MemoryConfig{})), &watch{}
	a, stop := w.aggregator(func(c *aggregate.AggregatorConfig) {
		watching(x)(c)
		c.Provider = func(a netip.Addr) uint32 {
			if a == netip.MustParseAddr("192.0.2.1") { // by any spelling
				return 64500
			}
			return 0
		}
	})
	w.signIn("192.0.2.1", 0, 1)
	w.signIn("::ffff:192.0.2.1", 1, 2)
	w.signIn("192.0.2.2", 2, 3)
	w.read(a, 3)
	stop()
	if want := []uint32{64500, 64500, 0}; !slices.Equal(x.asns, want) {
		t.Errorf("the providers %d, want %d", x.asns, want)
	}
}

func TestAggregatorMissesWhatWasLost(t *testing.T) {
	w := newWorld(t, keys.NewMemory(keys.MemoryConfig{}))
	number := func(instance string, kind string, seqs ...uint64) {
		for _, n := range seqs {
			w.publish(w.event(func(e *aggregate.Event) { e.Instance, e.Seq, e.Kind = instance, n, kind }))
		}
	}
	missing := func(a *aggregate.Aggregator, want uint64) {
		t.Helper()
		w.until(fmt.Sprint("missing ", want), func() bool { return a.Stats().Realms["default"].Missing == want })
	}
	number("a", aggregate.KindOutcome, 1, 2, 5, 5, 4)
	a, stop := w.aggregator(nil)
	missing(a, 1)
	number("b", aggregate.KindOutcome, 3) // of an instance that is new nothing was read before
	missing(a, 3)
	number("a", aggregate.KindOutcome, 3)
	missing(a, 2)
	number("b", aggregate.KindEnd, 10) // it was killed at 9
	number("b", aggregate.KindEnd, 10)
	missing(a, 8)
	w.until("keeping", func() bool { return w.kept() == 6 })
	stop()

	// Whoever goes on misses what is lost from then on.
	number("a", aggregate.KindOutcome, 7)
	a, stop = w.aggregator(nil)
	missing(a, 1)
	stop()

	// What cannot be read is put aside.
	if err := w.bus.Publish(t.Context(), aggregate.TopicEvents, []aggregate.Message{{Key: "default", Value: []byte("{}")},
		{Key: "default", Value: []byte(`{"v":1,"id":"x","kind":"attempt","realm":"default","time":"2026-11-30T12:00:00Z"}`)}}); err != nil {
		t.Fatal(err)
	}
	w.aggregator(nil)
	var reasons []string
	ctx, enough := context.WithCancel(t.Context())
	_ = w.bus.Consume(ctx, aggregate.TopicDead, "test", func(int) aggregate.Handler {
		return handlerFunc(func(m aggregate.Message) error {
			if reasons = append(reasons, m.Reason); len(reasons) == 2 {
				enough()
			}
			return nil
		})
	})
	if len(reasons) != 2 || !strings.Contains(reasons[1], "instance and seq are needed") {
		t.Errorf("%q", reasons)
	}
}

// TestAggregatorGoesOnWhereTheLastOneWas: a restart reads an hour again, and comes
// to the same.
func TestAggregatorGoesOnWhereTheLastOneWas(t *testing.T) {
	stores(t, func(t *testing.T, st learned) {
		w, first := newWorld(t, st), &watch{}
		w.signIn("192.0.2.1", 0, 74)
		w.later(30 * time.Minute)
		w.signIn("198.51.100.1", 200, 210)
		w.later(40 * time.Minute)
		w.signIn("198.51.100.1", 210, 230)
		a, stop := w.aggregator(watching(first))
		w.read(a, 104)
		w.until("k", func() bool { return w.k("192.0.2.1/32") == 2 })
		stop()
		if n := w.kept(); n != 104 {
			t.Errorf("%d events are kept of 104", n)
		}

		second := &watch{}
		a, stop = w.aggregator(watching(second))
		w.read(a, 30) // what is more than an hour old is not read again
		w.signIn("192.0.2.1", 74, 75)
		w.until("the 75th account of two lives", func() bool { return w.k("192.0.2.1/32") == 3 })
		w.later(time.Minute)
		w.signIn("192.0.2.1", 75, 76)
		w.read(a, 32)
		stop()
		if n := w.kept(); n != 106 {
			t.Errorf("%d events are kept of 106", n)
		}
		if s := a.Stats().Realms["default"]; s.Events != 32 || s.Duplicates != 0 || s.Missing != 0 {
			t.Errorf("%+v", s)
		}
		if want := fmt.Sprint(len(first.closed()), ";"); string(second.before) != want {
			t.Errorf("begins with the state %q, the one before ended with %q", second.before, want)
		}
		if !slices.Equal(second.closed()[:200], first.closed()[180:380]) {
			t.Error("counts otherwise than the one before")
		}
	})
}

// TestAggregatorsTakeOver: of two one reads, and when it ends the other goes on.
func TestAggregatorsTakeOver(t *testing.T) {
	w := newWorld(t, keys.NewMemory(keys.MemoryConfig{}))
	a, stop := w.aggregator(nil)
	w.signIn("192.0.2.1", 0, 40)
	w.read(a, 40)
	b, _ := w.aggregator(nil)
	w.signIn("192.0.2.1", 40, 50)
	w.read(a, 50)
	if n := len(b.Stats().Readers); n != 0 {
		t.Errorf("the second has %d partitions", n)
	}
	stop()
	w.signIn("192.0.2.1", 50, 75)
	w.read(b, 75)
	w.until("k", func() bool { return w.k("192.0.2.1/32") == 3 })
	w.until("keeping", func() bool { return w.kept() == 75 })
}

// TestAggregatorsWithoutACommonBusLearnTogether: each reads its own events only.
func TestAggregatorsWithoutACommonBusLearnTogether(t *testing.T) {
	stores(t, func(t *testing.T, st learned) {
		w, v := newWorld(t, st), newWorld(t, st)
		w.aggregator(nil)
		v.aggregator(nil)
		w.signIn("192.0.2.1", 0, 40)
		v.signIn("192.0.2.1", 40, 80)
		w.until("all", func() bool {
			w.signIn("192.0.2.1", 0, 1) // k is learned at a sign-in
			return w.k("192.0.2.1/32") == 3
		})
	})
}

// flaky is a store that fails as it is told: 1 does nothing, 2 does it and loses
// the reply.
type flaky struct {
	learned
	how atomic.Int32
}

var errFlaky = errors.New("flaky")

func (f *flaky) do(call func() error) error {
	switch f.how.Load() {
	case 1:
		return errFlaky
	case 2:
		if err := call(); err != nil {
			return err
		}
		return errFlaky
	}
	return call()
}

func (f *flaky) Get(ctx context.Context, key string) (v []byte, err error) {
	err = f.do(func() (err error) { v, err = f.learned.Get(ctx, key); return err })
	return v, err
}

func (f *flaky) Swap(ctx context.Context, key string, was, value []byte, ttl int64) (ok bool, err error) {
	err = f.do(func() (err error) { ok, err = f.learned.Swap(ctx, key, was, value, ttl); return err })
	return ok, err
}

func (f *flaky) Put(ctx context.Context, key string, value []byte, ttl int64) error {
	return f.do(func() error { return f.learned.Put(ctx, key, value, ttl) })
}

func (f *flaky) Append(ctx context.Context, key string, values [][]byte, keep int, ttl int64) error {
	return f.do(func() error { return f.learned.Append(ctx, key, values, keep, ttl) })
}

// TestAggregatorOutlivesItsStore: what was learned in an outage is written after
// it, whether the store had it or not.
func TestAggregatorOutlivesItsStore(t *testing.T) {
	for _, how := range []int32{1, 2} {
		memory := keys.NewMemory(keys.MemoryConfig{})
		f := &flaky{learned: memory}
		w := newWorld(t, f)
		x := &watch{act: func(b *detect.Bin) aggregate.Act {
			return aggregate.Act{Control: &keys.Control{Epoch: b.Start + detect.Width, Posture: keys.High, Until: b.Start + keys.Day}}
		}}
		var ops sync.Map
		a, _ := w.aggregator(func(c *aggregate.AggregatorConfig) {
			watching(x)(c)
			c.Failed = func(op string, err error) {
				if errors.Is(err, errFlaky) {
					ops.Store(op, true)
				}
			}
		})
		w.signIn("192.0.2.1", 0, 60)
		w.until("keeping", func() bool { return w.kept() == 60 && w.k("192.0.2.1/32") == 2 })
		f.how.Store(how)
		w.later(time.Minute)
		w.signIn("192.0.2.1", 60, 110)
		w.read(a, 110)
		w.until("trying", func() bool {
			all := true
			for _, op := range []string{"recents", "control", "sizes", "save"} {
				_, failed := ops.Load(op)
				all = all && (failed || op == "save" && how == 1)
			}
			return all
		})
		f.how.Store(0)
		w.until("k", func() bool { return w.k("192.0.2.1/32") == 4 })
		w.until("keeping", func() bool {
			found, err := w.recents.Find(t.Context(), "default", aggregate.Query{Most: 500})
			return err == nil && len(found) == 110
		})
		w.until("the posture", func() bool {
			b, err := memory.Get(t.Context(), keys.NewSpace("default", 2).State())
			return err == nil && keys.DecodeState(b).Posture == keys.High
		})
		for _, op := range aggregate.Failures {
			if n, failed := a.Stats().Failures[op], false; n > 0 {
				if _, failed = ops.Load(op); !failed {
					t.Errorf("%s: failed %d times, and nobody was told", op, n)
				}
			}
		}
	}
}

// TestAggregatorWaitsForItsStoreAtTheBeginning: without what was learned before it
// would learn wrong, so it reads nothing until it has that.
func TestAggregatorWaitsForItsStoreAtTheBeginning(t *testing.T) {
	f := &flaky{learned: keys.NewMemory(keys.MemoryConfig{})}
	w := newWorld(t, f)
	f.how.Store(1)
	var failed atomic.Int64
	a, _ := w.aggregator(func(c *aggregate.AggregatorConfig) {
		c.Failed = func(op string, err error) { failed.Add(1) }
	})
	w.signIn("192.0.2.1", 0, 60)
	w.until("trying", func() bool { return failed.Load() > 0 })
	if s := a.Stats(); s.Realms["default"].Events != 0 {
		t.Errorf("%+v", s)
	}
	f.how.Store(0)
	w.until("k", func() bool { return w.k("192.0.2.1/32") == 2 })
}

// TestASuccessorRemembersWhoWasSeen: what a Detection remembers beside its state is
// in the store when its reader ends, and the next one's; a part that cannot be read is
// said to be one.
func TestASuccessorRemembersWhoWasSeen(t *testing.T) {
	stores(t, func(t *testing.T, st learned) {
		w := newWorld(t, st)
		var current atomic.Pointer[aggregate.Detection]
		var seed atomic.Uint64
		var failed atomic.Int64
		change := func(c *aggregate.AggregatorConfig) {
			c.Watch = func(realm string, state []byte) aggregate.Watch {
				d, _ := aggregate.NewDetection(aggregate.DetectionConfig{Realm: realm, Seed: seed.Add(1)}, state)
				current.Store(d)
				return d
			}
			c.Failed = func(string, error) { failed.Add(1) }
		}
		w.signIn("192.0.2.1", 0, 50)
		a, stop := w.aggregator(change)
		w.read(a, 50)
		stop()
		last := current.Load()
		for i := range last.Parts() {
			b, err := st.Get(t.Context(), keys.Learned("default", fmt.Sprint("seen", i)))
			if err != nil || !bytes.Equal(b, last.Part(i)) {
				t.Fatalf("part %d: %d bytes are stored, %d are remembered: %v", i, len(b), len(last.Part(i)), err)
			}
		}
		before := last
		w.signIn("192.0.2.1", 50, 51)
		_, stop = w.aggregator(change)
		w.until("the successor", func() bool { return current.Load() != before })
		stop()
		last = current.Load()
		if !bytes.Equal(last.Part(0), before.Part(0)) || failed.Load() > 0 {
			t.Errorf("the successor remembers other networks; %d failures", failed.Load())
		}
		if err := st.Put(t.Context(), keys.Learned("default", "seen0"), []byte("nonsense"), keys.Day); err != nil {
			t.Fatal(err)
		}
		w.signIn("192.0.2.1", 51, 52)
		_, stop = w.aggregator(change)
		w.until("a failure", func() bool { return failed.Load() > 0 })
		stop()
		last = current.Load()
		if b, _ := st.Get(t.Context(), keys.Learned("default", "seen0")); !bytes.Equal(b, last.Part(0)) {
			t.Error("what cannot be read is not written anew")
		}
	})
}

// TestAControlIsSetOnceByWhoeverHasReadFurther.
func TestAControlIsSetOnceByWhoeverHasReadFurther(t *testing.T) {
	stores(t, func(t *testing.T, st learned) {
		w := newWorld(t, st)
		w.clock.Store(detect.BinStart(w.clock.Load()))
		act := func(p keys.Posture) func(*detect.Bin) aggregate.Act {
			return func(b *detect.Bin) aggregate.Act {
				end := b.Start + detect.Width
				return aggregate.Act{Control: &keys.Control{Epoch: end, Posture: p, Until: end + 15*60*keys.Second},
					Findings: [][]byte{fmt.Append(nil, "finding ", (b.Start-w.clock.Load())/keys.Second)}}
			}
		}
		state := func() keys.State {
			b, err := st.Get(t.Context(), keys.NewSpace("default", 1).State())
			if err != nil {
				t.Fatal(err)
			}
			return keys.DecodeState(b)
		}
		start := w.clock.Load()
		for range 10 {
			w.signIn("192.0.2.1", 0, 1)
			w.later(10 * time.Second)
		}
		x := &watch{act: act(keys.High)}
		a, stop := w.aggregator(watching(x))
		last := start + 80*keys.Second // the end of the last bin that is complete
		w.until("the posture", func() bool { return state().Epoch == last })
		if s := state(); s.Posture != keys.High || s.Until != last+900*keys.Second {
			t.Errorf("%+v", s)
		}
		stop()

		// One that reads it all again comes to another conclusion, and is behind.
		old := &watch{act: act(keys.Normal)}
		b, stop := w.aggregator(func(c *aggregate.AggregatorConfig) { watching(old)(c); c.Group = "another" })
		w.until("being told", func() bool { return b.Stats().Realms["default"].Stale > 0 })
		if s := state(); s.Posture != keys.High || s.Epoch != last {
			t.Errorf("it was set back: %+v", s)
		}
		// Until it has read further.
		w.signIn("192.0.2.1", 0, 1)
		w.until("the posture", func() bool { return state().Posture == keys.Normal && state().Epoch == last+10*keys.Second })
		stop()

		n := 0
		ctx, enough := context.WithCancel(t.Context())
		_ = w.bus.Consume(ctx, aggregate.TopicFindings, "test", func(int) aggregate.Handler {
			return handlerFunc(func(m aggregate.Message) error {
				if !bytes.HasPrefix(m.Value, []byte("finding ")) || m.Key != "default" {
					t.Errorf("%s: %s", m.Key, m.Value)
				}
				if n++; n == 7+8 {
					enough()
				}
				return nil
			})
		})
		if s := a.Stats().Realms["default"]; s.Stale != 0 {
			t.Errorf("the first was told that it is behind: %+v", s)
		}
	})
}

// rival has another write a part, with nothing in it, just before each first time
// that one is written.
type rival struct {
	learned
	mu    sync.Mutex
	first map[string]bool
}

func (r *rival) Swap(ctx context.Context, key string, was, value []byte, ttl int64) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasPrefix(key, keys.Learned("default", "k")) && !r.first[key] {
		r.first[key] = true
		if err := r.Put(ctx, key, []byte{1, 0}, keys.Day); err != nil {
			return false, err
		}
	}
	return r.learned.Swap(ctx, key, was, value, ttl)
}

// TestWhatIsLearnedIsWrittenThoughAnotherWasFaster: what the other wrote is no news,
// and this one's own is still to be written.
func TestWhatIsLearnedIsWrittenThoughAnotherWasFaster(t *testing.T) {
	memory := keys.NewMemory(keys.MemoryConfig{})
	w := newWorld(t, &rival{learned: memory, first: map[string]bool{}})
	w.signIn("192.0.2.1", 0, 60)
	w.aggregator(nil)
	w.until("all parts", func() bool {
		n := 0
		for part := range 32 {
			doc, err := memory.Get(t.Context(), keys.Learned("default", fmt.Sprint("k", part)))
			if err != nil {
				t.Fatal(err)
			}
			n += max(len(doc)-2, 0) / (8 + 1 + 8 + 4) // account, how many places, place, hour
		}
		return n == 60
	})
}
