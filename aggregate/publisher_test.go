package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)

func verdict(realm string) *escalation.Verdict {
	return &escalation.Verdict{
		Action: "allow", Would: "allow", Proceed: true, Realm: realm, Flow: "login", Account: keys.Account{1, 2, 3},
		IP: keys.AddressOf(netip.MustParseAddr("2001:db8:1:2::3")), Now: noon, Reasons: []string{"account.burst"},
		Needed: keys.Captcha, Used: keys.Verify, Channel: "web", Posture: keys.Elevated,
		Trace: escalation.Trace{AttemptID: [16]byte{1}, DeviceID: [16]byte{2}, KnownDevice: true, UAClass: "app",
			Tag: escalation.Tag{0xab}, TagBefore: escalation.Tag{0xcd}, Request: trace.ID{Trace: [16]byte{0xef}, Span: [8]byte{0x12}}},
		Tiers: []escalation.TierLevel{{Tier: "account", Limit: "burst", Left: 9, Capacity: 20, Rung: keys.Captcha}},
		// None of these is for anybody else.
		Attempt: "SEALED", Proof: "SEALED", Challenge: &escalation.Challenge{Token: "SEALED"},
	}
}

func recorded(realm string) *escalation.Recorded {
	return &escalation.Recorded{Recorded: true, Realm: realm, Flow: "login", Account: keys.Account{1, 2, 3}, Now: noon,
		IP: keys.AddressOf(netip.MustParseAddr("203.0.113.7")), Outcome: keys.Success, Booked: keys.SecondFactorPending,
		Device: "SEALED", Trace: escalation.Trace{AttemptID: [16]byte{1}, Familiar: true, Breached: true}}
}

// faulty is a bus that fails as it is told: 0 works, 1 writes nothing, 2 writes
// and loses the reply, 3 hangs until its context ends.
type faulty struct {
	aggregate.Bus
	mu   sync.Mutex
	next func() int
}

var errBroken = errors.New("broken")

func (f *faulty) Publish(ctx context.Context, topic aggregate.Topic, msgs []aggregate.Message) error {
	f.mu.Lock()
	how := f.next()
	f.mu.Unlock()
	switch how {
	case 1:
		return errBroken
	case 2:
		_ = f.Bus.Publish(ctx, topic, msgs)
		return errBroken
	case 3:
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Bus.Publish(ctx, topic, msgs)
}

func (f *faulty) be(next func() int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

func always(how int) func() int { return func() int { return how } }

func newFaulty(how int) *faulty {
	return &faulty{Bus: aggregate.NewMemoryBus(aggregate.MemoryBusConfig{Keep: 1 << 20}), next: always(how)}
}

// quick are a publisher's times in tests.
func quick(b aggregate.Bus, dir string) aggregate.PublisherConfig {
	return aggregate.PublisherConfig{Bus: b, SpoolDir: dir, Batch: 64, Timeout: 50 * time.Millisecond,
		Backoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond, Window: time.Millisecond}
}

func publisher(t *testing.T, c aggregate.PublisherConfig) *aggregate.Publisher {
	t.Helper()
	p, err := aggregate.NewPublisher(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(p) })
	return p
}

func closeNow(p *aggregate.Publisher) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(ctx)
}

// until waits for what a publisher's goroutines do.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}

// read returns all events on the bus, in order.
func read(t *testing.T, b aggregate.Bus) (events []aggregate.Event) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	end := aggregate.Message{Key: "default", Value: []byte("that was all")}
	if err := b.Publish(ctx, aggregate.TopicEvents, []aggregate.Message{end}); err != nil {
		t.Fatal(err)
	}
	h := handlerFunc(func(m aggregate.Message) error {
		if string(m.Value) == string(end.Value) {
			stop()
			return nil
		}
		var e aggregate.Event
		if err := e.Decode(m.Value); err != nil {
			t.Errorf("%s: %v", m.Value, err)
		}
		if strings.Contains(string(m.Value), "SEALED") {
			t.Errorf("a token is in %s", m.Value)
		}
		if m.Key != e.Realm {
			t.Errorf("an event of %s has the key %s", e.Realm, m.Key)
		}
		events = append(events, e)
		return nil
	})
	if err := b.Consume(ctx, aggregate.TopicEvents, fmt.Sprint("reader", rand.Int64()), func(int) aggregate.Handler { return h }); err != nil {
		t.Fatal(err)
	}
	return events
}

type handlerFunc func(aggregate.Message) error

