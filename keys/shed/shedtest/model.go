// Package shedtest is a model of what a shed.Limiter protects, in virtual time, for
// tests and examples.
package shedtest

import "container/heap"

// Backend is Workers that each do one request at a time, and a queue without end before them. It is not safe
// for concurrent use.
type Backend struct {
	Workers int
	// Slow is how many times as long as it should everything takes; 0 is 1.
	Slow float64

	busy  int
	queue []*job
	done  jobs
	now   int64
}

type job struct {
	needs, until int64
	done         func(now int64)
}

// Now is its time in microseconds.
func (b *Backend) Now() int64 { return b.now }

// Queue is how many wait.
func (b *Backend) Queue() int { return len(b.queue) }

// Do has it do something that needs so many microseconds of a worker, and calls
// done when it has.
func (b *Backend) Do(needs int64, done func(now int64)) {
	if b.Slow > 0 {
		needs = int64(float64(needs) * b.Slow)
	}
	b.queue = append(b.queue, &job{needs: needs, done: done})
	b.start()
}

func (b *Backend) start() {
	for b.busy < b.Workers && len(b.queue) > 0 {
		j := b.queue[0]
		b.queue = b.queue[1:]
		b.busy++
		j.until = b.now + j.needs
		heap.Push(&b.done, j)
	}
}

// Run brings its time to until, and ends what ends by then.
func (b *Backend) Run(until int64) {
	for len(b.done) > 0 && b.done[0].until <= until {
		j := heap.Pop(&b.done).(*job)
		b.now = j.until
		b.busy--
		b.start()
		j.done(b.now)
	}
	b.now = max(b.now, until)
}

// jobs are those under way, by when they end.
type jobs []*job

func (q jobs) Len() int           { return len(q) }
func (q jobs) Less(i, j int) bool { return q[i].until < q[j].until }
func (q jobs) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *jobs) Push(x any) { *q = append(*q, x.(*job)) }

// Pop implements heap.Interface.
func (q *jobs) Pop() any {
	old := *q
	j := old[len(old)-1]
	*q = old[:len(old)-1]
	return j
}
