package kafkabus

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// Stats is what a Bus has done since Open, and where its readers are.
type Stats struct {
	Partitions []PartitionStats // those that this member has now
	Dead       uint64           // messages that were written to aggregate.TopicDead
	// Generations are how often the members of a group were dealt their
	// partitions anew; Rebuilt, how often this one began anew by itself because
	// nothing came although there was something.
	Generations, Rebuilt uint64
	Errors               map[string]uint64 // by Operations
}

// PartitionStats is where the reader of one partition is.
type PartitionStats struct {
	Topic     aggregate.Topic
	Group     string
	Partition int
	Next      int64 // offset of the message that is due
	Committed int64 // the group's position, as far as it was moved here
	// Lag is how many messages are due, as of the last look at the log's end or
	// the last fetch. Age is how long ago the last one handled had been
	// published; 0 where none is due.
	Lag int64
	Age time.Duration
}

type stats struct {
	dead, generations, rebuilt atomic.Uint64

	mu         sync.Mutex
	errors     map[string]uint64
	partitions map[*partition]bool
}

func (s *stats) failed(op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errors == nil {
		s.errors = map[string]uint64{}
	}
	s.errors[op]++
}

// watch counts p among the bus' partitions until the returned function is called.
func (s *stats) watch(p *partition) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitions == nil {
		s.partitions = map[*partition]bool{}
	}
	s.partitions[p] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.partitions, p)
	}
}

// Stats returns a snapshot. It asks no broker.
func (b *Bus) Stats() Stats {
	out := Stats{
		Dead: b.stats.dead.Load(), Generations: b.stats.generations.Load(), Rebuilt: b.stats.rebuilt.Load(),
		Errors: map[string]uint64{},
	}
	b.stats.mu.Lock()
	defer b.stats.mu.Unlock()
	for _, op := range Operations {
		out.Errors[op] = b.stats.errors[op]
	}
	for p := range b.stats.partitions {
		out.Partitions = append(out.Partitions, p.stats(time.Now()))
	}
	slices.SortFunc(out.Partitions, func(a, b PartitionStats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}
