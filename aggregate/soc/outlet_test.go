package soc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// book is a sink that keeps what it is given, and fails as the test says. Time in
// these tests is synctest's: what takes minutes there takes none.
type book struct {
	mu     sync.Mutex
	got    []*Record
	calls  []time.Time
	fail   func(call int, records []*Record) (int, error) // of what is taken before the failure; nil: never
	closed bool
}

func (b *book) Deliver(_ context.Context, records []*Record) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, time.Now())
	n, err := len(records), error(nil)
	if b.fail != nil {
		n, err = b.fail(len(b.calls), records)
	}
	b.got = append(b.got, records[:n]...)
	return n, err
}

func (b *book) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

func (b *book) ids() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.got {
		all = append(all, r.ID)
	}
	return all
}

func (b *book) count() int { return len(b.ids()) }

var errDown = errors.New("down")

func down(int, []*Record) (int, error) { return 0, errDown }

// world is a bus with outlets that read it as one group.
type world struct {
	t   *testing.T
	bus *aggregate.MemoryBus
}

func newWorld(t *testing.T, partitions int) *world {
	return &world{t, aggregate.NewMemoryBus(aggregate.MemoryBusConfig{Partitions: partitions})}
}

// run starts an outlet; stop ends it and waits for it.
func (w *world) run(c OutletConfig) (o *Outlet, stop func()) {
	o = NewOutlet(c)
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for topic, open := range map[aggregate.Topic]func(int) aggregate.Handler{aggregate.TopicFindings: o.Findings, aggregate.TopicEvents: o.Events} {
		all.Go(func() {
			if err := w.bus.Consume(ctx, topic, "g", open); err != nil {
				w.t.Error(err)
			}
		})
	}
	all.Go(func() {
		if err := o.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	return o, func() { cancel(); all.Wait() }
}

func (w *world) publish(all ...*aggregate.Finding) {
	w.t.Helper()
	for _, f := range all {
		b, err := f.AppendTo(nil)
		if err == nil {
			err = w.bus.Publish(w.t.Context(), aggregate.TopicFindings, []aggregate.Message{{Key: f.Realm, Value: b}})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) publishEvents(all ...*aggregate.Event) {
	w.t.Helper()
	for _, e := range all {
		b, err := e.AppendTo(nil)
		if err == nil {
			err = w.bus.Publish(w.t.Context(), aggregate.TopicEvents, []aggregate.Message{{Key: e.Realm, Value: b}})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// campaigns are n openings.
func campaigns(n int) (all []*aggregate.Finding) {
	for i := range n {
		f := finding("spray", "open")
		f.ID, f.Realm = fmt.Sprint("spray-", i), fmt.Sprint("realm", i%5)
		all = append(all, f)
	}
	return all
}

func idsOf(all []*aggregate.Finding) (ids []string) {
	for _, f := range all {
		ids = append(ids, OfFinding(f, Opened).ID)
	}
	return ids
}

func TestASinkThatFailsIsTriedAgainUntilItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := newWorld(t, 1), campaigns(300)
		sink := &book{fail: func(call int, rs []*Record) (int, error) {
			switch {
			case call <= 8:
				return 0, errDown
			case call%2 == 1:
				return min(2, len(rs)), errDown // and some of them have arrived
			}
			return len(rs), nil
		}}
		o, stop := w.run(OutletConfig{Sink: sink})
		w.publish(all...)
		time.Sleep(10 * time.Minute)
		if got := sink.ids(); !slices.Equal(got, idsOf(all)) {
			t.Errorf("%d records, in another order or not all of 300", len(got))
		}
		if s := o.Stats(); s.Delivered != 300 || s.Failures < 8 || s.Waiting != 0 || !s.Oldest.IsZero() {
			t.Errorf("%+v", s)
		}
		for i, at := range sink.calls[1:8] { // 1 s doubles up to a minute, less up to a half
			pause, most := at.Sub(sink.calls[i]), min(firstPause<<i, longestPause)
			if pause < most/2 || pause > most {
				t.Errorf("pause %d is %v, not from %v to %v", i, pause, most/2, most)
			}
		}
		stop()
		if !sink.closed {
			t.Error("the sink is not closed")
		}
	})
}

func TestASinkSaysWhenToTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		sink := &book{fail: func(call int, rs []*Record) (int, error) {
			if call == 1 {
				return 0, &After{errDown, 30 * time.Second}
			}
			return len(rs), nil
		}}
		_, stop := w.run(OutletConfig{Sink: sink})
		w.publish(campaigns(1)...)
		time.Sleep(time.Minute)
		stop()
		if len(sink.calls) != 2 || sink.calls[1].Sub(sink.calls[0]) != 30*time.Second {
			t.Errorf("called at %v", sink.calls)
		}
	})
}

func TestWhatASinkRefusesIsADeadLetterAndTheRestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := newWorld(t, 1), campaigns(20)
		sink := &book{fail: func(_ int, rs []*Record) (int, error) {
			for i, r := range rs {
				if r.Finding.ID == "spray-3" || r.Finding.ID == "spray-19" {
					return i, fmt.Errorf("too ugly: %w", ErrRefused)
				}
			}
			return len(rs), nil
		}}
		var dead []string
		o, stop := w.run(OutletConfig{Sink: sink, Dead: func(r *Record, why string) { dead = append(dead, r.Finding.ID+" "+why) }})
		w.publish(all...)
		synctest.Wait()
		stop()
		if s := o.Stats(); s.Delivered != 18 || s.Dead[deadRefused] != 2 || !slices.Equal(dead, []string{"spray-3 refused", "spray-19 refused"}) {
			t.Errorf("%+v, %v", s, dead)
		}
	})
}