func (f handlerFunc) Handle(m aggregate.Message) error { return f(m) }
func (handlerFunc) Behind() int64                      { return 0 }
func (handlerFunc) Close()                             {}

// wantAll checks that the events of a realm are numbered without a gap from 1 to
// n, once repeats are dropped, and end.
func wantAll(t *testing.T, events []aggregate.Event, realm string, n uint64) {
	t.Helper()
	next, seen := uint64(1), map[string]bool{}
	for _, e := range events {
		if e.Realm != realm || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if e.Seq != next {
			t.Fatalf("%s: event %d came where %d was due", realm, e.Seq, next)
		}
		next++
		if e.Kind == aggregate.KindEnd && next != n+2 {
			t.Errorf("%s: ended at %d", realm, e.Seq)
		}
	}
	if next != n+2 {
		t.Errorf("%s: %d events and ends, want %d", realm, next-1, n+1)
	}
}

func TestWhatIsObservedBecomesEvents(t *testing.T) {
	b := newFaulty(0)
	p := publisher(t, quick(b, ""))
	quiet, replayed := verdict("default"), verdict("default")
	quiet.Quiet, replayed.Replayed = true, true
	p.Attempt(quiet, 0)
	p.Attempt(replayed, 0)
	p.Attempt(verdict("default"), time.Second)
	p.Outcome(recorded("default"), time.Second)
	duplicate := recorded("default")
	duplicate.Recorded, duplicate.Duplicate = false, true
	p.Outcome(duplicate, 0)
	late := recorded("default")
	late.Recorded = false
	p.Outcome(late, 0)
	denied := verdict("default")
	denied.Action, denied.Would, denied.Used, denied.Tiers = "deny", "deny", keys.Allow, nil
	denied.Trace = escalation.Trace{UAClass: "none"}
	p.Attempt(denied, 0)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := read(t, b)
	wantAll(t, events, "default", 5)
	if len(events) != 6 {
		t.Fatalf("%d events", len(events))
	}
	in := events[0].Instance
	if len(in) != 16 {
		t.Errorf("the instance is %q", in)
	}
	account, id := keys.Account{1, 2, 3}.String(), escalation.HashID([16]byte{1})
	want := aggregate.Event{V: 1, ID: in + "-1", Instance: in, Seq: 1, Kind: "attempt", Time: noon, Realm: "default", Flow: "login",
		Account: account, IP: "2001:db8:1:2::3", Network: "2001:db8:1::/48", Attempt: id, Device: escalation.HashID([16]byte{2}),
		Action: "allow", Would: "allow", Rung: "captcha", Proof: "verify", Reasons: []string{"account.burst"},
		KnownDevice: true, Posture: "elevated", UAClass: "app", Channel: "web", Tag: "ab00000000000000", TagPrev: "cd00000000000000",
		Trace: "ef000000000000000000000000000000", Span: "1200000000000000",
		Tiers: []aggregate.TierLevel{{Tier: "account", Limit: "burst", Left: 9, Capacity: 20, Rung: "captcha"}}}
	if d := cmp.Diff(want, events[0]); d != "" {
		t.Errorf("the attempt: %s", d)
	}
	want = aggregate.Event{V: 1, ID: in + "-2", Instance: in, Seq: 2, Kind: "outcome", Time: noon, Realm: "default", Flow: "login",
		Account: account, IP: "203.0.113.7", Network: "203.0.113.0/24", Attempt: id, Familiar: true, Breached: true, Outcome: "second_factor_pending"}
	if d := cmp.Diff(want, events[1]); d != "" {
		t.Errorf("the outcome: %s", d)
	}
	if e := events[2]; !e.Duplicate || e.Expired {
		t.Errorf("a repeated outcome: %+v", e)
	}
	if e := events[3]; e.Duplicate || !e.Expired {
		t.Errorf("a late outcome: %+v", e)
	}
	if e := events[4]; e.Action != "deny" || e.Rung != "" || e.Proof != "" || e.Attempt != "" || e.Device != "" || e.Tag != "" {
		t.Errorf("a denied attempt: %+v", e)
	}
	if s := p.Stats(); s.Emitted != 5 || s.Published != 6 || lost(s) != 0 || s.Memory != 0 {
		t.Errorf("%+v", s)
	}
}

func lost(s aggregate.Stats) (n uint64) {
	for _, l := range s.Lost {
		n += l
	}
	return n
}

