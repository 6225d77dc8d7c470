package kafkabus

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// load emits the events of some realms until told to stop, as a guardd under load
// does, by a publisher with a spool.
type load struct {
	*aggregate.Publisher
	made map[string]uint64 // by realm
	halt func()            // no more
	done chan struct{}
}

const loadRealms = 11 // no multiple of the partitions

func startLoad(t *testing.T, b *Bus) *load {
	t.Helper()
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: b, SpoolDir: t.TempDir(),
		Failed: func(op string, err error) { t.Logf("publisher: %s: %v", op, err) }})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	l := &load{Publisher: p, made: map[string]uint64{}, halt: sync.OnceFunc(func() { close(stop) }), done: make(chan struct{})}
	t.Cleanup(func() { // a test that failed half way
		over, cancel := context.WithCancel(context.Background())
		cancel()
		l.halt()
		<-l.done
		_ = p.Close(over)
	})
	go func() {
		defer close(l.done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			for n := range 2 * loadRealms {
				l.emit(fmt.Sprint("realm", n%loadRealms))
			}
		}
	}()
	return l
}

func (l *load) emit(realm string) {
	l.made[realm]++
	l.Attempt(attempt(realm), 0)
}

func attempt(realm string) *escalation.Verdict {
	return &escalation.Verdict{
		Action: "allow", Would: "allow", Proceed: true, Realm: realm, Flow: "login", Account: keys.Account{1, 2, 3},
		IP: keys.AddressOf(netip.MustParseAddr("192.0.2.1")), Now: time.Now(),
	}
}

// more waits until n more events are published.
func (l *load) more(n uint64) {
	l.until(func(s aggregate.Stats) bool { return s.Published >= n }, l.Stats().Published)
}

// until waits for what the publisher does; its count of the published is that
// since the number was since.
func (l *load) until(ok func(aggregate.Stats) bool, since uint64) {
	for {
		s := l.Stats()
		s.Published -= since
		if ok(s) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// end stops the load, and waits until all of it is published.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.halt()
	<-l.done
	// Closing leaves on disk what a bus that fails once does not take.
	l.until(func(s aggregate.Stats) bool { return s.Memory+s.Spooled == 0 }, 0)
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for reason, n := range l.Stats().Lost {
		if n > 0 {
			t.Errorf("%d events were lost: %s", n, reason)
		}
	}
}

// tally is what came of events.
type tally struct {
	mu        sync.Mutex
	ids       map[string]bool
	seen      map[string]uint64 // by realm, without ends
	ends      map[string]uint64 // by realm: number of the end
	last      map[string]uint64 // by realm
	overtaken int               // events that came after a later one of their realm
	total     atomic.Int64
}

func newTally() *tally {
	return &tally{ids: map[string]bool{}, seen: map[string]uint64{}, ends: map[string]uint64{}, last: map[string]uint64{}}
}

// take is a handler's. It drops what it has seen, by its id.
func (y *tally) take(m aggregate.Message) error {
	var e aggregate.Event
	if err := e.Decode(m.Value); err != nil {
		return err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.ids[e.ID] {
		return nil
	}
	y.ids[e.ID] = true
	y.total.Add(1)
	if e.Seq < y.last[e.Realm] {
		y.overtaken++
	}
	y.last[e.Realm] = e.Seq
	if e.Kind == aggregate.KindEnd {
		y.ends[e.Realm] = e.Seq
	} else {
		y.seen[e.Realm]++
	}
	return nil
}

// wantAll requires every event that was made, once.
func (y *tally) wantAll(t *testing.T, made map[string]uint64) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	for realm, n := range made {
		if y.seen[realm] != n || y.ends[realm] != n+1 {
			t.Errorf("%s: %d events were made, %d came, and its end is number %d", realm, n, y.seen[realm], y.ends[realm])
		}
	}
	if len(y.seen) != len(made) {
		t.Errorf("events of %d realms came, not of %d", len(y.seen), len(made))
	}
}

// readAll reads events as a member of the group g.
func readAll(t *testing.T, b *Bus) (*consumed, *tally) {
	t.Helper()
	y := newTally()
	return (&consumed{handle: y.take}).start(t, b, "g"), y
}
