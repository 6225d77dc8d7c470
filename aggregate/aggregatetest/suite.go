package aggregatetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/aggregate"
)

// Subject is what the suite runs over.
type Subject struct {
	// Cluster makes an empty bus of so many partitions. What it returns opens that
	// bus once more, as another process would; the bus ends with the test.
	Cluster func(t *testing.T, partitions int) (open func() aggregate.Bus)
}

// Run runs the suite. Everything it waits for is a message; what never comes
// ends the test by its deadline.
func Run(t *testing.T, s Subject) {
	for _, row := range []struct {
		name string
		f    func(*testing.T, Subject)
	}{
		{"KeysKeepTheirOrder", keysKeepTheirOrder},
		{"ANewGroupBeginsAtTheOldest", newGroupBeginsAtTheOldest},
		{"GroupsAreApart", groupsAreApart},
		{"PoisonGoesToTheDead", poisonGoesToTheDead},
		{"AFailedHandlerIsReplaced", failedHandlerIsReplaced},
		{"APositionStaysBehind", positionStaysBehind},
		{"AnotherMemberTakesOver", anotherMemberTakesOver},
		{"HighTellsHowFarBehind", highTellsHowFarBehind},
		{"WhatIsPublishedIsKept", whatIsPublishedIsKept},
		{"PublishGivesUpWithItsContext", publishGivesUp},
	} {
		t.Run(row.name, func(t *testing.T) { row.f(t, s) })
	}
}

// reader is a member of a group, whose messages the test takes from got.
type reader struct {
	got    chan aggregate.Message
	opened chan int // partitions, as their handlers open
	closed chan int
	// fail and behind are what handlers say; nil: no error, and all is done with.
	fail   func(aggregate.Message) error
	behind func(next int64) int64
	stop   context.CancelFunc
	ended  chan error
}

func newReader() *reader {
	return &reader{got: make(chan aggregate.Message), opened: make(chan int, 1024), closed: make(chan int, 1024), ended: make(chan error, 1)}
}

func (r *reader) start(t *testing.T, b aggregate.Bus, topic aggregate.Topic, group string) *reader {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		r.ended <- b.Consume(ctx, topic, group, func(p int) aggregate.Handler {
			r.opened <- p
			return &handler{r: r, ctx: ctx, partition: p}
		})
	}()
	t.Cleanup(stop)
	return r
}

// end stops the reader and waits for Consume to return.
func (r *reader) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("Consume ended with %v", err)
	}
	if o, c := len(r.opened), len(r.closed); o != c {
		t.Errorf("%d handlers were opened and %d closed", o, c)
	}
}

type handler struct {
	r         *reader
	ctx       context.Context
	partition int
	next      int64
}

