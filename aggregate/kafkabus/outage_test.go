package kafkabus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

// scene is one run of TestNothingIsLost.
type scene struct {
	*kafkatest.Server
	prefix string
	load   *load
	got    *consumed
}

// Nothing is lost and nothing is overtaken, whatever happens to the broker while
// events flow; what comes twice is told by its id.
func TestNothingIsLost(t *testing.T) {
	for _, row := range []struct {
		name  string
		moves bool // realms may go to other partitions, where there is no order between the two
		do    func(*testing.T, *scene)
	}{
		{"the broker is killed and comes back", false, func(t *testing.T, s *scene) {
			s.Kill()
			s.load.spools()
			time.Sleep(outage(t))
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		}},
		{"the broker hangs", false, func(t *testing.T, s *scene) {
			s.Pause()
			s.load.spools()
			time.Sleep(outage(t))
			s.Resume()
		}},
		{"partitions are added", true, func(t *testing.T, s *scene) {
			if err := s.AddPartitions(s.prefix+"events", 9); err != nil {
				t.Fatal(err)
			}
			for s.got.partitions() <= 4 { // until the new ones are written to, and read
				s.load.more(20)
			}
		}},
		{"a second member comes and goes", false, func(t *testing.T, s *scene) {
			// It takes over partitions and hands them back, having read nothing for
			// good: its handlers' windows are open to the end.
			b := open(t, s.Server, func(c *Config) { c.Prefix = s.prefix })
			opened, ended := make(chan int, 64), make(chan error, 1)
			ctx, stop := context.WithCancel(context.Background())
			go func() {
				ended <- b.Consume(ctx, aggregate.TopicEvents, s.prefix+"g", func(p int) aggregate.Handler {
					opened <- p
					return keeper{}
				})
			}()
			<-opened
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &scene{Server: shared.Server(t), prefix: prefix()}
			b := open(t, s.Server, func(c *Config) {
				c.Prefix, c.Partitions, c.times.partitions = s.prefix, 4, 300*time.Millisecond
			})
			got, y := readAll(t, b)
			s.got, s.load = got, startLoad(t, b)
			s.load.more(200)
			row.do(t, s)
			s.load.more(400)
			s.load.end(t)
			total := loadRealms // their ends
			for _, n := range s.load.made {
				total += int(n)
			}
			got.await(t, total)
			got.end(t)
			y.wantAll(t, s.load.made)
			if y.overtaken > 0 && !row.moves {
				t.Errorf("%d events were overtaken", y.overtaken)
			}
			st := s.load.Stats()
			if st.Spooled+st.Memory != 0 || st.Published != uint64(total) {
				t.Errorf("of %d events: %+v", total, st)
			}
			t.Logf("%d events came, %d of them again; %d publications failed", total, got.repeats(), st.Failures)
		})
	}
}

// spools waits until events go to disk.
func (l *load) spools() { l.until(func(s aggregate.Stats) bool { return s.Spooled > 0 }, 0) }

// Late and repeated events are carried as they are: what tells them is in them.
func TestLateAndRepeatedEventsAreCarried(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 2 })
	var msgs []aggregate.Message
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for n := range 30 {
		e := aggregate.Event{V: 1, ID: fmt.Sprint("i-", n+1), Instance: "i", Seq: uint64(n + 1), Kind: aggregate.KindAttempt, Realm: "realm", Time: at.Add(-time.Duration(n) * time.Hour)}
		line, err := e.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, aggregate.Message{Key: "realm", Value: line})
	}
	got, y := readAll(t, b)
	for range 3 {
		if err := b.Publish(t.Context(), aggregate.TopicEvents, msgs); err != nil {
			t.Fatal(err)
		}
	}
	for got.repeats() < 60 {
		<-got.change
	}
	got.end(t)
	if y.seen["realm"] != 30 || y.overtaken != 0 {
		t.Errorf("%d of 30 events came, %d overtaken", y.seen["realm"], y.overtaken)
	}
}
