package escalation_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// This file holds the five promises of the design, one test each, over the
// twin and over a real Redis.

// published is the default table as the documentation gives it: capacity, and
// count per period. It is not taken from the code under test.
var published = map[string]struct {
	capacity, count int64
	period          time.Duration
}{
	"pair.burst": {10, 10, 10 * time.Minute}, "pair.sustained": {20, 5, 24 * time.Hour},
	"account.burst": {20, 20, time.Hour}, "account.sustained": {100, 10, 24 * time.Hour},
	"ip.burst": {40, 20, 10 * time.Minute}, "ip.sustained": {200, 100, 24 * time.Hour},
	"network.burst": {320, 160, 10 * time.Minute}, "network.sustained": {1600, 800, 24 * time.Hour},
}

// guess is one that was made.
type guess struct {
	at     int64
	lifted map[string]bool // limits that a proof lifted it over, at their last rung
	back   bool            // given back
}

// ledger holds the guesses that each key counts, by the test's own book. An
// attempt with a password of which the book knows that it is wrong tells nobody
// anything: it is no guess, and the only one that may be free.
type ledger struct {
	sync.Mutex
	guesses map[string][]*guess // by tier and name: "account alice"
	wrong   map[string]bool     // "alice: password"
	free    int
}

// learn says that a password was compared, and is wrong.
func (l *ledger) learn(account, password string) {
	l.Lock()
	defer l.Unlock()
	l.wrong[account+": "+password] = true
}

// repeat books an attempt that took nothing.
func (l *ledger) repeat(t *testing.T, account, password string) {
	l.Lock()
	defer l.Unlock()
	if !l.wrong[account+": "+password] {
		t.Errorf("%s: a guess at %q is free, and nobody has known that it is wrong", account, password)
	}
	l.free++
}

func (l *ledger) book(at int64, account, ip string, v *Verdict) *guess {
	g := &guess{at: at, lifted: map[string]bool{}}
	for _, t := range v.Tiers {
		if t.Rung == keys.Verify {
			g.lifted[t.Tier+"."+t.Limit] = true
		}
	}
	addr := netip.MustParseAddr(ip)
	counted, bits := netip.PrefixFrom(addr, 32), 64
	if addr.Is6() {
		counted, _ = addr.Prefix(bits)
	}
	names := map[string]string{"account": account, "pair": account + " " + counted.String(), "ip": counted.String()}
	if addr.Is6() {
		wide, _ := addr.Prefix(48)
		names["network"] = wide.String()
	}
	l.Lock()
	defer l.Unlock()
	for tier, name := range names {
		l.guesses[tier+" "+name] = append(l.guesses[tier+" "+name], g)
	}
	return g
}

// audit asserts the promise for every key, limit and interval, in integers:
// guesses x period <= capacity x period + count x time. It returns how many
// guesses came up to a limit exactly, so that a test can tell that the walk
// got there.
func (l *ledger) audit(t *testing.T) (reached int) {
	t.Helper()
	for key, all := range l.guesses {
		tier := key[:slices.Index([]byte(key), ' ')]
		for _, name := range []string{"burst", "sustained"} {
			limit := published[tier+"."+name]
			var counted []int64
			for _, g := range all {
				if !g.back && !g.lifted[tier+"."+name] {
					counted = append(counted, g.at)
				}
			}
			slices.Sort(counted)
			period := limit.period.Microseconds()
			for i := range counted {
				for j := i; j < len(counted); j++ {
					n, room := int64(j-i+1)*period, limit.capacity*period+limit.count*(counted[j]-counted[i])
					if n > room {
						t.Fatalf("%s, %s: %d guesses in %v", key, name, j-i+1, time.Duration(counted[j]-counted[i])*time.Microsecond)
					}
					if n > room-period {
						reached++
					}
				}
			}
		}
	}
	return reached
}

// tagFor is what a handler says of a password.
func tagFor(password string) string {
	return hex.EncodeToString([]byte(fmt.Sprintf("%-16s", password)))
}

