package escalation_test

import (
	"testing"
	"time"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// TestTheStoresClockOutlivesTheStore: the machines' clocks differ by more than a
// proof lives. What was given before an outage counts in it, and the reverse.
func TestTheStoresClockOutlivesTheStore(t *testing.T) {
	for _, skew := range []time.Duration{-20 * time.Minute, 20 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			clock := func() int64 { return time.Now().Add(skew).UnixMicro() }
			s := &memory{Memory: keys.NewMemory(keys.MemoryConfig{Now: clock})}
			fallback := keys.NewFallback(keys.FallbackConfig{Primary: s, Local: keys.NewMemory(keys.MemoryConfig{}), Instances: 1})
			secrets, err := NewSecrets([][]byte{[]byte("the secret of all instances")})
			if err != nil {
				t.Fatal(err)
			}
			g := NewGuard(t, Config{Store: fallback, Records: fallback, Policy: DefaultPolicy(), Secrets: secrets})
			f := &fleet{T: t, guards: []*Guard{g}}
			a := Attempt{Account: "alice", IP: "192.0.2.7"}
			asked := func() *Verdict {
				for range 12 {
					if v := f.check(0, a); !v.Proceed {
						return v
					}
				}
				t.Fatal("nothing is asked")
				return nil
			}
			passes := func(when, proof string) {
				t.Helper()
				b := a
				b.Proof = proof
				if v := f.check(0, b); !v.Proceed || v.ProofError != "" {
					t.Errorf("%s: %s, %q", when, v.Action, v.ProofError)
				}
			}
			first := f.check(0, a)
			before := asked()
			s.gone()
			if r := f.report(0, first, a.Account, "failure", ""); !r.Recorded {
				t.Errorf("an attempt from before the outage, reported in it: %+v", r)
			}
			within := asked()
			if !within.Degraded {
				t.Fatal("no outage")
			}
			passes("given before the outage, used in it", f.solve(before, keys.Verify))
			passes("given in the outage, used in it", f.solve(within, keys.Verify))
			within = asked()
			proof := f.solve(within, keys.Verify)
			s.heal()
			passes("given in the outage, used after it", proof)
			if err := g.Revoke(t.Context(), "", a.Account); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond)
			s.gone()
			passes("given after a revocation", f.solve(asked(), keys.Verify))
		})
	}
}
