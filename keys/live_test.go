package keys_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/keys"
)

// hearts is a Beats whose clock the test owns.
type hearts struct {
	mu     sync.Mutex
	now    int64
	gone   error
	till   map[[8]byte]int64
	beaten chan struct{}
}

func (h *hearts) Beat(_ context.Context, _ string, instance [8]byte, _, ttl int64) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beaten != nil {
		defer func() {
			select {
			case h.beaten <- struct{}{}:
			default:
			}
		}()
	}
	if h.gone != nil {
		return 0, h.gone
	}
	if h.till == nil {
		h.till = map[[8]byte]int64{}
	}
	h.till[instance] = h.now + ttl
	for i, t := range h.till {
		if t <= h.now {
			delete(h.till, i)
		}
	}
	return int64(len(h.till)), nil
}

func TestInstancesCountEachOtherAndTheLastCountOutlivesTheStore(t *testing.T) {
	h := &hearts{}
	open := func(name string, fixed int) *keys.Live {
		return keys.NewLive(keys.LiveConfig{Store: h, Instance: [8]byte([]byte(name + "-------")), Fixed: fixed})
	}
	counts := func(l *keys.Live, beats, want int) {
		t.Helper()
		for range beats {
			if err := l.Beat(t.Context()); err != nil && h.gone == nil {
				t.Fatal(err)
			}
		}
		if n := l.Count(); n != want {
			t.Errorf("counts %d, want %d", n, want)
		}
	}
	a, b, c := open("a", 0), open("b", 0), open("c", 7)
	counts(a, 0, 0) // knows of nobody
	counts(a, 1, 1) // alone, and certain of it
	counts(b, 1, 0) // a has not counted it yet
	counts(a, 1, 2)
	counts(b, 1, 2)
	counts(c, 1, 7) // by the operator's word
	counts(a, 1, 3) // and the others see it all the same
	h.gone = errors.New("gone")
	counts(a, 5, 3)
	counts(open("d", 0), 1, 0)
	h.gone = nil
	h.now += keys.BeatTTL.Microseconds() / 2
	counts(a, 1, 3)
	h.now += keys.BeatTTL.Microseconds() / 2
	counts(a, 1, 1) // b and c were killed
}

func TestBeatsAreProbesOfAnOpenBreaker(t *testing.T) {
	h, now := &hearts{gone: errors.New("gone")}, int64(0)
	b := keys.NewBreakers(keys.BreakersConfig{Each: quick})
	l := keys.NewLive(keys.LiveConfig{Store: h, Instance: [8]byte{1}, Breakers: b, Now: func() int64 { return now }})
	for range 3 {
		if err := l.Beat(t.Context()); err == nil || errors.Is(err, keys.ErrOpen) {
			t.Fatal(err)
		}
	}
	if err := l.Beat(t.Context()); !errors.Is(err, keys.ErrOpen) || !b.Open() {
		t.Fatalf("%v, open %v", err, b.Open())
	}
	h.gone = nil
	for range 2 {
		now += 100
		if err := l.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if b.Open() {
		t.Error("still open where nobody logs in")
	}
}

func TestTheHeartStopsAndTakesItsMarkAway(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := &hearts{beaten: make(chan struct{}, 1)}
	l := keys.NewLive(keys.LiveConfig{Store: h, Instance: [8]byte{1}, Every: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx, nil) }()
	<-h.beaten
	<-h.beaten
	stop()
	<-done
	if len(h.till) != 0 {
		t.Errorf("left behind: %v", h.till)
	}
}