func TestPromiseNoLeak(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f := newFleet(t, s, 3)
		r := rand.New(rand.NewPCG(3, 4))
		l := &ledger{guesses: map[string][]*guess{}, wrong: map[string]bool{}}
		accounts := []string{"alice", "bob", "carol"}
		ips := []string{"192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}
		for round := range 60 {
			var all sync.WaitGroup
			for i := range 12 {
				account, ip := accounts[r.IntN(len(accounts))], ips[r.IntN(len(ips))]
				owner, success := r.IntN(20) == 0, r.IntN(6) == 0
				password := fmt.Sprint("guess ", round, ".", i)
				if r.IntN(3) == 0 { // over and over; the first is the right one
					password = fmt.Sprint("old ", r.IntN(5))
					success = password == "old 0"
				}
				all.Go(func() {
					a := Attempt{Account: account, IP: ip, PasswordTag: tagFor(password)}
					v := f.insist(i, a, true)
					if v.Action == ActionVerify && owner {
						a.Proof = f.solve(v, keys.Verify)
						v = f.check(i, a)
					}
					if !v.Proceed {
						return
					}
					if v.Degraded {
						t.Error("degraded: the store is too slow for this test")
					}
					outcome := "failure"
					switch {
					case v.Repeat:
						l.repeat(t, account, password)
						if success {
							outcome = "second_factor_pending"
						}
					default:
						g := l.book(f.clock.Load(), account, ip, v)
						if success {
							outcome, g.back = "second_factor_pending", true // gives back, makes no place familiar
						}
					}
					if !success {
						l.learn(account, password)
					}
					f.report(i+1, v, account, outcome, "")
				})
			}
			all.Wait()
			f.pass(time.Duration(r.Int64N(int64(4 * time.Minute))))
			if r.IntN(12) == 0 {
				f.pass(6 * time.Hour)
			}
		}
		if reached := l.audit(t); reached < 20 {
			t.Errorf("only %d intervals came up to a limit: the walk proves little", reached)
		}
		if l.free < 20 {
			t.Errorf("only %d attempts were free: the walk proves little", l.free)
		}

		// In an outage, at most max(limit, 3 x instances) more.
		f = newFleet(t, s, 4)
		f.pass(240 * time.Hour)
		s.gone()
		got := 0
		for range 40 {
			for i := range f.guards {
				if v := f.insist(i, Attempt{Account: "dave", IP: "192.0.2.9"}, true); v.Proceed {
					got++
				}
			}
		}
		if got != 12 { // of pair.burst, 10: four shares of 3
			t.Errorf("%d guesses in an outage, want 12", got)
		}
		// And a proof at most its worth once per instance.
		proof, used := f.solve(f.check(0, Attempt{Account: "dave", IP: "192.0.2.9"}), keys.Verify), 0
		for i := range 40 {
			if f.check(i, Attempt{Account: "dave", IP: "192.0.2.9", Proof: proof}).Proceed {
				used++
			}
		}
		if used != 5*4 {
			t.Errorf("one code let %d guesses through in an outage of four instances, want 20", used)
		}
	})
}

func TestPromiseNoLockout(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f := newFleet(t, s, 2)
		const owner, home = "alice", "192.0.2.7"
		v := f.check(0, Attempt{Account: owner, IP: "203.0.113.1"})
		device := f.report(0, v, owner, "success", "").Device
		f.pass(48 * time.Hour)
		// Everything is against the owner: the posture, the network, and
		// strangers at the owner's own address and everywhere.
		space := keys.NewSpace("default", 0)
		state := keys.State{Pin: keys.Critical, PinUntil: start + 365*keys.Day}
		put(t, s, space.State(), state.Encode())
		put(t, s, space.Suspect(netip.MustParsePrefix("192.0.2.0/24")), keys.EncodeUntil(start+365*keys.Day))
		var strangers sync.WaitGroup
		defer strangers.Wait()
		stop := make(chan struct{})
		defer close(stop)
		hammer := func(i, n int, ip string) {
			for k := range n {
				for _, account := range []string{owner, fmt.Sprint("stranger ", k)} {
					v := f.insist(i, Attempt{Account: account, IP: ip, Device: device[:k%len(device)], Proof: device[k%len(device):]}, false)
					if v.Action == ActionVerify && account != owner { // with proofs of their own
						f.check(i, Attempt{Account: owner, IP: ip, Proof: f.solve(v, keys.Verify)})
					}
				}
			}
		}
		for i := range 30 {
			hammer(i, 6, fmt.Sprintf("198.51.100.%d", i))
		}
		for range 200 { // home is flooded
			hammer(0, 1, home)
			hammer(1, 1, home)
		}
		for i := range 4 {
			strangers.Go(func() {
				for k := 0; ; k++ {
					select {
					case <-stop:
						return
					default:
						hammer(k, 1, []string{home, fmt.Sprintf("198.18.%d.%d", i, k%250)}[k%2])
					}
				}
			})
		}
		for i := range 6 {
			// At once on a known device ...
			if v := f.check(i, Attempt{Account: owner, IP: home, Device: device}); !v.Proceed || !v.KnownDevice {
				t.Errorf("known device: %s because of %v", v.Action, v.Reasons)
			}
			// ... and with one proof on a new one, even mistyping.
			v := f.check(i, Attempt{Account: owner, IP: home})
			if v.Proceed {
				t.Fatal("the owner is asked for nothing: nobody presses")
			}
			proof := f.solve(v, keys.Verify)
			for guess := range 5 {
				v := f.check(i+guess, Attempt{Account: owner, IP: home, Proof: proof})
				if !v.Proceed || v.ProofError != "" {
					t.Errorf("new device, guess %d with one code: %s because of %v, %q", guess, v.Action, v.Reasons, v.ProofError)
				}
			}
			f.pass(time.Second)
		}
	})
}