// Whatever the bus does, and in whatever form it fails, events reach it in their
// order, and none is lost while there is a spool.
func TestAnOutageLosesNothing(t *testing.T) {
	for _, spooled := range []bool{true, false} {
		dir := ""
		if spooled {
			dir = t.TempDir()
		}
		b := newFaulty(1)
		c := quick(b, dir)
		c.Ring, c.MemoryBytes = 1<<16, 1<<30
		if spooled {
			c.MemoryBytes = 20_000 // so that it spills while a batch is in flight, too
		}
		p := publisher(t, c)
		r := rand.New(rand.NewPCG(1, 2))
		emit := func(n int) {
			for range n {
				p.Attempt(verdict("default"), 0)
				p.Outcome(recorded("other"), 0)
			}
		}
		emit(500)
		until(t, "it fails", func() bool { return p.Stats().Failures > 0 })
		b.be(func() int { return []int{0, 0, 1, 2, 2}[r.IntN(5)] })
		for range 20 {
			emit(50)
			until(t, "it goes on", func() bool { return p.Stats().Memory+p.Stats().Spooled < 1500 })
		}
		emit(500)
		b.be(always(0))
		// On a machine so busy that the bus takes its time, Close would leave the rest in the spool.
		until(t, "the rest is published", func() bool { return p.Stats().Published == p.Stats().Emitted })
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		events := read(t, b)
		wantAll(t, events, "default", 2000)
		wantAll(t, events, "other", 2000)
		if s := p.Stats(); lost(s) != 0 || s.Memory+s.Spooled+s.SpooledBytes != 0 || !s.Oldest.IsZero() {
			t.Errorf("spooled %v: %+v", spooled, s)
		}
		if files := segments(t, dir); len(files) > 0 {
			t.Errorf("left behind: %v", files)
		}
	}
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.events"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What was spooled is resumed by the next process, before anything new.
func TestTheNextProcessResumes(t *testing.T) {
	dir := t.TempDir()
	b := newFaulty(3)
	p := publisher(t, quick(b, dir))
	for range 300 {
		p.Attempt(verdict("default"), 0)
	}
	until(t, "it hangs", func() bool { return p.Stats().Failures > 0 })
	for range 200 {
		p.Attempt(verdict("default"), 0)
	}
	closeNow(p)
	s := p.Stats()
	if s.Spooled != 501 || lost(s) != 0 || s.Oldest.IsZero() {
		t.Fatalf("%+v", s)
	}
	b.be(always(0))
	c := quick(b, dir)
	c.Timeout = time.Minute // a bus that is slow would have it keep the rest for another
	next := publisher(t, c)
	next.Attempt(verdict("default"), 0)
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := read(t, b)
	if len(events) != 503 || events[501].Instance == events[500].Instance {
		t.Fatalf("%d events came", len(events))
	}
	wantAll(t, events[:501], "default", 500)
	wantAll(t, events[501:], "default", 1)
	if s := next.Stats(); s.Ends != 0 {
		t.Errorf("a process that had closed is taken for killed: %+v", s)
	}
}

// A file whose end was torn, at whatever byte, gives all that stands before it.
func TestATornSpoolIsReadAsFarAsItGoes(t *testing.T) {
	dir := t.TempDir()
	b := newFaulty(1)
	p := publisher(t, quick(b, dir))
	for range 10 {
		p.Attempt(verdict("default"), 0)
	}
	closeNow(p)
	files := segments(t, dir)
	slices.Sort(files)
	var whole []byte
	for _, f := range files {
		part, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, part...)
	}
	size := len(whole) / 11 // the end is shorter
	for _, cut := range []int{len(whole) - 1, len(whole) / 2, size + 3, 5, 0} {
		for _, garbled := range []bool{false, true} {
			dir, b := t.TempDir(), newFaulty(0)
			torn := slices.Clone(whole[:cut])
			if garbled { // the length is there, the body is not
				torn = append(torn, make([]byte, len(whole)-cut)...)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(files[0])), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			c := quick(b, dir)
			c.Timeout = time.Minute // a bus that is slow would have it keep the rest for another
			p := publisher(t, c)
			p.Attempt(verdict("new"), 0)
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			events := read(t, b)
			wantAll(t, events, "new", 1)
			old := events[:len(events)-2]
			for i, e := range old {
				if e.Seq != uint64(i+1) {
					t.Errorf("cut at %d: event %d is number %d", cut, i, e.Seq)
				}
			}
			if s := p.Stats(); len(old) > 10 || cut > size*2 && len(old) < cut/size-2 || s.Torn != 1 && cut > 0 {
				t.Errorf("cut at %d of %d: %d events, %+v", cut, len(whole), len(old), s)
			}
			if left := segments(t, dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	}
}

// What a kill takes is counted: the next process says how far the count had got.
func TestWhatAKillTookIsCounted(t *testing.T) {
	const events = 3000
	if dir := os.Getenv("GUARDD_TEST_KILLED_IN"); dir != "" {
		p, err := aggregate.NewPublisher(quick(newFaulty(3), dir))
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			p.Attempt(verdict("default"), 0)
			if i%10 == 0 {
				p.Outcome(recorded("other"), 0)
			}
			if i == events/2 {
				until(t, "something is spooled", func() bool { return p.Stats().Spooled > 0 })
			}
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	dir := t.TempDir()
	killed := exec.Command(os.Args[0], "-test.run=^TestWhatAKillTookIsCounted$")
	killed.Env = append(os.Environ(), "GUARDD_TEST_KILLED_IN="+dir)
	if out, err := killed.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%v: %s", err, out)
	}
	b := newFaulty(0)
	c := quick(b, dir)
	c.Timeout = time.Minute // a bus that is slow would have it keep the rest for another
	p := publisher(t, c)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Ends != 2 {
		t.Errorf("%+v", s)
	}
	for realm, made := range map[string]uint64{"default": events, "other": events / 10} {
		seen, last := uint64(0), uint64(0)
		for _, e := range read(t, b) {
			if e.Realm != realm {
				continue
			}
			if e.Seq <= last {
				t.Fatalf("%s: %d after %d", realm, e.Seq, last)
			}
			last = e.Seq
			if e.Kind != aggregate.KindEnd {
				seen++
			}
		}
		if last != made+1 || seen == 0 {
			t.Errorf("%s: ended at %d with %d events seen; %d were made", realm, last, seen, made)
		}
		t.Logf("%s: the kill took %d of %d", realm, made-seen, made)
	}
}

// Where events cannot be kept, the newest go, and each is counted.
func TestWhatHasNoRoomIsCounted(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*aggregate.PublisherConfig)
		dir    string
		reason string
	}{
		"memory": {func(c *aggregate.PublisherConfig) { c.MemoryBytes = 20_000 }, "", "memory"},
		"spool":  {func(c *aggregate.PublisherConfig) { c.SpoolBytes, c.MemoryBytes = 100_000, 20_000 }, t.TempDir(), "spool"},
		"disk":   {func(c *aggregate.PublisherConfig) { c.MemoryBytes = 20_000 }, t.TempDir(), "disk"},
		"ring":   {func(c *aggregate.PublisherConfig) { c.Ring, c.Window = 16, time.Hour }, "", "ring"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFaulty(1)
			c := quick(b, row.dir)
			row.change(&c)
			p := publisher(t, c)
			if row.reason == "disk" {
				defer fullDisk(t)()
			}
			const n = 1000
			for range n {
				p.Attempt(verdict("default"), 0)
			}
			until(t, "there is no room", func() bool { return p.Stats().Lost[row.reason] > 0 })
			until(t, "all are encoded", func() bool {
				s := p.Stats()
				return name == "ring" || s.Memory+s.Spooled+int64(lost(s)) == n
			})
			b.be(always(0))
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			seen, gaps, last := uint64(0), uint64(0), uint64(0)
			for _, e := range read(t, b) {
				gaps += e.Seq - last - 1
				last = e.Seq
				if e.Kind == "attempt" {
					seen++
				}
			}
			s := p.Stats()
			if s.Emitted != n || seen+lost(s) != n && seen+lost(s) != n+1 || s.Lost[row.reason] != lost(s) {
				t.Errorf("%d events came of %+v", seen, s)
			}
			if last == n+1 && gaps != n-seen {
				t.Errorf("the gaps are %d, and %d are missing", gaps, n-seen)
			}
		})
	}
}

