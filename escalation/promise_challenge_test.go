package escalation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// The promises about challenges, over the twin and over a real Redis.

// post is the owners' mail; what the fleet shows can be read by anybody.
type post struct {
	mu   sync.Mutex
	mail []Message
	came chan Message
	legible
}

func (p *post) Deliver(_ context.Context, m *Message) error {
	p.mu.Lock()
	p.mail = append(p.mail, *m)
	p.mu.Unlock()
	p.came <- *m
	return nil
}

// next waits for a mail that is on its way.
func (p *post) next(t *testing.T) Message {
	t.Helper()
	select {
	case m := <-p.came:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no mail comes")
		return Message{}
	}
}

type legible struct{ drawn, spoken atomic.Int32 }

func (l *legible) Image(_ string, digits []byte) (*Media, error) {
	l.drawn.Add(1)
	return &Media{Bytes: digits}, nil
}

func (l *legible) Audio(_ string, digits []byte, _ string) (*Media, error) {
	l.spoken.Add(1)
	return &Media{Bytes: digits}, nil
}

// newPosted is a fleet that can show and send.
func newPosted(t *testing.T, s breakable, instances int) (*fleet, *post) {
	t.Helper()
	p := &post{came: make(chan Message, 4096)}
	f := &fleet{T: t}
	f.clock.Store(start)
	secrets, err := NewSecrets([][]byte{[]byte("the secret of all instances")})
	if err != nil {
		t.Fatal(err)
	}
	for range instances {
		local := keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 14, Marks: 1 << 18, Now: f.clock.Load})
		fallback := keys.NewFallback(keys.FallbackConfig{Primary: s, Local: local, Instances: instances})
		g := NewGuard(t, Config{
			Store: fallback, Records: fallback, Policy: DefaultPolicy(), Secrets: secrets, Instances: instances,
			Now: f.clock.Load, Renderer: &p.legible, Deliver: map[string]Deliverer{"default": p},
		})
		f.guards = append(f.guards, g)
	}
	return f, p
}

// asked presses at the account until it is asked for the rung.
func (f *fleet) asked(i int, a Attempt, rung Action) string {
	f.Helper()
	for range 40 {
		v := f.check(i, a)
		switch a.Proof = ""; {
		case v.Action == rung:
			return v.Challenge.Token
		case v.Action == ActionCaptcha:
			a.Proof = f.solve(v, keys.Captcha)
		case v.Action == ActionDelay:
			a.Proof = f.solve(v, keys.Verify)
		}
	}
	f.Fatalf("%s is never asked of %s", rung, a.Account)
	return ""
}

func (f *fleet) answer(i int, token, text string) *Solved {
	f.Helper()
	r, err := f.guards[i%len(f.guards)].Answer(context.Background(), &Solution{Token: token, Text: text})
	if err != nil {
		f.Errorf("answering: %v", err)
		return &Solved{}
	}
	return r
}

func (f *fleet) send(i int, token, proof string) *Sent {
	f.Helper()
	s, err := f.guards[i%len(f.guards)].Send(context.Background(), token, proof)
	if err != nil {
		f.Errorf("sending: %v", err)
		return &Sent{}
	}
	return s
}

func (f *fleet) read(i int, token string) (s string) {
	f.Helper()
	m, err := f.guards[i%len(f.guards)].Image(context.Background(), token)
	if err != nil {
		f.Fatalf("image: %v", err)
	}
	for _, d := range m.Bytes {
		s += fmt.Sprint(d)
	}
	return s
}

// TestPromiseNothingWorksTwice whoever answers where at the same moment: one
// picture is one proof, and one code is one proof in however many challenges.
func TestPromiseNothingWorksTwice(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f, p := newPosted(t, s, 3)
		race := func(what string, tokens []string, text string) {
			t.Helper()
			var right atomic.Int32
			var wg sync.WaitGroup
			for i, token := range tokens {
				wg.Go(func() {
					if f.answer(i, token, text).Proof != "" {
						right.Add(1)
					}
				})
			}
			wg.Wait()
			if right.Load() != 1 {
				t.Errorf("%s: %d proofs of %d answers, want 1", what, right.Load(), len(tokens))
			}
		}
		for n := range 8 {
			a := Attempt{Account: fmt.Sprintf("reader %d", n), IP: fmt.Sprintf("198.51.100.%d", n+1)}
			token := f.asked(n, a, ActionCaptcha)
			race("a picture", []string{token, token, token, token, token, token}, f.read(n, token))
			a = Attempt{Account: fmt.Sprintf("writer %d", n), IP: fmt.Sprintf("203.0.113.%d", n+1)}
			var tokens []string
			for i := range 6 {
				tokens = append(tokens, f.asked(i, a, ActionVerify))
			}
			f.send(n, tokens[0], "")
			race("a code", tokens, p.next(t).Code)
		}
	})
}

