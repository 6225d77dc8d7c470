package sigma_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/sim"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// world is a real guard whose events a real publisher puts on a bus that keeps them.
type world struct {
	*testing.T
	clock   atomic.Int64
	guard   *escalation.Guard
	events  *aggregate.Publisher
	bus     kept
	devices map[string]string
}

// kept is a bus that keeps what is published.
type kept struct {
	aggregate.Bus
	mu   sync.Mutex
	msgs [][]byte
}

func (k *kept) Publish(_ context.Context, topic aggregate.Topic, msgs []aggregate.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range msgs {
		if topic == aggregate.TopicEvents {
			k.msgs = append(k.msgs, slices.Clone(m.Value))
		}
	}
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, devices: map[string]string{}}
	w.clock.Store(1_800_000_000 * keys.Second)
	store := keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 20, Marks: 1 << 20, Now: w.clock.Load})
	secrets, err := escalation.NewSecrets([][]byte{[]byte("a secret of the tests, long enough")})
	if err != nil {
		t.Fatal(err)
	}
	w.guard, err = escalation.New(escalation.Config{Store: store, Records: store, Policy: escalation.DefaultPolicy(), Secrets: secrets, Instances: 1, Now: w.clock.Load})
	if err != nil {
		t.Fatal(err)
	}
	w.events, err = aggregate.NewPublisher(aggregate.PublisherConfig{Bus: &w.bus, Ring: 1 << 20, MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// login asks, and reports what came of it where it was let through.
func (w *world) login(a escalation.Attempt, outcome keys.Outcome, silent bool) *escalation.Recorded {
	w.Helper()
	v, err := w.guard.Check(w.Context(), &a)
	if err != nil {
		w.Fatal(err)
	}
	if !silent {
		w.events.Attempt(v, 0)
	}
	if !v.Proceed {
		return nil
	}
	r, err := w.guard.Report(w.Context(), &escalation.Report{Attempt: v.Attempt, Account: a.Account, Outcome: outcome.String(), Device: a.Device}, nil)
	if err != nil {
		w.Fatal(err)
	}
	if !silent {
		w.events.Outcome(r, 0)
	}
	return r
}

// records are the events so far, in order.
func (w *world) records() (all []record) {
	w.Helper()
	if err := w.events.Close(w.Context()); err != nil {
		w.Fatal(err)
	}
	if st := w.events.Stats(); st.Lost["ring"]+st.Lost["memory"] > 0 {
		w.Fatalf("events were lost: %v", st.Lost)
	}
	for _, b := range w.bus.msgs {
		x := record{service: "events"}
		if err := json.Unmarshal(b, &x.fields); err != nil {
			w.Fatal(err)
		}
		if x.at, _ = time.Parse(time.RFC3339Nano, x.fields["time"].(string)); x.at.IsZero() {
			w.Fatalf("no time: %s", b)
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b record) int { return a.at.Compare(b.at) })
	return all
}

// play has a scenario happen. Owners who sign in from their own browsers have done
// so before, and send back what they were given.
func play(t *testing.T, scenario string, c sim.Config) []record {
	t.Helper()
	w := newWorld(t)
	s, err := sim.ScenarioNamed(scenario)
	if err != nil {
		t.Fatal(err)
	}
	logins := s.Play(c)
	for _, l := range logins {
		if l.Home && w.devices[l.Account] == "" {
			w.clock.Add(100_000)
			if r := w.login(escalation.Attempt{Account: l.Account, IP: l.IP.String()}, keys.Success, true); r != nil {
				w.devices[l.Account] = r.Device
			}
		}
	}
	w.clock.Add(keys.Day)
	begun := w.clock.Load()
	for _, l := range logins {
		w.clock.Store(begun + l.After.Microseconds())
		a := escalation.Attempt{Account: l.Account, IP: l.IP.String(), UserAgent: l.UserAgent, PasswordTag: l.Tag, PasswordBreached: l.Breached}
		if l.Home {
			a.Device = w.devices[l.Account]
		}
		o := keys.Failure
		switch {
		case l.Unknown:
			o = keys.UnknownAccount
		case l.Right:
			o = keys.Success
		}
		w.login(a, o, false)
	}
	return w.records()
}

// scripted has one story happen, a step every so often.
func scripted(t *testing.T, steps int, every time.Duration, step func(w *world, i int)) []record {
	t.Helper()
	w := newWorld(t)
	for i := range steps {
		w.clock.Add(every.Microseconds())
		step(w, i)
	}
	return w.records()
}

// findings are as they are published.
func findings(t *testing.T, list ...aggregate.Finding) (all []record) {
	t.Helper()
	for _, f := range list {
		b, err := f.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x := record{service: "findings", at: f.Last}
		if err := json.Unmarshal(b, &x.fields); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}
