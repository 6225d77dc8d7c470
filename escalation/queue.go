package escalation

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of what waits to be delivered, for each realm, so that one whose mail
// server hangs does not stop the others'. Where queueLen wait and no place has
// more of them than one, whoever asks for a code reads a picture first; the
// letters of those are as many again, and go before the others.
const (
	queueLen     = 1024
	queueWorkers = 8
	// queuePaused is how many deliveries may sleep until their next try. Where
	// there are more, one that fails is given up.
	queuePaused = 1024
	// patience is how long one delivery may take, its repetitions included.
	patience = 10 * time.Minute
)

// queue delivers off the requests' path. Its zero value is ready; goroutines
// begin with a realm's first job.
type queue struct {
	mu      sync.Mutex
	closed  bool
	realms  map[string]*realmQueue
	workers sync.WaitGroup
	ctx     context.Context // ends when the time for close is over
	cancel  context.CancelFunc
}

// job delivers one letter.
type job func(context.Context)

// realmQueue is what waits to be delivered for one realm. Each job at work has
// one of its seats, and one that sleeps has none.
type realmQueue struct {
	mu            sync.Mutex
	free, paid    fair
	waiting       chan struct{} // at least one for each letter
	seats, paused chan struct{}
}

func newRealmQueue() *realmQueue {
	return &realmQueue{
		free: fair{max: queueLen}, paid: fair{max: queueLen}, waiting: make(chan struct{}, 2*queueLen),
		seats: make(chan struct{}, queueWorkers), paused: make(chan struct{}, queuePaused),
	}
}

// put returns the letters that l stands for now, or whose room it took.
func (r *realmQueue) put(l *letter) (gone []*letter, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lane, other := &r.free, &r.paid
	if l.paid {
		lane, other = other, lane
	}
	first, ok := lane.put(l)
	if !ok {
		return nil, false
	}
	for _, l := range []*letter{first, other.take(l.account)} {
		if l != nil {
			gone = append(gone, l)
		}
	}
	select {
	case r.waiting <- struct{}{}:
	default: // there is one for all that there is room for
	}
	return gone, true
}

func (r *realmQueue) next() *letter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.paid.next(); l != nil {
		return l
	}
	return r.free.next()
}

// put reports whether there was room. What had to make some is dropped.
func (q *queue) put(realm string, l *letter) bool {
	gone, ok := q.add(realm, l)
	for _, l := range gone {
		if l.drop != nil {
			l.drop()
		}
	}
	return ok
}

func (q *queue) add(realm string, l *letter) (gone []*letter, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	r := q.realms[realm]
	if r == nil {
		if q.realms == nil {
			q.realms = map[string]*realmQueue{}
			q.ctx, q.cancel = context.WithCancel(context.Background())
		}
		r = newRealmQueue()
		q.realms[realm] = r
		q.workers.Go(func() { q.work(r) })
	}
	return r.put(l)
}

// isClosed reports whether no more letters are taken.
func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// work does jobs. Those left when the time is over are done in a context that
// has ended: each takes back what it cannot deliver.
func (q *queue) work(r *realmQueue) {
	for {
		r.seats <- struct{}{}
		if _, ok := <-r.waiting; !ok {
			return
		}
		l := r.next()
		if l == nil {
			<-r.seats
			continue
		}
		q.workers.Go(func() {
			defer func() { <-r.seats }()
			ctx, cancel := context.WithTimeout(context.WithValue(q.ctx, queueKey{}, r), patience)
			defer cancel()
			l.deliver(ctx)
		})
	}
}

// queueKey is by which a delivery's context holds its realmQueue.
type queueKey struct{}

// Pause sleeps for d in the middle of a delivery, of which ctx is the context,
// and lets others be delivered meanwhile: strangers could name accounts whose
// mail is put off again and again, and an owner's code would wait behind
// theirs. The error is that of ctx, or says that too many sleep already.
func Pause(ctx context.Context, d time.Duration) error {
	if r, _ := ctx.Value(queueKey{}).(*realmQueue); r != nil {
		select {
		case r.paused <- struct{}{}:
		default:
			return errors.New("too many deliveries wait for their next try")
		}
		<-r.seats
		defer func() {
			<-r.paused
			r.seats <- struct{}{}
		}()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close takes no more jobs, and waits for those there are until ctx ends.
func (q *queue) close(ctx context.Context) error {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	for _, r := range q.realms {
		if first {
			close(r.waiting)
		}
	}
	cancel := q.cancel
	q.mu.Unlock()
	if cancel == nil {
		return nil // there never was a job
	}
	defer cancel()
	done := make(chan struct{})
	go func() { q.workers.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	cancel()
	<-done
	return ctx.Err()
}