// The next process finds what this one had not delivered, and what this one had
// delivered does not come again.
func TestWhatWasNotDeliveredIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := newWorld(t, 4), campaigns(50)
		taken := 0
		first := &book{fail: func(_ int, rs []*Record) (int, error) {
			n := min(len(rs), 20-taken)
			taken += n
			if n < len(rs) {
				return n, errDown
			}
			return n, nil
		}}
		_, stop := w.run(OutletConfig{Sink: first, Durable: true})
		w.publish(all...)
		time.Sleep(time.Minute)
		stop()
		second := &book{}
		_, stop = w.run(OutletConfig{Sink: second, Durable: true})
		time.Sleep(time.Minute)
		stop()
		got := slices.Sorted(slices.Values(append(first.ids(), second.ids()...)))
		if all := slices.Sorted(slices.Values(idsOf(all))); !slices.Equal(slices.Compact(slices.Clone(got)), all) {
			t.Errorf("%d different records of 50", len(slices.Compact(got)))
		}
		if first.count() != 20 || second.count() < 30 || second.count() == 50 {
			t.Errorf("%d, then %d: the second reads what the first had not delivered, and not everything", first.count(), second.count())
		}
	})
}

func TestAFleetTellsEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := newWorld(t, 8), campaigns(200)
		one, two := &book{}, &book{}
		_, stop1 := w.run(OutletConfig{Sink: one, Durable: true})
		_, stop2 := w.run(OutletConfig{Sink: two, Durable: true})
		w.publish(all[:100]...)
		synctest.Wait()
		stop1() // the other takes over
		w.publish(all[100:]...)
		time.Sleep(time.Minute)
		stop2()
		got := slices.Sorted(slices.Values(append(one.ids(), two.ids()...)))
		if want := slices.Sorted(slices.Values(idsOf(all))); !slices.Equal(got, want) {
			t.Errorf("%d records and not 200, or not each once", len(got))
		}
	})
}

// A bus that keeps what was not handled has reading wait, and nothing is lost.
func TestAFullQueueHasTheBusWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := newWorld(t, 1), campaigns(500)
		sink := &book{fail: down}
		o, stop := w.run(OutletConfig{Sink: sink, Durable: true, Queue: 50})
		w.publish(all...)
		time.Sleep(10 * time.Minute) // the partition is given back again and again
		if s := o.Stats(); s.Waiting != 50 || s.Dead[deadFull] != 0 {
			t.Errorf("%+v", s)
		}
		sink.mu.Lock()
		sink.fail = nil
		sink.mu.Unlock()
		time.Sleep(10 * time.Minute)
		stop()
		if got := sink.ids(); !slices.Equal(got, idsOf(all)) {
			t.Errorf("%d records, in another order or not all of 500", len(got))
		}
	})
}

