package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/guardd/guardd/keys"
)

const (
	hotCalls  = 400_000
	manyKeys  = 1_000_000
	manyCalls = 200_000
	people    = 4096 // visitors of whole decisions
	passes    = 12   // times each comes, a day apart
	fiveCalls = 5    // x/time/rate calls that a whole decision stands against
)

// limiters is x/time/rate as its documentation and most services use it for
// many keys: a limiter each, in a sync.Map.
type limiters struct{ m sync.Map }

func (l *limiters) allow(key string, now time.Time) bool {
	v, ok := l.m.Load(key)
	if !ok {
		v, _ = l.m.LoadOrStore(key, rate.NewLimiter(1_000_000_000./3600, 1_000_000_000))
	}
	return v.(*rate.Limiter).AllowN(now, 1)
}

// twinSide holds what the in-memory subjects share.
type twinSide struct {
	rules *keys.Rules
	names []string
	asks  []*keys.Ask
	hot   *keys.Memory // of one bucket
	many  *keys.Memory // of a million
	whole *keys.Memory // of people's decisions
	day   int64        // of whole's last pass

	peerHot, peerMany, peerFive limiters
	fiveNames                   [][fiveCalls]string
}

func newTwinSide() (*twinSide, error) {
	s := &twinSide{hot: newTwin(), many: newTwin(), whole: newTwin()}
	var err error
	if s.rules, err = plenty(); err != nil {
		return nil, err
	}
	for i := range manyKeys {
		s.names = append(s.names, name(i))
	}
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	if s.asks, err = a.asks(visitors(0, people), false); err != nil {
		return nil, err
	}
	s.day = time.Now().UnixMicro()
	now := time.Now()
	ask, ans := s.one(), keys.Answer{}
	for _, n := range s.names { // both are full before either is measured
		ask.Keys[0] = n
		if err := s.many.Take(context.Background(), ask, &ans); err != nil {
			return nil, err
		}
		s.peerMany.allow(n, now)
	}
	for _, a := range s.asks {
		var five [fiveCalls]string
		for k := range five {
			five[k] = a.Keys[k%3] + ":" + strconv.Itoa(k)
			s.peerFive.allow(five[k], now)
		}
		s.fiveNames = append(s.fiveNames, five)
	}
	runtime.GC() // nothing that is timed allocates, so no other is due while it runs
	return s, nil
}

// name is the key of a bucket, as the service names it.
func name(i int) string { return "gd:{default/0}:login:ip:" + address(i) }

// newTwin has room for all: eviction is not what is compared.
func newTwin() *keys.Memory { return keys.NewMemory(keys.MemoryConfig{Buckets: 4 * manyKeys}) }

func (s *twinSide) one() *keys.Ask {
	return &keys.Ask{Rules: s.rules, Keys: make([]string, 1), Cost: 1}
}

// timed is the processor time of one call, where each of workers makes n. It
// counts what waits for a lock by spinning, and not what the machine's other
// work takes.
func timed(workers, n int, work func(worker int, n int) error) (sample, error) {
	errs := make([]error, workers)
	from := selfCPU()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = work(w, n) })
	}
	wg.Wait()
	took := selfCPU() - from
	return sample{"ns": float64(took) / float64(workers*n)}, errors.Join(errs...)
}

func (s *twinSide) hotTwin() (sample, error) {
	return timed(1, hotCalls, func(_, n int) error {
		ask, ans := s.one(), keys.Answer{}
		ask.Keys[0] = s.names[0]
		for range n {
			if err := taken(s.hot, ask, &ans); err != nil {
				return err
			}
		}
		return nil
	})
}

func taken(m *keys.Memory, ask *keys.Ask, ans *keys.Answer) error {
	if err := m.Take(context.Background(), ask, ans); err != nil {
		return err
	}
	if !ans.Let {
		return errors.New("the twin refused")
	}
	return nil
}

var errPeer = errors.New("x/time/rate refused")

func (s *twinSide) hotPeer() (sample, error) {
	return timed(1, hotCalls, func(_, n int) error {
		for range n {
			if !s.peerHot.allow(s.names[0], time.Now()) {
				return errPeer
			}
		}
		return nil
	})
}

