package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// member is one instance of a fleet over one Redis.
type member struct {
	*keys.Fallback
	faulty   *keystest.Faulty
	breakers *keys.Breakers
	live     *keys.Live
}

// beating sends heartbeats the way of all other calls, faults and all.
type beating struct {
	faulty *keystest.Faulty
	store  *Store
}

func (b beating) Beat(ctx context.Context, key string, id [8]byte, now, ttl int64) (n int64, err error) {
	if err := b.faulty.Put(ctx, "gd:{fleet}:probe", []byte("x"), keys.Day); err != nil {
		return 0, err
	}
	return b.store.Beat(ctx, key, id, now, ttl)
}

// Three instances with the deadline that users have, on a Redis that hangs, or
// whose calls fail in either form, under an attacker who guesses at all of them
// in parallel: in all no more than DESIGN 1 allows, and the fleet finds together
// again with nothing owed and no goroutine left. What is too slow on a busy
// machine is a fault like any other.
func TestThreeInstancesKeepTheBoundThroughFaultsOfRedis(t *testing.T) {
	for name, fault := range map[string]func(s *redistest.Server, all []*member) (end func()){
		"hangs": func(s *redistest.Server, _ []*member) func() { s.Pause(); return s.Resume },
		"did not happen": func(_ *redistest.Server, all []*member) func() {
			return faulted(all, keystest.NotDone)
		},
		"happened, reply lost": func(_ *redistest.Server, all []*member) func() {
			return faulted(all, keystest.ReplyLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			ignore := goleak.IgnoreCurrent()
			l, err := keys.NewLimit(10, 1, 24*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			rules, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierAccount, Limits: []keys.LimitSpec{
				{Name: "burst", Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}}}}}, [4]keys.Effect{}, keys.Pace{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			var loops sync.WaitGroup
			var all []*member
			var undo []func() error
			for i := range 3 {
				client, err := Open(server.URL(), DefaultDeadline)
				if err != nil {
					t.Fatal(err)
				}
				undo = append(undo, client.Close)
				store := New(Config{Client: client})
				_ = store.Load(ctx)
				m := &member{faulty: &keystest.Faulty{Subject: store}, breakers: keys.NewBreakers(keys.BreakersConfig{Store: store})}
				m.live = keys.NewLive(keys.LiveConfig{Store: beating{m.faulty, store}, Instance: [8]byte{byte(i)}, Every: 20 * time.Millisecond, Breakers: m.breakers})
				m.Fallback = keys.NewFallback(keys.FallbackConfig{Primary: m.faulty, Local: keys.NewMemory(keys.MemoryConfig{}), Live: m.live.Count,
					Breakers: m.breakers, Heart: true, Deadline: DefaultDeadline})
				loops.Go(func() { m.live.Run(ctx, nil) })
				loops.Go(func() { m.Run(ctx) })
				all = append(all, m)
			}
			settled := func() bool {
				for _, m := range all {
					if m.live.Count() != 3 || m.breakers.Open() || m.Debts().Owed > 0 {
						return false
					}
				}
				return true
			}
			await := func(what string) {
				t.Helper()
				for range 3000 {
					if settled() {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Fatal("the fleet does not find together " + what)
			}
			greedy := func() (let int) {
				var mu sync.Mutex
				var guesses sync.WaitGroup
				for _, m := range all {
					for range 20 {
						guesses.Go(func() {
							var ans keys.Answer
							if err := m.Take(ctx, &keys.Ask{Rules: rules, Keys: []string{"gd:{r/0}:victim"}, Cost: 1}, &ans); err != nil {
								t.Error(err)
							}
							if ans.Let {
								mu.Lock()
								let++
								mu.Unlock()
							}
						})
					}
				}
				guesses.Wait()
				return let
			}
			await("at first")
			let := greedy()
			end := fault(server, all)
			for range 5 {
				let += greedy()
			}
			end()
			await("again")
			let += greedy()
			if let < 1 || let > 20 {
				t.Errorf("%d guesses were let through; 10 are the capacity, and max(10, 3 x 3) the outage's", let)
			}
			stop()
			loops.Wait()
			for _, u := range undo {
				if err := u(); err != nil {
					t.Error(err)
				}
			}
			goleak.VerifyNone(t, ignore)
			redistest.EveryKeyDies(t, server, 1)
		})
	}
}

func faulted(all []*member, f keystest.Fault) (end func()) {
	for _, m := range all {
		m.faulty.Set(f)
	}
	return func() {
		for _, m := range all {
			m.faulty.Set(keystest.Healthy)
		}
	}
}
