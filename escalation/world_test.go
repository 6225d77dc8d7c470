package escalation

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// world is a guard over the twin, with a clock that the test owns.
type world struct {
	*testing.T
	g     *Guard
	c     Config
	store *keys.Memory
	clock atomic.Int64
}

const t0 = int64(1_700_000_000_000_000)

var testSecret = []byte("a secret of the tests, long enough")

func secrets(t testing.TB, lines ...string) *Secrets {
	t.Helper()
	var b [][]byte
	for _, l := range lines {
		b = append(b, []byte(l))
	}
	if b == nil {
		b = [][]byte{testSecret}
	}
	s, err := NewSecrets(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{T: t}
	w.clock.Store(t0)
	w.store = keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 14, Marks: 1 << 18, Now: w.clock.Load})
	w.c = Config{Store: w.store, Records: w.store, Policy: DefaultPolicy(), Secrets: secrets(t), Now: w.clock.Load}
	for _, f := range change {
		f(&w.c)
	}
	logged(w.c.Policy)
	w.g = w.guard(w.c)
	return w
}

func (w *world) guard(c Config) *Guard {
	w.Helper()
	return NewGuard(w, c)
}

// logged gives the realms that have no delivery the one of development.
func logged(p *Policy) *Policy {
	for name, r := range p.Realms {
		if r == nil {
			r = &Realm{}
			p.Realms[name] = r
		}
		if r.Delivery.Driver == "" {
			r.Delivery.Driver = "log"
		}
	}
	return p
}

func withPolicy(p *Policy) func(*Config) { return func(c *Config) { c.Policy = p } }

func shadow(c *Config) { c.Shadow = true }

func (w *world) pass(d time.Duration) { w.clock.Add(d.Microseconds()) }

// try asks; anything but a verdict ends the test.
func (w *world) try(a Attempt) *Verdict {
	w.Helper()
	v, err := w.g.Check(context.Background(), &a)
	if err != nil {
		w.Fatalf("attempt of %q from %q: %v", a.Account, a.IP, err)
	}
	return v
}

// let asks and is let through.
func (w *world) let(a Attempt) *Verdict {
	w.Helper()
	v := w.try(a)
	if !v.Proceed || v.Attempt == "" {
		w.Fatalf("attempt of %q from %q: %s because of %v (proof: %q), want allow", a.Account, a.IP, v.Action, v.Reasons, v.ProofError)
	}
	return v
}

// report reports; anything but an answer ends the test.
func (w *world) report(attempt, account, outcome, device string) *Recorded {
	w.Helper()
	r, err := w.g.Report(context.Background(), &Report{Attempt: attempt, Account: account, Outcome: outcome, Device: device}, nil)
	if err != nil {
		w.Fatalf("reporting %s: %v", outcome, err)
	}
	return r
}

// signIn lets an account through, reports success, and returns the device.
func (w *world) signIn(account, ip, device string) string {
	w.Helper()
	v := w.let(Attempt{Account: account, IP: ip, Device: device})
	return w.report(v.Attempt, account, "success", device).Device
}

// solve returns the proof of a challenge.
func (w *world) solve(v *Verdict, rung keys.Rung) string {
	w.Helper()
	p, err := w.g.Solve(context.Background(), v.Challenge.Token, rung)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// waited returns the wait ticket of a delay as if it had been waited for, while
// the buckets' time stands still.
func (w *world) waited(v *Verdict) string {
	w.Helper()
	c := w.g.c.Secrets.openChallenge(v.Challenge.Token)
	if c == nil || c.rung != keys.Delay {
		w.Fatalf("%v is no wait", v.Challenge)
	}
	c.issued -= c.wait
	return w.g.c.Secrets.seal(forChallenge, c.encode())
}

// press guesses at the account from fresh IPv4 addresses until it is asked for
// a code, passing what can be passed, and returns how many guesses it made.
func (w *world) press(account string) (guesses int) {
	w.Helper()
	for i := range 400 {
		ip := strings.Join([]string{"198.18", itoa(i / 250), itoa(i%250 + 1)}, ".")
		proof := ""
		for {
			v := w.try(Attempt{Account: account, IP: ip, Proof: proof})
			if v.Proceed {
				guesses++
				break
			}
			switch v.Action {
			case ActionVerify:
				return guesses
			case ActionCaptcha:
				proof = w.solve(v, keys.Captcha)
			case ActionDelay:
				w.pass(v.RetryAfter)
				proof = v.Challenge.Token
			}
		}
	}
	w.Fatal("nothing ever asked for a code")
	return 0
}

func itoa(n int) string { return strconv.Itoa(n) }

func wantFault(t testing.TB, err error, field, reason string) {
	t.Helper()
	var f Faults
	if !errors.As(err, &f) {
		t.Fatalf("error %v, want %s: %s", err, field, reason)
	}
	for _, x := range f {
		if x.Field == field && (reason == "" || x.Reason == reason) {
			return
		}
	}
	t.Fatalf("faults %v, want %s: %s", f, field, reason)
}
