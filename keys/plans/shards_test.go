package plans_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/redisstore"
)

// sharded is one rule r over so many shards.
func sharded(capacity int64, refill string, shards int64) *plans.Definition {
	d := one(capacity, refill)
	d.Rules[0].Shards = &shards
	return d
}

// Sub-buckets borrow: whoever asks gets what any of them has, wherever he asks and
// whatever it costs, until all together have not enough; and not a token more.
func TestShardsRefuseOnlyWhenAllAreEmpty(t *testing.T) {
	for _, shards := range []int64{2, 4, 16} {
		for _, cost := range []int64{1, 3, 7} {
			f := newFleet(t, 3, sharded(320, "1/24h", shards))
			spent := int64(0)
			for n := 0; spent+cost <= 320; n++ {
				d := f.take(0, plans.Request{Rules: []string{"r"}, Cost: cost}) // all of them at one instance
				if !d.Allowed {
					t.Fatalf("%d shards, cost %d: refused after %d of 320", shards, cost, spent)
				}
				if left := d.Limits[0].Remaining(); left != 320-spent-cost {
					t.Fatalf("%d shards, cost %d: %d left after %d of 320", shards, cost, left, spent+cost)
				}
				spent += cost
			}
			for i := range 3 {
				if d := f.take(i, plans.Request{Rules: []string{"r"}, Cost: cost}); d.Allowed || d.RetryAfter == 0 {
					t.Errorf("%d shards, cost %d: %+v after %d of 320", shards, cost, d, spent)
				}
			}
		}
		f := newFleet(t, 3, sharded(320, "1/24h", shards))
		if d := f.take(1, plans.Request{Rules: []string{"r"}, Cost: 320}); !d.Allowed {
			t.Errorf("%d shards: all of it at once: %+v", shards, d)
		}
	}
}

// What a refusal had got together goes back at once, to be had elsewhere.
func TestWhatARefusalGotTogetherIsElsewhereAtOnce(t *testing.T) {
	f := newFleet(t, 2, sharded(80, "1/24h", 4))
	f.take(0, plans.Request{Rules: []string{"r"}, Cost: 70})
	if d := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 11}); d.Allowed {
		t.Fatal("11 of 10")
	}
	if d := f.take(1, plans.Request{Rules: []string{"r"}, Cost: 10}); !d.Allowed {
		t.Errorf("10 of 10 at another instance: %+v", d)
	}
}

// A repeat charges once, told apart by whatever instance it comes to, and another
// request under its id is a conflict.
func TestARepeatOverShardsChargesOnce(t *testing.T) {
	f := newFleet(t, 3, sharded(80, "1/24h", 4))
	for i := range 6 {
		d := f.take(i%3, plans.Request{Rules: []string{"r"}, Cost: 5, RequestID: "once"})
		if !d.Allowed || d.Replayed != (i > 0) {
			t.Errorf("time %d: %+v", i, d)
		}
		f.pass(time.Second)
	}
	if _, err := f.takers[0].Take(t.Context(), &plans.Request{Key: "k", Rules: []string{"r"}, Cost: 6, RequestID: "once"}); err != plans.ErrConflict {
		t.Errorf("another cost: %v", err)
	}
	f.pass(time.Second)
	if d := f.take(2, plans.Request{Rules: []string{"r"}, Cost: 75}); !d.Allowed {
		t.Errorf("75 of 75: %+v", d)
	}
}