// Without such a bus whoever publishes must not wait: logins are published, too.
func TestAFullQueueDoesNotHoldUpWhoPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		o, stop := w.run(OutletConfig{Sink: &book{fail: down}, Queue: 50, Filter: Filter{Decisions: AllDecisions}})
		began := time.Now()
		for i := range 20000 { // more than the bus keeps
			e := attempt("allow")
			e.ID = fmt.Sprint("a-", i)
			w.publishEvents(e)
		}
		if time.Since(began) > 0 {
			t.Errorf("publishing has waited %v", time.Since(began))
		}
		synctest.Wait()
		stop()
		if s := o.Stats(); s.Dead[deadFull] != 19950 || s.Dead[deadStopped] != 50 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDecisionsAreToldOnceAndOnlyWhereAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for choice, want := range map[Decisions]int{NoDecisions: 0, RefusedDecisions: 1, AllDecisions: 3} {
			w, sink := newWorld(t, 1), &book{}
			_, stop := w.run(OutletConfig{Sink: sink, Filter: Filter{Decisions: choice}})
			refusedOne, end := attempt("captcha"), attempt("")
			refusedOne.ID, end.ID, end.Kind = "a-9", "a-10", aggregate.KindEnd
			for range 3 {
				w.publishEvents(attempt("allow"), outcome("failure"), refusedOne, end)
			}
			synctest.Wait()
			stop()
			if sink.count() != want {
				t.Errorf("%s: %d records, not %d", choice, sink.count(), want)
			}
		}
	})
}

func TestWhatCannotBeReadGoesToTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sink, dead := newWorld(t, 1), &book{}, make(chan string, 9)
		_, stop := w.run(OutletConfig{Sink: sink})
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		reading.Go(func() {
			_ = w.bus.Consume(ctx, aggregate.TopicDead, "t", func(int) aggregate.Handler { return &deadReader{got: dead} })
		})
		for _, text := range []string{`nothing`, `{"v":2,"id":"a","realm":"r","what":"spray","state":"open","start":"2026-11-30T04:05:06Z"}`,
			`{"v":1,"id":"a","realm":"r","what":"spray","state":"ajar","start":"2026-11-30T04:05:06Z"}`, `{"v":1,"realm":"r","what":"spray","state":"open","start":"2026-11-30T04:05:06Z"}`} {
			if err := w.bus.Publish(t.Context(), aggregate.TopicFindings, []aggregate.Message{{Key: "r", Value: []byte(text)}}); err != nil {
				t.Fatal(err)
			}
		}
		w.publish(campaigns(1)...)
		synctest.Wait()
		stop()
		cancel()
		reading.Wait()
		if len(dead) != 4 || sink.count() != 1 {
			t.Errorf("%d dead, %d told", len(dead), sink.count())
		}
	})
}

type deadReader struct {
	got  chan string
	next int64
}

func (d *deadReader) Handle(m aggregate.Message) error {
	d.got <- string(m.Value)
	d.next = m.Offset + 1
	return nil
}
func (d *deadReader) Behind() int64 { return d.next }
func (d *deadReader) Close()        {}

// keeperBook is a book that has to be told again.
type keeperBook struct {
	book
	again atomic.Int32
}

func (k *keeperBook) Again(context.Context) error { k.again.Add(1); return nil }
func (k *keeperBook) Every() time.Duration        { return time.Minute }