func (s *twinSide) manyTwin() (sample, error) {
	return timed(2, manyCalls, func(w, n int) error {
		r, ask, ans := rand.New(rand.NewPCG(1, uint64(w))), s.one(), keys.Answer{}
		for range n {
			ask.Keys[0] = s.names[r.IntN(manyKeys)]
			if err := taken(s.many, ask, &ans); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *twinSide) manyPeer() (sample, error) {
	return timed(2, manyCalls, func(w, n int) error {
		r := rand.New(rand.NewPCG(1, uint64(w)))
		for range n {
			if !s.peerMany.allow(s.names[r.IntN(manyKeys)], time.Now()) {
				return errPeer
			}
		}
		return nil
	})
}

// wholeTwin lets every visitor in once a day, so that all is allowed and
// nothing is evicted: the times are the asks', not the twin's own.
func (s *twinSide) wholeTwin() (sample, error) {
	return timed(1, passes*people, func(_, n int) error {
		var ans keys.Answer
		for i := range n {
			if i%people == 0 {
				s.day += 2 * keys.Day
			}
			ask := s.asks[i%people]
			ask.Now = s.day
			if err := taken(s.whole, ask, &ans); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *twinSide) fivePeer() (sample, error) {
	return timed(1, passes*people, func(_, n int) error {
		for i := range n {
			now := time.Now()
			for _, k := range &s.fiveNames[i%people] {
				if !s.peerFive.allow(k, now) {
					return errPeer
				}
			}
		}
		return nil
	})
}

// allocations of one warm decision.
func (s *twinSide) allocations() (sample, error) {
	var ans keys.Answer
	var err error
	i := 0
	n := testing.AllocsPerRun(people, func() {
		if i%people == 0 {
			s.day += 2 * keys.Day
		}
		ask := s.asks[i%people]
		ask.Now = s.day
		err = errors.Join(err, taken(s.whole, ask, &ans))
		i++
	})
	return sample{"allocations": n, "bytes": 1}, err
}

// grown is the heap that a million keys hold, each with its name.
func grown(fill func(name string) error, keep any) (sample, error) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what finalizers and pools held is gone with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	for i := range manyKeys {
		if err := fill(name(i)); err != nil {
			return nil, err
		}
	}
	after := heap()
	runtime.KeepAlive(keep)
	return sample{"bytes": (after - before) / manyKeys}, nil
}

func (s *twinSide) bytesTwin() (sample, error) {
	m, ask, ans := newTwin(), s.one(), keys.Answer{}
	return grown(func(n string) error {
		ask.Keys[0] = n
		return taken(m, ask, &ans)
	}, m)
}

func (s *twinSide) bytesPeer() (sample, error) {
	l, now := &limiters{}, time.Now()
	return grown(func(n string) error {
		if !l.allow(n, now) {
			return errPeer
		}
		return nil
	}, l)
}

func (s *twinSide) close() {}

func (s *twinSide) groups() []group {
	return []group{
		{name: "twin", floor: "x/time/rate, hot key", measure: "ns", unit: "ns of CPU a call",
			subjects: []subject{
				{"x/time/rate, hot key", s.hotPeer}, {"twin, hot key", s.hotTwin},
				{"x/time/rate, 1 million keys", s.manyPeer}, {"twin, 1 million keys", s.manyTwin},
				{"five x/time/rate calls", s.fivePeer}, {"twin, decision", s.wholeTwin},
			},
			rows: []row{
				{What: "twin, one bucket, hot key", Against: "x/time/rate in a sync.Map", of: "twin, hot key", base: "x/time/rate, hot key", measure: "ns", must: 1.0, aim: 0.7},
				{What: "twin, one bucket, 1 million keys", Against: "x/time/rate in a sync.Map", of: "twin, 1 million keys", base: "x/time/rate, 1 million keys", measure: "ns", must: 0.8, aim: 0.5},
				{What: "twin, login decision", Against: "five x/time/rate calls", of: "twin, decision", base: "five x/time/rate calls", measure: "ns", must: 0.8, aim: 0.55},
			}},
		{name: "twin, memory", rounds: 1, floor: "x/time/rate", measure: "bytes", unit: "bytes a key",
			subjects: []subject{{"x/time/rate", s.bytesPeer}, {"twin", s.bytesTwin}, {"twin, decision", s.allocations}},
			rows: []row{
				{What: "twin, login decision", Against: "allocations", of: "twin, decision", measure: "allocations"},
				{What: "twin, bytes a key with its name", Against: "x/time/rate in a sync.Map", of: "twin", base: "x/time/rate", measure: "bytes", must: 0.65, aim: 0.5},
			}},
	}
}