// TestPromiseMediaAreRenderedAFewTimes over the whole fleet, whoever fetches
// where at the same moment, and never before somebody does.
func TestPromiseMediaAreRenderedAFewTimes(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f, p := newPosted(t, s, 2)
		token := f.asked(0, Attempt{Account: "alice", IP: "192.0.2.7"}, ActionCaptcha)
		token = f.answer(1, token, "000000x").Challenge.Token
		for _, g := range f.guards {
			if _, err := g.View(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.drawn.Load() + p.spoken.Load(); n != 0 {
			t.Errorf("%d renderings, and nobody has fetched any", n)
		}
		var wg sync.WaitGroup
		for i := range 12 {
			g, lang := f.guards[i%2], Languages[i%len(Languages)]
			wg.Go(func() {
				if _, err := g.Image(t.Context(), token); err != nil && !errors.Is(err, ErrTooMany) {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if _, err := g.Audio(t.Context(), token, lang); err != nil && !errors.Is(err, ErrTooMany) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if p.drawn.Load() != 3 || p.spoken.Load() != 3 {
			t.Errorf("drawn %d times and spoken %d times, want 3 each", p.drawn.Load(), p.spoken.Load())
		}
	})
}

// TestPromiseStrangersPressSend without end, from addresses without end, and
// answer wrongly: the owner's mailbox holds, and she gets in whenever she comes.
func TestPromiseStrangersPressSend(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f, p := newPosted(t, s, 2)
		r := rand.New(rand.NewPCG(1, 2))
		const owner = "owner@example.com"
		visits, newest := 0, Message{}
		press := func(n int, token string) {
			if f.send(n, token, "").Sent {
				newest = p.next(t)
			}
		}
		for n := range 1000 {
			ip := fmt.Sprintf("198.18.%d.%d", n/250, n%250+1)
			token := f.asked(n, Attempt{Account: owner, IP: ip}, ActionVerify)
			press(n, token)
			f.answer(n, token, "0123456789")
			if n%125 == 124 {
				visits++
				me := Attempt{Account: owner, IP: "192.0.2.7"}
				mine := f.asked(n, me, ActionVerify)
				press(n, mine)
				me.Proof = f.answer(n, mine, newest.Code).Proof
				if v := f.check(n, me); !v.Proceed {
					t.Errorf("press %d: the owner, with the newest mail's code: %s, %q", n, v.Action, v.ProofError)
				}
			}
			f.pass(time.Duration(r.IntN(120)) * time.Second)
		}
		// About 17 hours: what strangers cause, and one mail for each use.
		if n := len(p.mail); n > 8+visits {
			t.Errorf("%d mails for %d visits", n, visits)
		}
	})
}

// TestPromiseACodeWithoutAStore is known at any instance, once at each, in its
// quarter of an hour and the next.
func TestPromiseACodeWithoutAStore(t *testing.T) {
	overStores(t, func(t *testing.T, s breakable) {
		f, p := newPosted(t, s, 2)
		a := Attempt{Account: "alice", IP: "192.0.2.7"}
		token := f.asked(0, a, ActionVerify)
		if !f.send(0, token, "").Sent {
			t.Fatal("nothing is sent")
		}
		before := p.next(t)
		s.gone()
		if r := f.answer(0, token, before.Code); r.Proof != "" {
			t.Error("a code that nobody can remember works")
		}
		token = f.asked(0, a, ActionVerify)
		if sent := f.send(0, token, ""); !sent.Sent || !sent.ValidUntil.After(time.UnixMicro(f.clock.Load())) {
			t.Fatalf("in the outage: %+v", sent)
		}
		m := p.next(t)
		if m.Code == before.Code || m.Only {
			t.Errorf("%+v", m)
		}
		if f.send(0, token, "").Sent {
			t.Error("the quarter's code is sent twice")
		}
		f.pass(14 * time.Minute)
		proofs := 0
		for i := range 4 {
			if r := f.answer(i, f.asked(i, a, ActionVerify), m.Code); r.Proof != "" {
				proofs++
				b := a
				b.Proof = r.Proof
				if v := f.check(i, b); !v.Proceed {
					t.Errorf("%s, %q", v.Action, v.ProofError)
				}
			} else if r.Err != ProofSpent {
				t.Errorf("answer %d: %q", i, r.Err)
			}
		}
		if proofs != 2 {
			t.Errorf("%d proofs at 2 instances, want 2", proofs)
		}
		// Whoever has used it may need another while the store is still gone.
		token = f.asked(0, a, ActionVerify)
		if !f.send(0, token, "").Sent {
			t.Fatal("a code that was used keeps the next from being sent")
		}
		second := p.next(t)
		for i := range 2 {
			if r := f.answer(i, f.asked(i, a, ActionVerify), second.Code); r.Proof == "" {
				t.Errorf("the second code at instance %d: %q", i, r.Err)
			}
		}
		f.pass(30 * time.Minute)
		for _, code := range []string{m.Code, second.Code} {
			if r := f.answer(0, f.asked(0, a, ActionVerify), code); r.Proof != "" {
				t.Error("half an hour later it still works")
			}
		}
	})
}
