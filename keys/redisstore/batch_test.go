package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// hold lets calls queue up: the server is stopped, and every flight under way.
func hold(t *testing.T, s *Store, server *redistest.Server, r *keys.Rules, wg *sync.WaitGroup) {
	t.Helper()
	server.Pause()
	for i := range flights {
		a := ask(r, now)
		a.Keys = []string{fmt.Sprintf("gd:{t/0}:hold:account:%d", i), "gd:{t/0}:hold:ip"}
		wg.Go(func() { _ = s.Take(context.Background(), a, &keys.Answer{}) })
	}
	for s.only().state() != (state{flights, 0}) {
		time.Sleep(time.Millisecond)
	}
}

// only is the server of a store that has one.
func (s *Store) only() *server { return s.servers.of("", s.client.(*redis.Client)) }

type state struct{ flying, queued int }

func (b *batcher) state() state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return state{b.flying, len(b.queue)}
}

// patient is a store whose deadline no test comes near.
func patient(t *testing.T, server *redistest.Server) *Store {
	t.Helper()
	client, err := Open(server.URL(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s := New(Config{Client: client, Deadline: time.Minute})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCallsThatWaitGoTogetherAndNoneIsLost(t *testing.T) {
	server := redistest.Start(t)
	s, r := patient(t, server), login(t, limit(t, 100, 1, time.Hour))
	take(t, s, ask(r, now)) // the script is there
	var wg sync.WaitGroup
	hold(t, s, server, r, &wg)
	const waiting = 3*maxBatch + 5
	answers, errs := make([]keys.Answer, waiting), make([]error, waiting)
	for i := range waiting {
		a := ask(r, now)
		a.Keys = []string{"gd:{t/0}:login:account:same", "gd:{t/0}:login:ip:same"}
		wg.Go(func() {
			errs[i] = s.Take(context.Background(), a, &answers[i])
			if errs[i] == nil && answers[i].ID != a.AttemptID {
				errs[i] = errors.New("another's answer")
			}
		})
	}
	for s.only().state().queued != waiting {
		time.Sleep(time.Millisecond)
	}
	server.Resume()
	wg.Wait()
	let := 0
	for i := range answers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if answers[i].Let {
			let++
		}
	}
	if let != 100 {
		t.Errorf("%d of %d were let through, want the capacity, 100", let, waiting)
	}
	if got := s.only().state(); got != (state{}) {
		t.Errorf("after all have landed: %+v", got)
	}
}

// Whoever gives up while waiting is told so at once, and what was not sent
// never is, even where no deadline travels with it (the caller owns time).
func TestACallThatGaveUpWaitingIsNeverSent(t *testing.T) {
	server := redistest.Start(t)
	s, r := patient(t, server), login(t, limit(t, 100, 1, time.Hour))
	take(t, s, ask(r, now))
	var wg sync.WaitGroup
	hold(t, s, server, r, &wg)
	ctx, cancel := context.WithCancel(t.Context())
	a := ask(r, now)
	a.Keys = []string{"gd:{t/0}:login:account:late", "gd:{t/0}:login:ip:late"}
	gave := make(chan error)
	go func() { gave <- s.Take(ctx, a, &keys.Answer{}) }()
	for s.only().state().queued != 1 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-gave; !errors.Is(err, context.Canceled) { // the server still stands still
		t.Errorf("gave up with %v", err)
	}
	server.Resume()
	wg.Wait()
	take(t, s, ask(r, now))
	if n, err := server.Client().Exists(t.Context(), a.Keys...).Result(); err != nil || n != 0 {
		t.Errorf("%d of its keys were written (%v)", n, err)
	}
}

// Each node of a Cluster has its own batch: one that stands still holds up
// nobody else's calls, and what went together to a node that has the slot no
// longer is sent on, each call once.
func TestCallsOfOneNodeWaitForNoOtherAndAreSentOn(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	var second string
	var ran [2]int
	rawURL := twoNodes(t, func(node int, command []string) string {
		if !strings.EqualFold(command[0], "evalsha") {
			return "-ERR unknown command\r\n"
		}
		if node == 0 {
			<-release
			mu.Lock()
			defer mu.Unlock()
			return "-MOVED 1 " + second + "\r\n"
		}
		mu.Lock()
		defer mu.Unlock()
		ran[node]++
		said, _ := fakeTally(command, time.Now().UnixMicro())
		return said
	})
	_, addr, _ := strings.Cut(rawURL, "?addr=")
	mu.Lock()
	second = addr
	mu.Unlock()
	s := openURL(t, rawURL, nil, nil).Store
	of := func(addr string) (key string, at *server) {
		for i := 0; ; i++ {
			key = fmt.Sprintf("gd:{%d}:x", i)
			at, err := s.server(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if (at.client.Load().Options().Addr == second) == (addr == second) {
				return key, at
			}
		}
	}
	tally := func(key string) error {
		_, _, err := s.Tally(context.Background(), key, 0, keys.Day)
		return err
	}
	stuck, still := of("")
	free, _ := of(second)

	const waiting = 10
	errs := make(chan error, flights+waiting)
	for range flights {
		go func() { errs <- tally(stuck) }()
	}
	for still.state() != (state{flights, 0}) {
		time.Sleep(time.Millisecond)
	}
	for range waiting {
		go func() { errs <- tally(stuck) }()
	}
	for still.state().queued != waiting {
		time.Sleep(time.Millisecond)
	}
	for range 2 * flights {
		if err := tally(free); err != nil {
			t.Fatalf("while another node stands still: %v", err)
		}
	}
	close(release)
	for range flights + waiting {
		if err := <-errs; err != nil {
			t.Errorf("sent on: %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := 3*flights + waiting; ran[1] != want {
		t.Errorf("%d calls ran, want %d", ran[1], want)
	}
}
