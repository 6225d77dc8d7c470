package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// flights is how many round trips to one Redis (each node of a Cluster) are under
// way at once before calls are sent together: one that is stuck on its connection
// must not hold up the rest, and Redis runs one script at a time whatever their
// number. Two or one made HTTP over Redis no cheaper.
const flights = 4

// maxBatch is the most calls of one round trip: Redis answers the first of them
// when it has run, but nobody else's call meanwhile.
const maxBatch = 64

// batcher sends calls together that come while others are under way. Nobody
// waits for company: a call that finds a flight free goes at once, by itself;
// the others go when one lands, all that are there. Unpipelined, a call costs
// Redis and this process more in system calls than in everything else.
//
// go-redis's AutoPipeline does the same, but keeps callers whose context has
// ended waiting. Here each returns at its own deadline; what has not been sent
// by then never is.
type batcher struct {
	client atomic.Pointer[redis.Client]

	mu     sync.Mutex
	flying int
	queue  []*passenger
}

type passenger struct {
	ctx  context.Context
	cmd  redis.Cmder
	done chan struct{} // closed when cmd has its answer
}

// process runs cmd and returns its error. After an error that is ctx's own, cmd
// may still be under way: it must not be looked at again.
func (b *batcher) process(ctx context.Context, cmd redis.Cmder) error {
	b.mu.Lock()
	if b.flying < flights {
		b.flying++
		b.mu.Unlock()
		defer b.land()
		return b.client.Load().Process(ctx, cmd)
	}
	p := &passenger{ctx, cmd, make(chan struct{})}
	b.queue = append(b.queue, p)
	b.mu.Unlock()
	select {
	case <-p.done:
		return cmd.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// land ends a flight, or has it go on with who waits.
func (b *batcher) land() {
	b.mu.Lock()
	n := min(len(b.queue), maxBatch)
	if n == 0 {
		b.flying--
		b.mu.Unlock()
		return
	}
	group := b.queue[:n:n]
	b.queue = b.queue[n:]
	if len(b.queue) == 0 {
		b.queue = nil
	}
	b.mu.Unlock()
	go b.fly(group)
}

// fly sends a group, without those who have given up, and lands.
func (b *batcher) fly(group []*passenger) {
	defer b.land()
	var until time.Time
	aboard := group[:0]
	pipe := b.client.Load().Pipeline()
	for _, p := range group {
		if p.ctx.Err() != nil {
			continue
		}
		if end, ok := p.ctx.Deadline(); ok && end.After(until) {
			until = end
		}
		aboard = append(aboard, p)
		_ = pipe.Process(p.ctx, p.cmd) // only queues it
	}
	if len(aboard) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), until) // every call of the Store has one
	defer cancel()
	_, _ = pipe.Exec(ctx) // each command bears its own error
	for _, p := range aboard {
		close(p.done)
	}
}