// What a Keeper is told of an open campaign is read again by a successor, and what
// is over is not.
func TestAKeeperIsToldAgainOfWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		stays, goes := minute(0, func(f *aggregate.Finding) { f.ID = "stays" }), minute(0, func(f *aggregate.Finding) { f.ID = "goes" })
		over := minute(5, func(f *aggregate.Finding) { f.ID, f.State, f.End = "goes", "closed", f.Last })
		first := &keeperBook{}
		_, stop := w.run(OutletConfig{Sink: first, Durable: true})
		w.publish(goes, over, stays, campaigns(1)[0])
		time.Sleep(10 * time.Minute)
		if n := first.again.Load(); n < 9 || n > 10 {
			t.Errorf("told again %d times in ten minutes", n)
		}
		stop()
		second := &keeperBook{}
		_, stop = w.run(OutletConfig{Sink: second, Durable: true})
		time.Sleep(time.Second)
		w.publish(minute(9, func(f *aggregate.Finding) { f.ID, f.State, f.End = "stays", "closed", f.Last }),
			minute(9, func(f *aggregate.Finding) { f.ID, f.Realm, f.State, f.End = "spray-0", "realm0", "closed", f.Last }))
		time.Sleep(time.Second)
		stop()
		var got []string
		for _, r := range second.got {
			got = append(got, r.Finding.ID+" "+r.Change.String())
		}
		if want := []string{"stays opened", "spray-0 opened", "stays closed", "spray-0 closed"}; !slices.Equal(got, want) {
			t.Errorf("the second is told %v, not %v", got, want)
		}
		third := &keeperBook{}
		_, stop = w.run(OutletConfig{Sink: third, Durable: true})
		time.Sleep(time.Second)
		stop()
		if third.count() != 0 {
			t.Errorf("nothing is open, and the third is told %d", third.count())
		}
	})
}

func TestWhatWasHeldBackIsToldThoughNothingElseComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sink := newWorld(t, 1), &book{}
		o, stop := w.run(OutletConfig{Sink: sink, PerMinute: 10})
		w.publish(campaigns(60)...)
		time.Sleep(2 * time.Minute)
		stop()
		if n := sink.count(); n != 11 || sink.got[10].Finding.What != HeldBack || o.Stats().HeldBack != 50 {
			t.Errorf("%d records, %+v", n, o.Stats())
		}
	})
}

// Whatever fails, and whenever processes are ended and started: every change comes to
// the sink, of the campaigns' last states the last one, and nothing that is no change.
func TestNothingIsLostWhateverFails(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			w, sink := newWorld(t, 1+r.IntN(3)), &book{}
			faults := rand.New(rand.NewPCG(seed, 10)) // the outlets'
			sink.fail = func(_ int, rs []*Record) (int, error) {
				switch faults.IntN(4) {
				case 0:
					return 0, errDown
				case 1:
					return faults.IntN(len(rs) + 1), errDown
				}
				return len(rs), nil
			}
			var stops []func()
			start := func() {
				_, stop := w.run(OutletConfig{Sink: sink, Durable: true, Queue: 1 + r.IntN(8)})
				stops = append(stops, stop)
			}
			start()
			want, closes := map[string]bool{}, map[string]bool{}
			for i := range 40 {
				f := minute(i, func(f *aggregate.Finding) {
					f.ID, f.Realm, f.Guesses = fmt.Sprint("c", r.IntN(6)), fmt.Sprint("r", r.IntN(3)), 1+i*i
					f.ID += f.Realm
				})
				if r.IntN(6) == 0 {
					f.State, f.End = "closed", f.Last
				}
				if !closes[f.ID] {
					want[OfFinding(f, Opened).ID] = true
					closes[f.ID] = f.State == "closed"
					w.publish(f)
				}
				switch r.IntN(12) {
				case 0:
					start()
				case 1:
					if len(stops) > 0 {
						stops[0]()
						stops = stops[1:]
					}
				case 2:
					time.Sleep(time.Duration(r.IntN(100)) * time.Second)
				}
			}
			start()
			time.Sleep(time.Hour)
			for _, stop := range stops {
				stop()
			}
			got := map[string]bool{}
			for _, id := range sink.ids() {
				got[id] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("seed %d: %d changes told, of %d", seed, len(got), len(want))
			}
		})
	}
}