// fullDisk has every write to a file fail until there is room again.
func fullDisk(t *testing.T) (room func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	full := was
	full.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Error(err)
		}
	}
}

// What was spooled and cannot be read any more is lost, and counted.
func TestASpoolThatIsTidiedAwayIsCounted(t *testing.T) {
	dir, b := t.TempDir(), newFaulty(1)
	c := quick(b, dir)
	c.Ring, c.SpoolBytes = 1<<16, 1<<30
	p := publisher(t, c)
	const n = 30_000 // some segments
	for range n {
		p.Attempt(verdict("default"), 0)
	}
	until(t, "they are spooled", func() bool { return p.Stats().Spooled == n })
	files := segments(t, dir)
	slices.Sort(files)
	if len(files) < 3 {
		t.Fatalf("%d files", len(files))
	}
	if err := os.Remove(files[len(files)-2]); err != nil {
		t.Fatal(err)
	}
	b.be(always(0))
	until(t, "the rest is published", func() bool { s := p.Stats(); return s.Spooled+s.Memory == 0 })
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := p.Stats()
	if missing := n + 1 - s.Published; missing == 0 || s.Lost["disk"] != missing || lost(s) != missing {
		t.Errorf("%d events are missing: %+v", missing, s)
	}
}

// A disk that is full for a while costs nothing while memory has room, and is not
// filled with what could not be written.
func TestAFullDiskIsTriedAgain(t *testing.T) {
	dir, b := t.TempDir(), newFaulty(1)
	c := quick(b, dir)
	var refused atomic.Int64
	c.Failed = func(op string, err error) {
		if op == "spool" {
			refused.Add(1)
		}
	}
	p := publisher(t, c)
	made := 10
	for range made {
		p.Attempt(verdict("default"), 0)
	}
	until(t, "some are spooled", func() bool { return p.Stats().Spooled == int64(made) })
	room := fullDisk(t)
	defer room()
	for refused.Load() < 20 {
		p.Attempt(verdict("default"), 0)
		made++
		time.Sleep(time.Millisecond)
	}
	// One file has the first ten, one may be being tried.
	if s := p.Stats(); s.Spooled != 10 || len(segments(t, dir)) > 2 {
		t.Errorf("on a full disk: %+v, and files %v", s, segments(t, dir))
	}
	room()
	p.Attempt(verdict("default"), 0)
	made++
	until(t, "they are spooled", func() bool { return p.Stats().Spooled == int64(made) })
	b.be(always(0))
	until(t, "they are published", func() bool { return p.Stats().Published == uint64(made) })
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantAll(t, read(t, b), "default", uint64(made))
	if s := p.Stats(); lost(s) != 0 {
		t.Errorf("%+v", s)
	}
}