func put(t *testing.T, r keys.Records, key string, value []byte) {
	t.Helper()
	if err := r.Put(t.Context(), key, value, keys.Day); err != nil {
		t.Fatal(err)
	}
}

func TestPromiseRefusalCostsNothing(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f := newFleet(t, s, 2)
		state := keys.State{Baseline: keys.Limit{Capacity: 10_000, Count: 1, Period: 1000}}
		put(t, s, keys.NewSpace("default", 0).State(), state.Encode())
		seen := map[Action]int{}
		account, ip := "alice", "2001:db8::1"
		proof, rounds := "", 0
		for ; rounds < 60; rounds++ {
			v := f.check(rounds, Attempt{Account: account, IP: ip, Proof: proof})
			if v.Proceed {
				proof = ""
				continue
			}
			if seen[v.Action]++; seen[v.Action] > 1 && v.Action == ActionVerify {
				break
			}
			if want := 9; len(v.Tiers) != want {
				t.Fatalf("%d limits are looked at, want %d", len(v.Tiers), want)
			}
			// Refusals, with whatever proof does not help; fewer in all than
			// the flood guard lets pass.
			for i := range 15 {
				bad := []string{"", "rubbish", v.Challenge.Token}[i%3]
				again := f.check(i, Attempt{Account: account, IP: ip, Proof: bad})
				if again.Action != v.Action || !slices.Equal(again.Tiers, v.Tiers) {
					t.Fatalf("refusal %d at %s took something:\n%v\n%v", i, v.Action, v.Tiers, again.Tiers)
				}
			}
			switch v.Action {
			case ActionCaptcha:
				proof = f.solve(v, keys.Captcha)
			case ActionDelay:
				proof = f.solve(v, keys.Verify)
			}
		}
		for _, a := range []Action{ActionDelay, ActionCaptcha, ActionVerify} {
			if seen[a] == 0 {
				t.Errorf("%s was never refused", a)
			}
		}
		// Nobody else feels it either: a stranger next door finds everything
		// but what was let through.
		v := f.check(0, Attempt{Account: "bob", IP: "2001:db8::2"})
		let := int64(0)
		for _, l := range v.Tiers {
			switch l.Tier {
			case "global":
				let = l.Capacity - l.Left
			}
		}
		for _, l := range v.Tiers {
			if (l.Tier == "ip" || l.Tier == "network") && l.Capacity-l.Left != let {
				t.Errorf("%s.%s: %d spent, %d let through", l.Tier, l.Limit, l.Capacity-l.Left, let)
			}
		}
		if let != 10+1 { // alice's ten, and this one
			t.Errorf("%d spent of global, want 11", let)
		}
	})
}

