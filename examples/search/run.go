package main

import (
	"container/heap"
	"math/rand/v2"

	"github.com/guardd/guardd/keys/shed/shedtest"
)

// The story: twenty callers take half of what eight workers can do. In the second
// scene three of them ask for ten reports a second each, which is less than the
// requests that they may make and four times what all workers can do. In the
// fourth, five of the workers are lost.
const (
	callers = 20
	greedy  = 3
	workers = 8
	lost    = 5
	scenes  = 5
	scene   = 20 // seconds
	rate    = 41 // requests a second of each caller
	reports = 10 // reports a second of each that is greedy, in their scene
	patient = second
)

// Second is what became of what the others asked for in one second.
type Second struct {
	Asked, Answered                 int // in time
	CriticalAsked, CriticalAnswered int
	Queue                           int // requests that wait, at its end
}

// Run plays the story behind p.
func Run(p Protection, seed uint64) ([]Second, error) {
	d, err := newDoor(p)
	if err != nil {
		return nil, err
	}
	w := &world{door: d, backend: &shedtest.Backend{Workers: workers}, r: rand.New(rand.NewPCG(seed, 10)), seconds: make([]Second, scenes*scene)}
	for caller := range callers {
		w.next(caller, rate, w.ordinary)
	}
	for caller := range greedy {
		w.at(scene*second, func() { w.next(caller, reports, w.greed) })
	}
	w.at(3*scene*second, func() { w.backend.Workers = workers - lost })
	w.at(4*scene*second, func() { w.backend.Workers = workers })
	for s := range w.seconds {
		w.at(int64(s+1)*second, func() { w.seconds[s].Queue = w.backend.Queue() })
	}
	w.run(scenes * scene * second)
	return w.seconds, w.err
}

type world struct {
	door    *door
	backend *shedtest.Backend
	r       *rand.Rand
	later   events
	seconds []Second
	err     error
}

// next calls f for a caller so many times a second from now on, at random; f says
// until when.
func (w *world) next(caller int, perSecond float64, f func(caller int) bool) {
	w.at(w.backend.Now()+int64(w.r.ExpFloat64()*float64(second)/perSecond), func() {
		if f(caller) {
			w.next(caller, perSecond, f)
		}
	})
}

func (w *world) ordinary(caller int) bool {
	route := item
	switch n := w.r.IntN(1000); {
	case n < 2:
		route = report
	case n < 100:
		route = search
	}
	critical := route == item && w.r.IntN(10) == 0 // as a checkout's
	w.ask(caller, route, critical, w.backend.Now(), true, caller >= greedy)
	return w.backend.Now() < scenes*scene*second
}

func (w *world) greed(caller int) bool {
	w.ask(caller, report, false, w.backend.Now(), true, false)
	return w.backend.Now() < 2*scene*second
}

// ask sends a request, and once more when nobody has answered in time: what is
// under way by then is still worked on. counted ones are shown.
func (w *world) ask(caller int, route string, critical bool, first int64, again, counted bool) {
	now := w.backend.Now()
	s := w.second(first)
	if counted && again {
		s.Asked++
		if critical {
			s.CriticalAsked++
		}
	}
	leave, err := w.door.enter(now, caller, route, critical)
	if err != nil {
		w.err = err
	}
	if leave == nil {
		return
	}
	done := false
	w.backend.Do(needs[route], func(at int64) {
		leave(at)
		done = true
		if counted && at-now <= patience(route) {
			s.Answered++
			if critical {
				s.CriticalAnswered++
			}
		}
	})
	if again {
		w.at(now+patience(route), func() {
			if !done {
				w.ask(caller, route, critical, first, false, counted)
			}
		})
	}
}

// patience is how long a caller waits: a second, and for a report three.
func patience(route string) int64 {
	if route == report {
		return 3 * patient
	}
	return patient
}

func (w *world) second(at int64) *Second {
	return &w.seconds[min(at/second, int64(len(w.seconds)-1))]
}

func (w *world) at(t int64, f func()) { heap.Push(&w.later, event{t, len(w.later), f}) }

func (w *world) run(until int64) {
	for len(w.later) > 0 && w.later[0].at <= until && w.err == nil {
		e := heap.Pop(&w.later).(event)
		w.backend.Run(e.at)
		e.f()
	}
	w.backend.Run(until + 3*patient) // what was asked in the last second
}

type event struct {
	at int64
	n  int
	f  func()
}

// events are what is yet to come, by time.
type events []event

func (q events) Len() int           { return len(q) }
func (q events) Less(i, j int) bool { return q[i].at < q[j].at }
func (q events) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
