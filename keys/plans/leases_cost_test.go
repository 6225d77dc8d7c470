package plans_test

import (
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// leasedTaker decides by a lease, by the machine's clock.
func leasedTaker(t testing.TB, e *plans.Evidence) (*plans.Taker, *plans.Request, *plans.Decision) {
	t.Helper()
	tk := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{}), Sealer: plainSealer{}, Hash: hash, Evidence: e})
	b, faults := plans.Compile(leased(1<<30, "1073741824/1s", plans.Lease{Above: 1}), "1", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	tk.Swap(b)
	r, d := &plans.Request{Key: "gk_of_somebody_with_a_key_of_usual_length_0", Rules: []string{"r"}, Route: "GET /x", Cost: 1}, new(plans.Decision)
	for range 1000 {
		if err := tk.TakeInto(t.Context(), r, d); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if tk.Leases().Allowed < 900 {
		t.Fatalf("it is not leased: %+v", tk.Leases())
	}
	return tk, r, d
}

// A take that is decided by what is leased makes no garbage, evidence included.
func TestALeasedTakeAllocatesNothing(t *testing.T) {
	for name, e := range map[string]*plans.Evidence{"alone": nil, "with evidence": plans.NewEvidence(plans.EvidenceConfig{Trail: keys.NewMemoryTrail(1<<20, nil)})} {
		tk, r, d := leasedTaker(t, e)
		again := new(plans.Request)
		n := testing.AllocsPerRun(20_000, func() {
			*again = plans.Request{Key: r.Key, Rules: r.Rules, Route: r.Route, Cost: 1} // its key is hashed anew
			if err := tk.TakeInto(t.Context(), again, d); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkLeasedTake(b *testing.B) {
	for name, e := range map[string]*plans.Evidence{"alone": nil, "with evidence": plans.NewEvidence(plans.EvidenceConfig{Trail: keys.NewMemoryTrail(1<<20, nil)})} {
		tk, r, d := leasedTaker(b, e)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			again, ctx := new(plans.Request), b.Context()
			for b.Loop() {
				*again = plans.Request{Key: r.Key, Rules: r.Rules, Route: r.Route, Cost: 1}
				if err := tk.TakeInto(ctx, again, d); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}
