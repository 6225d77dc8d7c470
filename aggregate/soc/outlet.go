package soc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// OutletConfig makes an Outlet. Sink is needed.
type OutletConfig struct {
	Sink   Sink
	Filter Filter
	// PerMinute is how many findings are told in a minute; 0: all. Queue is how many
	// records wait at most; 0: 4,096.
	PerMinute, Queue int
	// Durable: the bus keeps what was not handled yet, so that a full queue has
	// reading wait. Without it what has no room is a dead letter: whoever publishes
	// must not wait for a sink.
	Durable bool
	// Name opens the sealed name of an account, "" where the realm does not want it
	// told; nil: none does.
	Name func(realm, hash, sealed string) string
	// Failed is told of each failure of the sink, and Dead of each record that is
	// given up, with one of Deaths; from goroutines of the outlet's and the bus'. They
	// may be nil.
	Failed func(err error)
	Dead   func(r *Record, why string)
}

// The deaths of a record, for metrics.
const (
	deadRefused = "refused" // by the sink, for good
	deadFull    = "full"    // no room in the queue, and nobody keeps it
	deadStopped = "stopped" // the process ended first, and nobody keeps it
)

// Deaths are what Dead is told.
var Deaths = []string{deadRefused, deadFull, deadStopped}

const (
	defaultQueue = 4096
	// batchMost is how many records a sink is given at once.
	batchMost = 256
	// firstPause doubles up to longestPause while a sink fails; each is drawn from
	// its upper half, so that the outlets of a fleet do not return together.
	firstPause, longestPause = time.Second, time.Minute
	// fullWait is how long reading waits for room before it gives the partition back,
	// to begin again at what was not handled: shorter than members of a group may take
	// to join again, so that a sink that is down does not hold up others.
	fullWait = 4 * time.Second
	// lookEvery is how often what is due by the clock is looked after.
	lookEvery = 5 * time.Second
	// stopWait is how long a sink has to take what waits when the process ends.
	stopWait = 4 * time.Second
	// idsKept are the ids of the last events, to drop repeats.
	idsKept = 1 << 16
)

// errFull has the partition read again from what was not handled.
var errFull = errors.New("the queue is full: the sink does not take what waits")

// Outlet reads findings and events, and brings what its filter lets through to its
// sink: each at least once, because a partition's position stays behind what was not
// taken yet. Findings and Events make the handlers, Run delivers. Safe for concurrent
// use.
type Outlet struct {
	c OutletConfig

	mu      sync.Mutex
	tracker *Tracker
	ids     ids
	queue   []*item
	pending map[string]*item // what waits, by its campaign or its id
	change  chan struct{}    // closed and made anew when the queue has
	stopped bool

	delivered, failures uint64
	dead                map[string]uint64
}

// item is one record that waits.
type item struct {
	r    *Record
	key  string
	at   time.Time // since when it waits
	done bool
}

// NewOutlet returns an outlet; Run has it deliver.
func NewOutlet(c OutletConfig) *Outlet {
	if c.Queue <= 0 {
		c.Queue = defaultQueue
	}
	o := &Outlet{c: c, tracker: NewTracker(c.Filter, c.PerMinute), pending: map[string]*item{}, change: make(chan struct{}), dead: map[string]uint64{}}
	o.ids.at = map[string]struct{}{}
	return o
}

// Findings makes a handler of the topic of findings.
func (o *Outlet) Findings(int) aggregate.Handler { return &handler{o: o, open: map[string]int64{}} }

// Events makes a handler of the topic of events. Where Filter.Decisions is none, there
// is nothing to read.
func (o *Outlet) Events(int) aggregate.Handler { return &handler{o: o, events: true} }

// tell wakes whoever waits. The lock is held.
func (o *Outlet) tell() {
	close(o.change)
	o.change = make(chan struct{})
}

// roomy waits until there is room, for a while. Only with a bus that keeps what it is
// given.
func (o *Outlet) roomy() error {
	if !o.c.Durable {
		return nil
	}
	late := time.NewTimer(fullWait)
	defer late.Stop()
	for {
		o.mu.Lock()
		full, change, stopped := len(o.queue) >= o.c.Queue, o.change, o.stopped
		o.mu.Unlock()
		switch {
		case stopped:
			return errFull
		case !full:
			return nil
		}
		select {
		case <-change:
		case <-late.C:
			return errFull
		}
	}
}

// put has r wait, and returns its item; nil where there is no room for it.
func (o *Outlet) put(r *Record, key string) *item {
	if o.stopped || !o.c.Durable && len(o.queue) >= o.c.Queue {
		o.bury(r, deadFull)
		return nil
	}
	i := &item{r: r, key: key, at: time.Now()}
	o.queue = append(o.queue, i)
	o.pending[key] = i
	o.tell()
	return i
}

func (o *Outlet) bury(r *Record, why string) {
	o.dead[why]++
	if o.c.Dead != nil {
		o.c.Dead(r, why)
	}
}

