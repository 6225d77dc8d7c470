package plans_test

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/redisstore"
)

// redisFleet is takers over one Redis, each with a client and a twin of its own.
type redisFleet struct {
	t      *testing.T
	server *redistest.Server
	raw    *redis.Client
	def    *plans.Definition
	n      atomic.Int32
}

func newRedisFleet(t *testing.T, d *plans.Definition) *redisFleet {
	s := redistest.Start(t)
	return &redisFleet{t: t, server: s, raw: s.Client(), def: d}
}

// start runs another instance; stop ends it as a process ends, returning what it
// holds, and kill as one that is killed.
func (f *redisFleet) start() (tk *plans.Taker, stop, kill func()) {
	const long = 10 * time.Second // no test here is about being late
	client, err := redisstore.Open(f.server.URL(), long)
	if err != nil {
		panic(err) // not of the test's own goroutine
	}
	store := redisstore.New(redisstore.Config{Client: client, Deadline: long})
	if err := store.Load(f.t.Context()); err != nil {
		panic(err)
	}
	tk = plans.NewTaker(plans.Config{Sealer: plainSealer{}, Hash: hash, Instance: [8]byte{0, 0, 0, byte(f.n.Add(1) << 1)},
		Store: keys.NewFallback(keys.FallbackConfig{Primary: store, Local: keys.NewMemory(keys.MemoryConfig{}), Instances: 3})})
	b, faults := plans.Compile(f.def, "1", nil)
	if len(faults) > 0 {
		panic(faults)
	}
	tk.Swap(b)
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { tk.Run(ctx) })
	end := func() { cancel(); loop.Wait(); client.Close() }
	return tk, end, func() { client.Close(); end() } // it cannot return anything
}

var scriptCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// calls is how many scripts Redis has run.
func (f *redisFleet) calls() (n int) {
	f.t.Helper()
	info, err := f.raw.Info(f.t.Context(), "commandstats").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	if m := scriptCalls.FindStringSubmatch(info); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}

// 15,000 requests a second on one key over 3 instances, counted by Redis itself: at
// most 75 calls for each second, and with a rule that has room for them all of them
// are let through.
func TestABusyKeyCostsRedisFewCalls(t *testing.T) {
	f := newRedisFleet(t, leased(40_000, "40000/1s", plans.Lease{Above: 100}))
	var asked, let atomic.Int64
	var all sync.WaitGroup
	var begun time.Time
	const long = 3 * time.Second
	before := 0
	for i := range 3 {
		tk, stop, _ := f.start()
		defer stop()
		if i == 0 {
			begun, before = time.Now(), f.calls()
		}
		all.Go(func() {
			d, r := new(plans.Decision), new(plans.Request)
			for n := 0; time.Since(begun) < long; n++ {
				for float64(n) > 5000*time.Since(begun).Seconds() { // ahead of its 5,000 a second
					time.Sleep(time.Millisecond)
				}
				*r = plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1}
				if err := tk.TakeInto(t.Context(), r, d); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
				if d.Allowed && !d.Degraded {
					let.Add(1)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	calls := f.calls() - before
	t.Logf("%d requests in %.1f s (%.0f a second), %d let through, by %d calls (%.0f a second)", asked.Load(), took, float64(asked.Load())/took, let.Load(), calls, float64(calls)/took)
	if float64(calls-3*11) > 75*took {
		t.Errorf("%d calls in %.1f s", calls, took)
	}
	if let.Load() != asked.Load() {
		t.Errorf("%d of %d were let through", let.Load(), asked.Load())
	}
}

// Three instances on one Redis under all the load that there is, killed and
// restarted: never more than the rule has, and a kill loses at most a lease.
func TestInstancesThatAreKilledUnderLoad(t *testing.T) {
	const capacity, most, kills = 60_000, 1000, 6
	for _, shards := range []int64{1, 4} {
		d := leased(capacity, "1/24h", plans.Lease{Above: 100, Most: most, For: "500ms"})
		d.Rules[0].Shards = &shards
		f := newRedisFleet(t, d)
		ignore := goleak.IgnoreCurrent()
		var let atomic.Int64
		spend := func(tk *plans.Taker, until func() bool) {
			for n := 0; !until(); n++ {
				d, err := tk.Take(context.Background(), &plans.Request{Key: "k", Rules: []string{"r"}, Cost: int64(n%3 + 1)})
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed && !d.Degraded {
					let.Add(int64(n%3 + 1))
				}
			}
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				for range kills / 3 {
					tk, _, kill := f.start()
					was := let.Load()
					spend(tk, func() bool { return let.Load() > was+int64(3000+500*i) })
					kill()
				}
			})
		}
		all.Wait()
		if n := let.Load(); n >= capacity-kills*most {
			t.Fatalf("%d were let through before the end: the test shows nothing", n)
		}
		for range 3 { // and all that is left
			tk, stop, _ := f.start()
			refused := 0
			spend(tk, func() bool {
				if tk.Leases().Refused > 200 {
					refused++
				}
				return refused > 0
			})
			stop()
		}
		if n := let.Load(); n > capacity || n < capacity-kills*most-3 {
			t.Errorf("%d shards: %d of %d were let through, %d kills of at most %d each", shards, n, capacity, kills, most)
		} else {
			t.Logf("%d shards: %d of %d were let through, %d kills of at most %d each", shards, n, capacity, kills, most)
		}
		f.raw.FlushAll(t.Context())
		if err := goleak.Find(ignore); err != nil {
			t.Error(err)
		}
	}
}