func TestPromiseSuccessForgivesItselfOnly(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f := newFleet(t, s, 2)
		levels := func(i int) map[string]int64 { // as a refused stranger at home sees them
			m := map[string]int64{}
			v := f.check(i, Attempt{Account: "alice", IP: "192.0.2.7"})
			if v.Proceed {
				t.Fatal("looking takes something here")
			}
			for _, l := range v.Tiers {
				m[l.Tier+"."+l.Limit] = l.Left
			}
			return m
		}
		same := func(what string, a, b map[string]int64) {
			t.Helper()
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s: %v before, %v after", what, a, b)
			}
		}
		for i := range 4 { // strangers at the owner's own address
			f.insist(i, Attempt{Account: "alice", IP: "192.0.2.7"}, true)
		}
		before := levels(0)
		v := f.check(0, Attempt{Account: "alice", IP: "192.0.2.7"})
		v = f.check(1, Attempt{Account: "alice", IP: "192.0.2.7", Proof: f.solve(v, keys.Verify)})
		if !v.Proceed {
			t.Fatalf("the owner: %s", v.Action)
		}
		if got := levels(0); got["account.burst"] != before["account.burst"]-1 {
			t.Fatalf("the guess took nothing: %v", got)
		}
		f.report(0, v, "alice", "second_factor_pending", "")
		same("a success", before, levels(1))
		for i := range 5 {
			f.report(i, v, "alice", "success", "")
			f.report(i, v, "alice", "not_checked", "")
		}
		for tier, left := range levels(0) {
			if left > before[tier] {
				t.Errorf("a success repeated: %s holds %d, had %d", tier, left, before[tier])
			}
		}

		// Hoarding: three attempts kept back while refill repays half a token
		// (of the one a minute that pair has). Reported at once they would have
		// given back three; now each gives back what it still costs.
		var hoard []*Verdict
		for i := range 3 {
			hoard = append(hoard, f.check(i, Attempt{Account: "mallory", IP: "198.51.100.1"}))
		}
		f.pass(30 * time.Second)
		for i, h := range hoard {
			if r := f.report(i, h, "mallory", "second_factor_pending", ""); !r.Recorded {
				t.Fatalf("%+v", r)
			}
		}
		// 3 spent - 1/2 refilled - 3 x 1/2 given back = 1 spent; and one more now.
		v = f.check(0, Attempt{Account: "mallory", IP: "198.51.100.1"})
		if v.Tiers[0].Left != 8 {
			t.Errorf("pair holds %d after a hoard, want 8", v.Tiers[0].Left)
		}
		// Kept back until refill has repaid them, they are worth nothing.
		f.pass(time.Minute)
		f.report(0, v, "mallory", "success", "")
		v = f.check(1, Attempt{Account: "mallory", IP: "198.51.100.1"})
		if v.Tiers[0].Left != 8 { // 2 spent - 1 refilled - nothing + 1
			t.Errorf("pair holds %d, want 8", v.Tiers[0].Left)
		}
	})
}

func TestPromiseFrictionDegrades(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		for name, fault := range map[string]func(){"gone": s.gone, "slow": s.hang, "lying": s.lost} {
			f := newFleet(t, s, 2)
			a := Attempt{Account: "alice of " + name, IP: "192.0.2.7"}
			if v := f.check(0, a); v.Degraded || v.Tiers[0].Capacity != 10 {
				t.Fatalf("%s: before: degraded %v, %v", name, v.Degraded, v.Tiers)
			}
			fault()
			// Half of 10 each: the ladder stands, at this instance's share, of which
			// the tenth that was spent before is spent.
			var first *Verdict
			for i, want := range []Action{ActionAllow, ActionDelay, ActionDelay} {
				v := f.check(0, a)
				if !v.Degraded || v.Action != want || v.Tiers[0].Capacity != 5 {
					t.Errorf("%s: guess %d: degraded %v, %s, %v; want %s", name, i, v.Degraded, v.Action, v.Tiers, want)
				}
				if i == 0 {
					first = v
				}
			}
			// What the twin let through, it takes back; a device comes of it.
			r := f.report(0, first, a.Account, "success", "")
			if !r.Recorded || r.Device == "" || name != "lying" && !r.Degraded {
				t.Errorf("%s: reported: %+v", name, r)
			}
			if v := f.check(0, a); v.Action != ActionAllow {
				t.Errorf("%s: nothing was given back: %s", name, v.Action)
			}
			if v := f.check(0, Attempt{Account: a.Account, IP: a.IP, Device: r.Device}); !v.KnownDevice || !v.Degraded {
				t.Errorf("%s: on the device: known %v, degraded %v", name, v.KnownDevice, v.Degraded)
			}
			s.heal()
			if v := f.check(0, a); v.Degraded || v.Tiers[0].Capacity != 10 {
				t.Errorf("%s: after: degraded %v, %v", name, v.Degraded, v.Tiers)
			}
		}
	})
}