// Closing takes no longer than it may, whatever the bus does, and tells what it
// cost.
func TestClosingDoesNotWaitForever(t *testing.T) {
	c := quick(newFaulty(3), "")
	c.Timeout = time.Hour
	p := publisher(t, c)
	for range 100 {
		p.Attempt(verdict("default"), 0)
	}
	closeNow(p)
	if s := p.Stats(); s.Lost["closed"] != 101 { // and the end
		t.Errorf("%+v", s)
	}
	p.Attempt(verdict("default"), 0)
	if s := p.Stats(); s.Emitted != 101 || lost(s) != 102 {
		t.Errorf("emitted after the end: %+v", s)
	}
}

func TestASpoolIsOneProcesssOwn(t *testing.T) {
	dir := t.TempDir()
	publisher(t, quick(newFaulty(0), dir))
	if p, err := aggregate.NewPublisher(quick(newFaulty(0), dir)); err == nil || !strings.Contains(err.Error(), "events.spool_dir") {
		closeNow(p)
		t.Errorf("a second one says %v", err)
	}
	file := filepath.Join(dir, "count")
	if p, err := aggregate.NewPublisher(quick(newFaulty(0), file)); err == nil || !strings.Contains(err.Error(), "events.spool_dir") {
		closeNow(p)
		t.Errorf("a file in place of a folder: %v", err)
	}
}

// Emitting is on the way of every login: it takes no memory and waits for
// nothing, with a bus that hangs, too.
func TestEmittingCostsTheCallerNothing(t *testing.T) {
	c := quick(newFaulty(3), "")
	c.Ring = 64
	p := publisher(t, c)
	v, r := verdict("default"), recorded("default")
	p.Attempt(v, 0)
	if n := testing.AllocsPerRun(1000, func() { p.Attempt(v, 0); p.Outcome(r, 0) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEmit(b *testing.B) {
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: newFaulty(1)})
	if err != nil {
		b.Fatal(err)
	}
	defer closeNow(p)
	v := verdict("default")
	b.ReportAllocs()
	for b.Loop() {
		p.Attempt(v, 0)
	}
}

func BenchmarkDecode(b *testing.B) {
	line, err := whole().AppendTo(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var e aggregate.Event
	for b.Loop() {
		if err := e.Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
