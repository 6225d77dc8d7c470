package aggregate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// queue holds encoded messages from when they were emitted until they are
// published, in order: in memory while the bus takes them, on disk (if there is
// a spool) from when it fails or falls behind until all that is there has been
// published.
type queue struct {
	mu      sync.Mutex
	c       queueConfig
	spool   *spool // nil: memory only
	memory  []queued
	bytes   int64    // of memory
	flight  []queued // given to the publisher, in memory only
	failing bool
	changed chan struct{} // holds one after every put
	lost    map[string]uint64
}

type queueConfig struct {
	memory int64 // bytes kept in memory
	failed func(error)
}

func newQueue(c queueConfig, s *spool) *queue {
	return &queue{c: c, spool: s, changed: make(chan struct{}, 1), lost: map[string]uint64{}}
}

// Reasons why events are lost before they were published.
const (
	lostRing   = "ring"   // nobody came to take them, the newest was dropped
	lostMemory = "memory" // the bus does not take them, and there is no spool
	lostSpool  = "spool"  // the spool is full, and so is what is kept in memory then
	lostDisk   = "disk"   // the spool cannot be written, and memory is full; or not be read again
	lostClosed = "closed" // the process ended first, and there is no spool
)

// Losses lists the reasons in Stats.Lost.
var Losses = []string{lostRing, lostMemory, lostSpool, lostDisk, lostClosed}

// put adds messages. It never waits for the bus.
func (q *queue) put(msgs []queued) {
	if len(msgs) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range msgs {
		q.bytes += msgs[i].size()
	}
	q.memory = append(q.memory, msgs...)
	reason := lostMemory
	if q.spool != nil && (q.failing || !q.spool.empty() || q.bytes > q.c.memory) {
		reason = q.spill()
	}
	q.trim(reason)
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// trim drops the newest of what there is no room for in memory.
func (q *queue) trim(reason string) {
	n := len(q.memory)
	for ; n > 0 && q.bytes > q.c.memory; n-- {
		q.bytes -= q.memory[n-1].size()
	}
	q.drop(n, reason)
}

// drop counts what is in memory from n on as lost.
func (q *queue) drop(n int, reason string) {
	q.lost[reason] += uint64(len(q.memory) - n)
	clear(q.memory[n:])
	q.memory = q.memory[:n]
}

// spill moves what is in memory to the spool. What the disk does not take stays,
// and the reason says why.
func (q *queue) spill() (reason string) {
	if len(q.memory) == 0 {
		return lostSpool
	}
	n, err := q.spool.append(q.memory)
	for i := range q.memory[:n] {
		q.bytes -= q.memory[i].size()
	}
	q.memory = slices.Delete(q.memory, 0, n)
	q.c.report(err)
	if errors.Is(err, errSpoolFull) {
		return lostSpool
	}
	return lostDisk
}

func (c *queueConfig) report(err error) {
	if err != nil && c.failed != nil {
		c.failed(err)
	}
}

// next waits for messages and returns the oldest, at most n; none when ctx has
// ended. They stay the queue's: done or failed must follow. On an error the spool
// cannot be read now, and nothing may overtake what is in it.
func (q *queue) next(ctx context.Context, n int) ([]queued, error) {
	for {
		ended := ctx.Err() != nil
		if batch, err := q.oldest(n); len(batch) > 0 || err != nil || ended {
			return batch, err
		}
		select {
		case <-q.changed:
		case <-ctx.Done():
		}
	}
}

func (q *queue) oldest(n int) ([]queued, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flight = nil
	if q.spool != nil && !q.spool.empty() {
		if batch, err := q.spool.peek(n); len(batch) > 0 || err != nil {
			return batch, err
		}
	}
	n = min(n, len(q.memory))
	q.flight = slices.Clone(q.memory[:n])
	for i := range q.flight {
		q.bytes -= q.flight[i].size()
	}
	q.memory = slices.Delete(q.memory, 0, n)
	return q.flight, nil
}

// done: the messages of the last next have been published.
func (q *queue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flight == nil {
		q.c.report(q.spool.advance(n))
	}
	q.flight = nil
	q.failing = false
}

// failed: they have not, as far as anybody knows. They are the oldest again.
func (q *queue) failed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failing = true
	if q.flight != nil {
		if !q.keepFlight() {
			q.memory = append(q.flight, q.memory...)
			for i := range q.flight {
				q.bytes += q.flight[i].size()
			}
		}
		q.flight = nil
	}
	if q.spool != nil {
		q.trim(q.spill())
	}
}

// keepFlight puts what was in flight on disk, before what may have come there in
// the meantime.
func (q *queue) keepFlight() bool {
	if q.spool == nil {
		return false
	}
	err := q.spool.prepend(q.flight)
	q.c.report(err)
	return err == nil
}

// onDisk reports whether what waits will outlive the process.
func (q *queue) onDisk() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.spool != nil && !q.spool.empty()
}

// close keeps what waits for the next process, or counts it as lost.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	reason := lostClosed
	if q.spool != nil {
		reason = q.spill()
	}
	q.drop(0, reason)
	q.bytes = 0
	if q.spool == nil {
		return nil
	}
	return q.spool.close()
}

// waiting describes the queue.
func (q *queue) waiting() (s Waiting, lost map[string]uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Memory = int64(len(q.memory) + len(q.flight))
	oldest := int64(0)
	switch {
	case len(q.flight) > 0:
		oldest = q.flight[0].at
	case len(q.memory) > 0:
		oldest = q.memory[0].at
	}
	if q.spool != nil {
		s.Spooled, s.SpooledBytes, s.Torn = q.spool.events, q.spool.bytes, q.spool.torn
		if at := q.spool.oldest(); at > 0 {
			oldest = at
		}
	}
	if oldest > 0 {
		s.Oldest = time.UnixMicro(oldest)
	}
	lost = map[string]uint64{}
	for reason, n := range q.lost {
		lost[reason] = n
	}
	if q.spool != nil {
		lost[lostDisk] += q.spool.gone
	}
	return s, lost
}

// Waiting is what has not been published yet.
type Waiting struct {
	Memory       int64 // events
	Spooled      int64 // events on disk
	SpooledBytes int64
	Torn         uint64    // files of the spool whose end was torn when it was opened
	Oldest       time.Time // when the oldest was emitted; zero when nothing waits
}