// Rules with shards and without, all or nothing, and settled as any.
func TestShardsBesideOtherRules(t *testing.T) {
	d := sharded(400, "1/24h", 4)
	d.Rules = append(d.Rules, plans.Rule{Name: "plain", Capacity: 50, Refill: "1/24h"})
	f := newFleet(t, 3, d)
	both := []string{"r", "plain"}
	if d := f.take(0, plans.Request{Rules: both, Cost: 30}); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	for i := range 3 {
		if d := f.take(i, plans.Request{Rules: both, Cost: 21}); d.Allowed || d.Limits[d.Binding].Rule != "plain" {
			t.Errorf("%+v", d)
		}
	}
	f.pass(time.Second)
	r := f.take(1, plans.Request{Rules: both, Cost: 20, Reserve: true})
	if !r.Allowed {
		t.Fatalf("%+v", r)
	}
	if s, err := f.takers[2].Settle(t.Context(), r.Reservation, 5); err != nil || !s.Settled {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := f.takers[0].Settle(t.Context(), r.Reservation, 5); err != nil || !s.Duplicate {
		t.Errorf("%+v, %v", s, err)
	}
	f.pass(time.Second)
	for rule, left := range map[string]int64{"r": 400 - 35, "plain": 50 - 35} {
		if d := f.take(0, plans.Request{Rules: []string{rule}, Cost: left}); !d.Allowed {
			t.Errorf("%s has no %d left: %+v", rule, left, d)
		}
		if d := f.take(0, plans.Request{Rules: []string{rule}, Cost: 1}); d.Allowed {
			t.Errorf("%s has more than %d left", rule, left)
		}
	}
}

// In an outage each instance grants its share of the whole, not of its shard.
func TestShardsInAnOutage(t *testing.T) {
	f := newFleet(t, 3, sharded(600, "1/24h", 2))
	f.shared.fault = keystest.NotDone
	let := 0
	for n := range 1500 {
		if d := f.take(n%3, plans.Request{Rules: []string{"r"}, Cost: 1}); d.Allowed {
			let++
		}
	}
	if let > 600 || let < 400 {
		t.Errorf("%d of 600 in an outage", let)
	}
	if d := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 500}); d.Impossible || d.Allowed || d.RetryAfter == 0 {
		t.Errorf("a cost that only the whole has: %+v", d)
	}
	f.mend()
	rest := 0
	for f.take(0, plans.Request{Rules: []string{"r"}, Cost: 1}).Allowed {
		rest++
	}
	t.Logf("%d in an outage, %d after it, of 600", let, rest)
	if rest > 600-let { // what was granted alone has been charged
		t.Errorf("%d in an outage, and %d of 600 after it", let, rest)
	}
}

// Over a real Cluster, from many instances at once, the slots spread over its nodes:
// all of it is had, and no more.
func TestShardsOverACluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{ACL: true})
	const capacity = 6400
	var let, wrong atomic.Int64
	var all sync.WaitGroup
	for i := range 3 {
		const long = 10 * time.Second
		client, err := redisstore.Open(c.URL(), long)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		d := sharded(capacity, "1/24h", 16)
		if i > 0 { // one of them is of another mind about leases
			d.Rules[0].Lease = &plans.Lease{Above: 50, Most: 300}
		}
		tk := plans.NewTaker(plans.Config{Store: redisstore.New(redisstore.Config{Client: client, Deadline: long}), Sealer: plainSealer{}, Hash: hash, Instance: [8]byte{byte(i)}})
		b, faults := plans.Compile(d, "1", nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		tk.Swap(b)
		for range 4 {
			all.Go(func() {
				for refused := 0; refused < 50; {
					cost := rand.Int64N(3) + 1
					d, err := tk.Take(t.Context(), &plans.Request{Key: "k", Rules: []string{"r"}, Cost: cost})
					switch {
					case err != nil:
						t.Error(err)
						return
					case d.Allowed:
						let.Add(cost)
					default:
						refused++
						if d.Limits[0].Remaining() >= cost {
							wrong.Add(1)
						}
						tk.Tidy(t.Context())
					}
				}
			})
		}
	}
	all.Wait()
	if n := let.Load(); n > capacity || n < capacity*95/100 || wrong.Load() > 0 {
		t.Errorf("%d of %d were let through, and %d refused with enough left", n, capacity, wrong.Load())
	}
	shards := 0
	for _, n := range c.Nodes {
		found, err := n.Client().Keys(t.Context(), "gd:{plan/*rule:r").Result()
		if err != nil || len(found) == 0 {
			t.Errorf("a node with no shard (%v)", err)
		}
		shards += len(found)
	}
	if shards != 16 {
		t.Errorf("%d shards are in use, not 16", shards)
	}
}