// Run delivers until ctx ends, and then for some seconds more. What is left then is
// read again by the next process, where the bus keeps it. It closes the sink.
func (o *Outlet) Run(ctx context.Context) error {
	// What is under way when ctx ends may end, but not for ever.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, cancel) })()
	keeper, _ := o.c.Sink.(Keeper)
	again := time.Now()
	for pause := firstPause; ; {
		batch := o.next(ctx)
		if keeper != nil && time.Since(again) >= keeper.Every() && ctx.Err() == nil {
			again = time.Now()
			if err := keeper.Again(work); err != nil {
				o.fail(err)
			}
		}
		if len(batch) == 0 {
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if err := o.deliver(work, batch); err == nil {
			pause = firstPause
			continue
		} else if ctx.Err() != nil { // it was tried once more
			break
		} else {
			sleep(ctx, max(waitOf(err), pause/2+rand.N(pause/2)))
		}
		pause = min(2*pause, longestPause)
	}
	o.stop()
	return o.c.Sink.Close()
}

// next waits for what there is to deliver, or for the time to look after the clock.
func (o *Outlet) next(ctx context.Context) []*item {
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for {
		o.mu.Lock()
		if r := o.tracker.Due(time.Now()); r != nil {
			o.put(r, r.ID)
		}
		batch, change := o.queue[:min(len(o.queue), batchMost)], o.change
		o.mu.Unlock()
		if len(batch) > 0 || ctx.Err() != nil {
			return batch
		}
		select {
		case <-change:
		case <-ctx.Done():
		case <-look.C:
			return nil
		}
	}
}

// deliver gives a batch to the sink, less by less. The error is that of what is tried
// again.
func (o *Outlet) deliver(ctx context.Context, batch []*item) error {
	for len(batch) > 0 {
		records := make([]*Record, len(batch))
		for i := range batch {
			records[i] = batch[i].r
		}
		n, err := o.c.Sink.Deliver(ctx, records)
		n = min(n, len(batch))
		o.mu.Lock()
		o.delivered += uint64(n)
		o.drop(n)
		batch = batch[n:]
		if errors.Is(err, ErrRefused) && len(batch) > 0 {
			o.bury(batch[0].r, deadRefused)
			o.drop(1)
			batch = batch[1:]
		} else if err == nil && len(batch) > 0 {
			err = fmt.Errorf("%d records were not taken", len(batch)) // a fault of the sink's
		}
		o.mu.Unlock()
		if err != nil {
			o.fail(err)
			if !errors.Is(err, ErrRefused) {
				return err
			}
		}
	}
	return nil
}

// drop takes away the first n that wait.
func (o *Outlet) drop(n int) {
	for _, i := range o.queue[:n] {
		i.done = true
		if o.pending[i.key] == i {
			delete(o.pending, i.key)
		}
	}
	clear(o.queue[:n])
	o.queue = o.queue[n:]
	o.tell()
}

func (o *Outlet) fail(err error) {
	o.mu.Lock()
	o.failures++
	o.mu.Unlock()
	if o.c.Failed != nil {
		o.c.Failed(err)
	}
}

// stop takes no more. What waits is lost where nobody keeps it.
func (o *Outlet) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	if !o.c.Durable {
		for _, i := range o.queue {
			o.bury(i.r, deadStopped)
		}
		o.drop(len(o.queue))
	}
	o.tell()
}

func waitOf(err error) time.Duration {
	if a, ok := errors.AsType[*After](err); ok {
		return min(a.Wait, longestPause)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// OutletStats are an Outlet's counts since it was made.
type OutletStats struct {
	Delivered uint64            // records that the sink took
	Failures  uint64            // times that it did not
	Dead      map[string]uint64 // records given up, by one of Deaths
	HeldBack  uint64            // findings beyond the cap
	Waiting   int
	Oldest    time.Time // since when the oldest waits; zero for none
}

// Stats returns the counts.
func (o *Outlet) Stats() OutletStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := OutletStats{Delivered: o.delivered, Failures: o.failures, Dead: map[string]uint64{}, HeldBack: o.tracker.HeldBack(), Waiting: len(o.queue)}
	for _, why := range Deaths {
		s.Dead[why] = o.dead[why]
	}
	if len(o.queue) > 0 {
		s.Oldest = o.queue[0].at
	}
	return s
}

// ids remembers the last ones.
type ids struct {
	at   map[string]struct{}
	ring []string
	next int
}

// fresh tells whether id is new, and remembers it.
func (s *ids) fresh(id string) bool {
	if _, ok := s.at[id]; ok {
		return false
	}
	if len(s.ring) < idsKept {
		s.ring = append(s.ring, id)
	} else {
		delete(s.at, s.ring[s.next])
		s.ring[s.next] = id
		s.next = (s.next + 1) % idsKept
	}
	s.at[id] = struct{}{}
	return true
}