func (h *handler) Handle(m aggregate.Message) error {
	if m.Partition != h.partition {
		return fmt.Errorf("a message of partition %d came to the handler of %d", m.Partition, h.partition)
	}
	m.Value = slices.Clone(m.Value)
	select {
	case h.r.got <- m:
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
	if h.r.fail != nil {
		if err := h.r.fail(m); err != nil {
			return err
		}
	}
	h.next = m.Offset + 1
	return nil
}

func (h *handler) Behind() int64 {
	if h.r.behind != nil {
		return h.r.behind(h.next)
	}
	return h.next
}

func (h *handler) Close() { h.r.closed <- h.partition }

func publish(t *testing.T, b aggregate.Bus, topic aggregate.Topic, msgs ...aggregate.Message) {
	t.Helper()
	if err := b.Publish(t.Context(), topic, msgs); err != nil {
		t.Fatal(err)
	}
}

func message(key string, n int) aggregate.Message {
	return aggregate.Message{Key: key, Value: fmt.Appendf(nil, "%s %d", key, n)}
}

func messages(key string, from, to int) (all []aggregate.Message) {
	for n := from; n < to; n++ {
		all = append(all, message(key, n))
	}
	return all
}

// take receives n messages, in any order of partitions.
func take(t *testing.T, r *reader, n int) (all []aggregate.Message) {
	t.Helper()
	for range n {
		select {
		case m := <-r.got:
			all = append(all, m)
		case err := <-r.ended:
			t.Fatalf("Consume ended after %d of %d messages: %v", len(all), n, err)
		}
	}
	return all
}

func values(msgs []aggregate.Message) (all []string) {
	for _, m := range msgs {
		all = append(all, string(m.Value))
	}
	return all
}

func want(t *testing.T, got, want []aggregate.Message) {
	t.Helper()
	if d := cmp.Diff(values(want), values(got)); d != "" {
		t.Error(d)
	}
}

func keysKeepTheirOrder(t *testing.T, s Subject) {
	open := s.Cluster(t, 4)
	b := open()
	r := newReader().start(t, b, aggregate.TopicEvents, "g")
	const keys, each = 11, 50 // no multiple of the partitions: keys in turn must not look like partitions in turn
	go func() {
		for n := range each {
			var batch []aggregate.Message
			for k := range keys {
				batch = append(batch, message(fmt.Sprint("realm", k), n))
			}
			_ = b.Publish(t.Context(), aggregate.TopicEvents, batch) // what is missing is noticed below
		}
	}()
	next, partition := map[string]int{}, map[string]int{}
	for left := keys * each; left > 0; {
		m := take(t, r, 1)[0]
		// What was read may come again, as when the bus is short of breath.
		if slices.Contains(values(messages(m.Key, 0, next[m.Key])), string(m.Value)) {
			continue
		}
		left--
		if want := fmt.Sprintf("%s %d", m.Key, next[m.Key]); string(m.Value) != want {
			t.Fatalf("%q came where %q was due", m.Value, want)
		}
		if p, seen := partition[m.Key]; seen && p != m.Partition {
			t.Fatalf("%s came from partitions %d and %d", m.Key, p, m.Partition)
		}
		next[m.Key]++
		partition[m.Key] = m.Partition
	}
	if used := slices.Compact(slices.Sorted(maps.Values(partition))); len(used) < 2 {
		t.Errorf("%d keys came from partitions %v: they are not spread", keys, used)
	}
	r.end(t)
}

func newGroupBeginsAtTheOldest(t *testing.T, s Subject) {
	b := s.Cluster(t, 2)()
	all := messages("realm", 0, 20)
	publish(t, b, aggregate.TopicEvents, all...)
	r := newReader().start(t, b, aggregate.TopicEvents, "g")
	want(t, take(t, r, 20), all)
	r.end(t)
}

func groupsAreApart(t *testing.T, s Subject) {
	b := s.Cluster(t, 1)()
	all := messages("realm", 0, 5)
	publish(t, b, aggregate.TopicEvents, all...)
	for _, group := range []string{"one", "other"} {
		r := newReader().start(t, b, aggregate.TopicEvents, group)
		want(t, take(t, r, 5), all)
		r.end(t)
	}
}

func poisonGoesToTheDead(t *testing.T, s Subject) {
	b := s.Cluster(t, 2)()
	r := newReader()
	r.fail = func(m aggregate.Message) error {
		if string(m.Value) == "realm 1" {
			return fmt.Errorf("%w: it is number one", aggregate.ErrPoison)
		}
		return nil
	}
	r.start(t, b, aggregate.TopicEvents, "g")
	dead := newReader().start(t, b, aggregate.TopicDead, "g2")
	publish(t, b, aggregate.TopicEvents, messages("realm", 0, 3)...)
	want(t, take(t, r, 3), messages("realm", 0, 3))
	m := take(t, dead, 1)[0]
	if m.Key != "realm" || string(m.Value) != "realm 1" || m.Reason != aggregate.ErrPoison.Error()+": it is number one" {
		t.Errorf("the dead letter is %q of %q, because %q", m.Value, m.Key, m.Reason)
	}
	r.end(t)
	dead.end(t)
}

func failedHandlerIsReplaced(t *testing.T, s Subject) {
	b := s.Cluster(t, 1)()
	failures := 1
	r := newReader()
	r.fail = func(m aggregate.Message) error {
		if string(m.Value) == "realm 2" && failures > 0 {
			failures--
			return errors.New("not now")
		}
		return nil
	}
	r.start(t, b, aggregate.TopicEvents, "g")
	publish(t, b, aggregate.TopicEvents, messages("realm", 0, 4)...)
	// Whether 0 and 1 come again depends on whether the position was stored yet.
	got := values(take(t, r, 3))
	for {
		m := take(t, r, 1)[0]
		got = append(got, string(m.Value))
		if string(m.Value) == "realm 3" {
			break
		}
	}
	if slices.Index(got[3:], "realm 2") < 0 {
		t.Errorf("what the handler failed at did not come again: %q", got)
	}
	r.end(t)
	if n := len(r.opened); n < 2 {
		t.Errorf("%d handlers were opened", n)
	}
}

func positionStaysBehind(t *testing.T, s Subject) {
	open := s.Cluster(t, 1)
	b := open()
	publish(t, b, aggregate.TopicEvents, messages("realm", 0, 10)...)
	r := newReader()
	r.behind = func(next int64) int64 { return max(next-3, 0) }
	r.start(t, b, aggregate.TopicEvents, "g")
	take(t, r, 10)
	r.end(t)

	again := open()
	r = newReader().start(t, again, aggregate.TopicEvents, "g")
	want(t, take(t, r, 3), messages("realm", 7, 10))
	publish(t, again, aggregate.TopicEvents, message("realm", 10))
	want(t, take(t, r, 1), messages("realm", 10, 11))
	r.end(t)
}

func anotherMemberTakesOver(t *testing.T, s Subject) {
	open := s.Cluster(t, 4)
	first, second := open(), open()
	one, two := newReader().start(t, first, aggregate.TopicEvents, "g"), newReader().start(t, second, aggregate.TopicEvents, "g")
	var all []aggregate.Message
	for k := range 12 {
		all = append(all, message(fmt.Sprint("realm", k), 0))
	}
	publish(t, first, aggregate.TopicEvents, all...)
	left := map[string]bool{}
	for _, m := range all {
		left[string(m.Value)] = true
	}
	for len(left) > 0 { // a message may come twice while members settle
		select {
		case m := <-one.got:
			delete(left, string(m.Value))
		case m := <-two.got:
			delete(left, string(m.Value))
		}
	}
	one.end(t)
	for k := range 12 {
		m := message(fmt.Sprint("realm", k), 1)
		left[string(m.Value)] = true
		publish(t, second, aggregate.TopicEvents, m)
	}
	for len(left) > 0 {
		m := take(t, two, 1)[0]
		delete(left, string(m.Value))
	}
	two.end(t)
}

func highTellsHowFarBehind(t *testing.T, s Subject) {
	b := s.Cluster(t, 1)()
	publish(t, b, aggregate.TopicEvents, messages("realm", 0, 5)...)
	r := newReader().start(t, b, aggregate.TopicEvents, "g")
	got := take(t, r, 5)
	if first := got[0]; first.Offset+1 >= first.High {
		t.Errorf("of five messages the first has offset %d and high %d", first.Offset, first.High)
	}
	if last := got[4]; last.Offset+1 != last.High {
		t.Errorf("the last has offset %d and high %d", last.Offset, last.High)
	}
	if got[0].Time.IsZero() {
		t.Error("a message has no time")
	}
	r.end(t)
}

func whatIsPublishedIsKept(t *testing.T, s Subject) {
	b := s.Cluster(t, 1)()
	m := message("realm", 0)
	publish(t, b, aggregate.TopicFindings, m)
	clear(m.Value) // the publisher's buffer is used again
	r := newReader().start(t, b, aggregate.TopicFindings, "g")
	want(t, take(t, r, 1), messages("realm", 0, 1))
	r.end(t)
}

func publishGivesUp(t *testing.T, s Subject) {
	b := s.Cluster(t, 1)()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := b.Publish(ctx, aggregate.TopicEvents, messages("realm", 0, 1)); err == nil {
		t.Error("a publish whose context had ended said that it had written")
	}
}
