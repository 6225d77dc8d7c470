package escalation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Kinds of Message.
const (
	MessageCode   = "code"
	MessageNotice = "notice"
)

// Message is one thing to tell an account's owner.
type Message struct {
	ID   string // the same on every repetition
	Kind string // MessageCode or MessageNotice
	// Account is the name, normalised. It goes to the owner and nowhere else:
	// logs take AccountHash.
	Account, AccountHash string
	Realm, Flow          string
	Code                 string    // for MessageCode
	ExpiresAt            time.Time // of the code
	// Only: no other code is sent until ExpiresAt, so this mail is to be kept.
	Only bool
	// Hint is the first 16 characters of the challenge's token, by which a
	// developer tells codes apart.
	Hint string
	// Notice is what happened, for MessageNotice, and Suppressed how many
	// more notices the account had since the last that was sent.
	Notice     string
	Suppressed int64
	At         time.Time // when it happened
}

// Deliverer delivers one message. It is called off the request's path, by a
// few goroutines at a time, and repeats by itself what may succeed later. An
// error that wraps ErrUndeliverable means that it failed for good.
// Any other error, too, means that it was not delivered: nobody repeats it.
// Between repetitions it sleeps by Pause, so that it holds nobody up.
type Deliverer interface {
	Deliver(ctx context.Context, m *Message) error
}

// Bounds of what waits to be delivered, for each realm, so that one whose mail
// server hangs does not stop the others'.
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

// realmQueue is what waits to be delivered for one realm. Each job at work has
// one of its seats, and one that sleeps has none.
type realmQueue struct {
	jobs          chan func(context.Context)
	seats, paused chan struct{}
}

// put reports whether there was room.
func (q *queue) put(realm string, job func(context.Context)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	r := q.realms[realm]
	if r == nil {
		if q.realms == nil {
			q.realms = map[string]*realmQueue{}
			q.ctx, q.cancel = context.WithCancel(context.Background())
		}
		r = &realmQueue{make(chan func(context.Context), queueLen), make(chan struct{}, queueWorkers), make(chan struct{}, queuePaused)}
		q.realms[realm] = r
		q.workers.Go(func() { q.work(r) })
	}
	select {
	case r.jobs <- job:
		return true
	default:
		return false
	}
}

// work does jobs. Those left when the time is over are done in a context that
// has ended: each takes back what it cannot deliver.
func (q *queue) work(r *realmQueue) {
	for {
		r.seats <- struct{}{}
		job, ok := <-r.jobs
		if !ok {
			return
		}
		q.workers.Go(func() {
			defer func() { <-r.seats }()
			ctx, cancel := context.WithTimeout(context.WithValue(q.ctx, queueKey{}, r), patience)
			defer cancel()
			job(ctx)
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
			close(r.jobs)
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

// deliver hands m to the realm's deliverer as it is now.
func (g *Guard) deliver(ctx context.Context, m *Message) error {
	d, err := g.live.Load().deliver[m.Realm], error(nil)
	if d == nil {
		err = fmt.Errorf("%w: realm %q has no delivery", ErrUndeliverable, m.Realm)
	} else {
		err = d.Deliver(ctx, m)
	}
	if g.c.Delivered != nil {
		g.c.Delivered(m, err)
	}
	return err
}

// Close takes no more messages and waits until those on their way are
// delivered. When ctx ends before, it stops them, has their codes count as not
// sent, and returns ctx's error.
func (g *Guard) Close(ctx context.Context) error { return g.queue.close(ctx) }
