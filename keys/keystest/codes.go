package keystest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/guardd/guardd/keys"
)

// codeSubject is a Subject whose codes are looked at one microsecond and one
// account at a time.
type codeSubject struct {
	Subject
	t     *testing.T
	names keys.Space
	now   int64
	slow  bool // deliveries are not confirmed
	mu    sync.Mutex
}

func (s *codeSubject) mark(seen []bool, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen[n] = true
}

// codes holds what open returns to the contracts of keys.Tallies and keys.Codes.
func codes(t *testing.T, open func(t *testing.T) Subject) {
	run := func(b codeBehaviour, s Subject) func(t *testing.T) {
		return func(t *testing.T) {
			b.run(&codeSubject{Subject: s, t: t, names: keys.NewSpace("codes-"+unique(), 0), now: day0})
		}
	}
	for _, b := range tallyBehaviours {
		t.Run("tallies: "+b.name, run(b, open(t)))
	}
	for _, b := range codeBehaviours {
		s := open(t)
		if _, none := s.(Codeless); !none {
			t.Run("codes: "+b.name, run(b, s))
		}
	}
}

type codeBehaviour struct {
	name string
	run  func(s *codeSubject)
}

const minute = 60 * keys.Second

func (s *codeSubject) ask(account byte, from string) *keys.CodeAsk {
	a := keys.Account{account}
	return &keys.CodeAsk{Now: s.now, Key: s.names.Code(a), SenderKey: s.names.Sender(address(from)), Account: a}
}

func address(text string) keys.Address {
	a, err := keys.ParseAddress(text)
	if err != nil {
		panic(err)
	}
	return a
}

func (s *codeSubject) send(a *keys.CodeAsk) (ans keys.CodeAnswer) {
	s.t.Helper()
	if err := s.SendCode(s.t.Context(), a, &ans); err != nil {
		s.t.Fatal(err)
	}
	if !s.slow && ans.State >= keys.CodeSent {
		s.confirm(a, ans.Code.Serial)
	}
	return ans
}

func (s *codeSubject) confirm(a *keys.CodeAsk, serial int64) {
	s.t.Helper()
	if err := s.ConfirmCode(s.t.Context(), a.Key, serial, s.now); err != nil {
		s.t.Fatal(err)
	}
}

func (s *codeSubject) wants(what string, a *keys.CodeAsk, state keys.CodeState, proof keys.ProofState) keys.Code {
	s.t.Helper()
	ans := s.send(a)
	if ans.State != state || ans.Proof != proof || ans.Now != s.now || ans.Degraded {
		s.t.Errorf("%s: %s, proof %d, at %d, degraded %v; not %s, proof %d", what, ans.State, ans.Proof, ans.Now-s.now, ans.Degraded, state, proof)
	}
	return ans.Code
}

func (s *codeSubject) lives(what string, want keys.Code) {
	s.t.Helper()
	if got, err := s.LiveCode(s.t.Context(), s.names.Code(keys.Account{1}), s.now); err != nil || got != want {
		s.t.Errorf("%s: %+v lives (%v), not %+v", what, got, err, want)
	}
}

func (s *codeSubject) spends(what string, serial int64, want bool) {
	s.t.Helper()
	if got, err := s.SpendCode(s.t.Context(), s.names.Code(keys.Account{1}), serial, s.now); err != nil || got != want {
		s.t.Errorf("%s: spending says %v (%v)", what, got, err)
	}
}

func (s *codeSubject) unsend(serial int64) {
	s.t.Helper()
	if err := s.UnsendCode(s.t.Context(), s.names.Code(keys.Account{1}), serial, s.now); err != nil {
		s.t.Fatal(err)
	}
}

// image is a solved image that no store has seen.
func (s *codeSubject) image(id string) keys.Proof {
	return keys.Proof{Key: s.names.Proof(id), Rung: keys.Captcha, Issued: s.now, Expires: s.now + 5*minute, Uses: 1}
}

const day0 = 1_800_000_000 * keys.Second

var codeBehaviours = []codeBehaviour{
	{"each code within 24 hours lives longer, and a press while it does sends nothing", func(s *codeSubject) {
		last := int64(0)
		for i, minutes := range []int64{15, 30, 60, 120, 240, 480, 720, 15} {
			if i == 7 {
				s.now = day0 + keys.Day + 945*minute // the seventh is a day old, and so are all others
			}
			c := s.wants("none lives", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
			if c.Serial <= last || c.Sent != s.now || c.Until != s.now+minutes*minute || c.Nth != i%7+1 {
				s.t.Errorf("code %d is %+v, %d minutes long", i+1, c, (c.Until-s.now)/minute)
			}
			last = c.Serial
			s.lives("at once", c)
			s.now = c.Until - 1
			s.lives("to its last microsecond", c)
			if got := s.wants("one lives", s.ask(1, "192.0.2.2"), keys.CodeLives, keys.ProofNone); got != c {
				s.t.Errorf("a press is told of %+v, not %+v", got, c)
			}
			s.now++
			s.lives("when its time is over", keys.Code{})
		}
	}},
	{"the 24 hours slide", func(s *codeSubject) {
		s.wants("first", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		s.now += 23 * 60 * minute
		s.wants("second", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		s.now += 61 * minute
		if c := s.wants("third", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone); c.Nth != 2 {
			s.t.Errorf("a day after the first mail, an hour after the second: %+v", c)
		}
	}},
	{"a code is spent once, and the next is another", func(s *codeSubject) {
		first := s.wants("", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		s.spends("another's serial", first.Serial+1, false)
		s.spends("the live one", first.Serial, true)
		s.spends("again", first.Serial, false)
		s.lives("after", keys.Code{})
		second := s.wants("in the same microsecond", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		if second.Serial <= first.Serial || second.Nth != 2 {
			s.t.Errorf("%+v comes after %+v", second, first)
		}
		s.spends("the one before", first.Serial, false)
		s.now = second.Until
		s.spends("when its time is over", second.Serial, false)
	}},
	{"what was not delivered counts as not sent", func(s *codeSubject) {
		s.slow = true
		first := s.wants("", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		s.unsend(first.Serial + 1)
		s.lives("another was not delivered", first)
		s.unsend(first.Serial)
		s.lives("undelivered", keys.Code{})
		second := s.wants("", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		if second.Nth != 1 || second.Serial <= first.Serial {
			s.t.Errorf("%+v comes after an undelivered %+v", second, first)
		}
		s.spends("the newest", second.Serial, true)
		s.unsend(second.Serial)
		if c := s.wants("", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone); c.Nth != 2 {
			s.t.Errorf("a spent code was not delivered: %+v", c)
		}
	}},
	{"until its delivery is confirmed an image has a code sent again, or a press a quarter of an hour later", func(s *codeSubject) {
		s.slow = true
		var c keys.Code
		for range 5 { // the fifth lives for 4 hours
			if c.Serial > 0 {
				s.spends("the last", c.Serial, true)
			}
			c = s.wants("none lives", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		}
		same := func(what string, a *keys.CodeAsk, state keys.CodeState, proof keys.ProofState) {
			s.t.Helper()
			if got := s.wants(what, a, state, proof); got != c {
				s.t.Errorf("%s: %+v, not %+v", what, got, c)
			}
		}
		for i := range 2 * keys.MaxResends {
			a := s.ask(1, "192.0.2.1")
			a.Proof = s.image(fmt.Sprint(i))
			same("an image", a, keys.CodeAgain, keys.ProofUsed)
			s.now += minute
		}
		s.now += 14*minute - 1
		same("a quarter of an hour after the last try, less a microsecond", s.ask(1, "192.0.2.1"), keys.CodeLives, keys.ProofNone)
		s.now++
		same("a quarter of an hour after the last try", s.ask(1, "192.0.2.2"), keys.CodeAgain, keys.ProofNone)
		same("at once after it", s.ask(1, "192.0.2.1"), keys.CodeLives, keys.ProofNone)
		s.now -= 16 * minute
		same("by a clock that stepped back", s.ask(1, "192.0.2.1"), keys.CodeAgain, keys.ProofNone)
		s.now += 15 * minute
		s.confirm(s.ask(1, "192.0.2.1"), c.Serial-1)
		same("another was confirmed", s.ask(1, "192.0.2.1"), keys.CodeAgain, keys.ProofNone)
		s.confirm(s.ask(1, "192.0.2.1"), c.Serial)
		s.unsend(c.Serial) // of the first try, late
		s.now += 30 * minute
		same("confirmed", s.ask(1, "192.0.2.1"), keys.CodeLives, keys.ProofNone)
		for i := range keys.MaxResends + 1 {
			a, want, proof := s.ask(1, "192.0.2.1"), keys.CodeAgain, keys.ProofUsed
			if a.Proof = s.image(fmt.Sprint("more", i)); i == keys.MaxResends {
				want, proof = keys.CodeLives, keys.ProofNone
			}
			same("an image for what is confirmed", a, want, proof)
		}
		s.spends("it", c.Serial, true)
		s.confirm(s.ask(1, "192.0.2.1"), c.Serial)
		s.lives("spent, and confirmed late", keys.Code{})
		if next := s.wants("none lives", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone); next.Nth != 6 {
			s.t.Errorf("%+v: what is sent again counts as another", next)
		}
	}},
	{"a press that has a code sent again counts as its sender's", func(s *codeSubject) {
		s.slow = true
		for i := byte(1); i <= 4; i++ {
			from := fmt.Sprint("192.0.2.", 10+i)
			if _, err := s.SpendCode(s.t.Context(), s.names.Code(keys.Account{i}), s.send(s.ask(i, from)).Code.Serial, s.now); err != nil {
				s.t.Fatal(err)
			}
			s.send(s.ask(i, from)) // half an hour long
		}
		s.now += 16 * minute
		for i := byte(2); i <= 4; i++ {
			s.wants("three", s.ask(i, "192.0.2.1"), keys.CodeAgain, keys.ProofNone)
		}
		s.now += 10 * minute
		s.wants("a fourth", s.ask(1, "192.0.2.1"), keys.CodePriced, keys.ProofNone)
	}},
	{"an image has the live code sent again, three times a day", func(s *codeSubject) {
		a := s.ask(1, "192.0.2.1")
		a.Proof = s.image("none")
		c := s.wants("not needed", a, keys.CodeSent, keys.ProofNone)
		for i := range 5 {
			a := s.ask(1, "192.0.2.1")
			a.Proof = s.image(fmt.Sprint(i))
			state, proof, second := keys.CodeAgain, keys.ProofUsed, keys.ProofSpent
			if i >= 3 {
				state, proof, second = keys.CodeLives, keys.ProofNone, keys.ProofNone
			}
			if got := s.wants(fmt.Sprint("image ", i), a, state, proof); got != c {
				s.t.Errorf("%+v was sent again, not %+v", got, c)
			}
			s.wants("the same image", a, keys.CodeLives, second)
		}
		for minutes := int64(0); minutes < 24*60; minutes += 24*60 - 16 { // to the end of the day of images
			s.now += minutes * minute
			c = s.send(s.ask(1, "192.0.2.1")).Code
			a := s.ask(1, "192.0.2.1")
			a.Proof = s.image(fmt.Sprint("late", minutes))
			if got := s.wants("within a day", a, keys.CodeLives, keys.ProofNone); got != c {
				s.t.Errorf("%+v lives, not %+v", got, c)
			}
		}
		s.now = day0 + keys.Day
		s.send(s.ask(1, "192.0.2.1"))
		a = s.ask(1, "192.0.2.1")
		a.Proof = s.image("tomorrow")
		s.wants("a day later", a, keys.CodeAgain, keys.ProofUsed)
	}},
	{"a sender for a fourth account pays with an image", func(s *codeSubject) {
		for i := byte(1); i <= 3; i++ {
			s.wants("three", s.ask(i, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
			s.now += minute
		}
		if c := s.wants("a fourth", s.ask(4, "192.0.2.1"), keys.CodePriced, keys.ProofNone); c != (keys.Code{}) {
			s.t.Errorf("a sender who has not paid learns of %+v", c)
		}
		s.wants("one of the three", s.ask(2, "192.0.2.1"), keys.CodeLives, keys.ProofNone)
		s.wants("a fourth from elsewhere", s.ask(4, "192.0.2.9"), keys.CodeSent, keys.ProofNone)
		s.wants("a fourth whose code lives", s.ask(4, "192.0.2.1"), keys.CodePriced, keys.ProofNone)
		a := s.ask(5, "192.0.2.1")
		a.Proof = s.image("fifth")
		s.wants("a fifth, paid", a, keys.CodeSent, keys.ProofUsed)
		s.wants("the paid one", s.ask(5, "192.0.2.9"), keys.CodeLives, keys.ProofNone)
		b := s.ask(6, "192.0.2.1")
		b.Proof = a.Proof
		s.wants("the image again", b, keys.CodePriced, keys.ProofSpent)
		s.now += keys.Day - 3*minute - 1 // the first account's mail was a day ago, less a microsecond
		s.wants("a seventh", s.ask(7, "192.0.2.1"), keys.CodePriced, keys.ProofNone)
		s.now++
		s.wants("a day later", s.ask(7, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		s.wants("the next", s.ask(8, "192.0.2.1"), keys.CodePriced, keys.ProofNone)
	}},
	{"a sender who must pay pays for nothing that is not sent", func(s *codeSubject) {
		for i := byte(1); i <= 3; i++ {
			s.send(s.ask(i, "192.0.2.1"))
		}
		c := s.send(s.ask(4, "192.0.2.9")).Code
		for i, want := range []keys.CodeState{keys.CodeAgain, keys.CodeAgain, keys.CodeAgain, keys.CodeLives} {
			a := s.ask(4, "192.0.2.1")
			a.Proof = s.image(fmt.Sprint(i))
			proof := keys.ProofUsed
			if want == keys.CodeLives {
				proof = keys.ProofNone
			}
			if got := s.wants(fmt.Sprint("image ", i), a, want, proof); got != c {
				s.t.Errorf("%+v, but %+v lives", got, c)
			}
		}
	}},
	{"a proof of two uses pays twice", func(s *codeSubject) {
		s.send(s.ask(1, "192.0.2.1"))
		a := s.ask(1, "192.0.2.1")
		a.Proof = s.image("p")
		a.Proof.Uses = 2
		s.wants("once", a, keys.CodeAgain, keys.ProofUsed)
		s.wants("twice", a, keys.CodeAgain, keys.ProofUsed)
		s.wants("three times", a, keys.CodeLives, keys.ProofSpent)
	}},
	{"an owner who uses up code after code gets the next", func(s *codeSubject) {
		for i := range 40 {
			c := s.wants("the last is spent", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
			if c.Nth != min(i+1, 16) || c.Until != s.now+keys.CodeLife(i+1) {
				s.t.Errorf("code %d is %+v", i+1, c)
			}
			s.spends("the newest", c.Serial, true)
			s.now += minute
		}
	}},
	{"a later mail to an account keeps its sender's memory of it", func(s *codeSubject) {
		for i := byte(1); i <= 3; i++ {
			s.send(s.ask(i, "192.0.2.1"))
		}
		s.now += 23 * 60 * minute
		for i := byte(1); i <= 3; i++ {
			s.wants("again", s.ask(i, "192.0.2.1"), keys.CodeSent, keys.ProofNone)
		}
		s.now += 2 * 60 * minute
		s.wants("a fourth", s.ask(4, "192.0.2.1"), keys.CodePriced, keys.ProofNone)
	}},
	{"a proof that is not good pays for nothing", func(s *codeSubject) {
		for i := byte(1); i <= 3; i++ {
			s.send(s.ask(i, "192.0.2.1"))
		}
		revoked := s.names.Revoked(keys.Account{4})
		if _, err := s.Revoke(s.t.Context(), revoked, s.now, keys.Day); err != nil {
			s.t.Fatal(err)
		}
		s.now += minute
		for _, x := range []struct {
			name string
			bend func(*keys.Proof)
			want keys.ProofState
		}{
			{"issued before the revocation", func(p *keys.Proof) { p.Issued = s.now - minute }, keys.ProofInvalid},
			{"expired", func(p *keys.Proof) { p.Expires = s.now }, keys.ProofExpired},
			{"too early", func(p *keys.Proof) { p.NotBefore = s.now + 1 }, keys.ProofTooEarly},
			{"a wait", func(p *keys.Proof) { p.Rung = keys.Delay }, keys.ProofInsufficient},
		} {
			a := s.ask(4, "192.0.2.1")
			a.RevokedKey, a.Proof = revoked, s.image("p")
			x.bend(&a.Proof)
			s.wants(x.name, a, keys.CodePriced, x.want)
		}
		a := s.ask(4, "192.0.2.1")
		a.RevokedKey, a.Proof = revoked, s.image("p")
		s.wants("good", a, keys.CodeSent, keys.ProofUsed)
	}},
	{"an image that let a guess through has a code sent for nothing", func(s *codeSubject) {
		r := simple(s.t, 1, keys.Steps{Delay: keys.Never, Captcha: keys.Empty, Verify: keys.Never})
		a, ans := simpleAsk(r, s.names), keys.Answer{}
		a.Now = s.now
		for range 2 {
			a.Proof = s.image("p")
			if err := s.Take(s.t.Context(), &a, &ans); err != nil || !ans.Let {
				s.t.Fatal(ans, err)
			}
		}
		if ans.Proof != keys.ProofUsed {
			s.t.Fatalf("the guess was let through by %d", ans.Proof)
		}
		s.send(s.ask(1, "192.0.2.1"))
		c := s.ask(1, "192.0.2.1")
		c.Proof = a.Proof
		s.wants("used", c, keys.CodeLives, keys.ProofSpent)
	}},
	{"a clock that steps back kills no code; one that was far ahead keeps nobody out", func(s *codeSubject) {
		c := s.send(s.ask(1, "192.0.2.1")).Code
		s.now -= minute
		s.lives("a minute back", c)
		s.wants("a minute back", s.ask(1, "192.0.2.1"), keys.CodeLives, keys.ProofNone)
		s.now = c.Sent - keys.Day - 1
		s.lives("of a broken clock", keys.Code{})
		if c := s.wants("of a broken clock", s.ask(1, "192.0.2.1"), keys.CodeSent, keys.ProofNone); c.Serial != s.now || c.Nth != 1 {
			s.t.Errorf("%+v", c)
		}
	}},
	{"after its deadline a send does nothing", func(s *codeSubject) {
		if _, never := s.Subject.(NeverLater); never {
			s.t.Skip("the subject answers whatever the deadline says")
		}
		a, ans := s.ask(1, "192.0.2.1"), keys.CodeAnswer{}
		a.Deadline = s.now - 1
		if err := s.SendCode(s.t.Context(), a, &ans); !errors.Is(err, keys.ErrLate) {
			s.t.Errorf("%v", err)
		}
		s.lives("after", keys.Code{})
		a.Deadline = s.now
		s.wants("in time", a, keys.CodeSent, keys.ProofNone)
	}},
	{"what makes no sense is refused", func(s *codeSubject) {
		for name, bend := range map[string]func(*keys.CodeAsk){
			"no key": func(a *keys.CodeAsk) { a.Key = "" }, "no sender": func(a *keys.CodeAsk) { a.SenderKey = "" },
			"a negative time": func(a *keys.CodeAsk) { a.Now = -1 }, "a proof without a mark": func(a *keys.CodeAsk) { a.Proof.Uses = 1 },
			"a proof without uses": func(a *keys.CodeAsk) { a.Proof.Key = "p" },
		} {
			a, ans := s.ask(1, "192.0.2.1"), keys.CodeAnswer{}
			bend(a)
			if err := s.SendCode(s.t.Context(), a, &ans); !errors.Is(err, keys.ErrAsk) {
				s.t.Errorf("%s: %v", name, err)
			}
		}
		ctx := s.t.Context()
		_, live := s.LiveCode(ctx, "", 0)
		_, spend := s.SpendCode(ctx, "k", -1, 0)
		unsend, confirm := s.UnsendCode(ctx, "k", 1, -1), s.ConfirmCode(ctx, "k", 1, -1)
		_, _, window := s.Tally(ctx, "k", 0, 0)
		_, _, key := s.Tally(ctx, "", 0, 1)
		for name, err := range map[string]error{"live": live, "spend": spend, "unsend": unsend, "confirm": confirm, "window": window, "key": key} {
			if !errors.Is(err, keys.ErrAsk) {
				s.t.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"50 parallel presses send one mail, and 50 answers spend it once", func(s *codeSubject) {
		s.now = 0 // the store's clock
		sent := together(s.t, 50, func(i int) (bool, error) {
			var ans keys.CodeAnswer
			err := s.SendCode(s.t.Context(), s.ask(1, fmt.Sprint("192.0.2.", i)), &ans)
			return ans.State == keys.CodeSent, err
		})
		c, err := s.LiveCode(s.t.Context(), s.names.Code(keys.Account{1}), 0)
		if err != nil || c.Sent < day0/2 {
			s.t.Fatalf("%+v lives (%v)", c, err)
		}
		spent := together(s.t, 50, func(int) (bool, error) {
			return s.SpendCode(s.t.Context(), s.names.Code(keys.Account{1}), c.Serial, 0)
		})
		if sent != 1 || spent != 1 {
			s.t.Errorf("%d mails, spent %d times", sent, spent)
		}
	}},
}

var tallyBehaviours = []codeBehaviour{
	{"a window begins with its first event", func(s *codeSubject) {
		s.tallies(
			step{0, 1, 0}, step{50, 2, 0}, step{99, 3, 0},
			step{100, 1, 3}, step{150, 2, 3}, // the next begins where the first ended
			step{299, 1, 2}, // 99 after the second had ended
			step{499, 1, 0}, // 100 after the third had
		)
	}},
	{"a clock that steps back begins no window", func(s *codeSubject) {
		s.tallies(step{0, 1, 0}, step{-100, 2, 0}, step{-101, 1, 0})
	}},
	{"50 parallel events have each a number", func(s *codeSubject) {
		seen := make([]bool, 51)
		first := together(s.t, 50, func(int) (bool, error) {
			n, _, err := s.Tally(s.t.Context(), s.names.Tally("x", "1"), 0, keys.Day)
			if err == nil && n <= 50 {
				s.mark(seen, n)
			}
			return n == 1, err
		})
		for n := 1; n <= 50; n++ {
			if !seen[n] {
				s.t.Errorf("no event is number %d", n)
			}
		}
		if first != 1 {
			s.t.Errorf("%d events are the first", first)
		}
	}},
	{"kinds and ids are counted apart", func(s *codeSubject) {
		for _, key := range []string{s.names.Tally("a", "1"), s.names.Tally("a", "2"), s.names.Tally("b", "1")} {
			if n, _, err := s.Tally(s.t.Context(), key, s.now, 100); err != nil || n != 1 {
				s.t.Errorf("%s: %d (%v)", key, n, err)
			}
		}
	}},
}

// step is an event some microseconds after the start, and what it must answer.
type step struct{ at, n, before int64 }

func (s *codeSubject) tallies(steps ...step) {
	s.t.Helper()
	for _, x := range steps {
		n, before, err := s.Tally(s.t.Context(), s.names.Tally("x", "1"), s.now+x.at, 100)
		if err != nil || n != x.n || before != x.before {
			s.t.Errorf("at %d: event %d after %d (%v), not %d after %d", x.at, n, before, err, x.n, x.before)
		}
	}
}

// CodeWalk lets any number of subjects decide the same random presses, uses and
// returns at times that now and then step back, and holds them equal. The first
// is the one that the others are held to.
func CodeWalk(t *testing.T, seeds, steps int, subjects ...Named) {
	for seed := range uint64(seeds * soak(t)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			names := keys.NewSpace("codes-"+unique(), 0)
			now := day0
			serials := []int64{1}
			for i := range steps {
				now += []int64{0, 1, minute, 15 * minute, 61 * minute, 7 * 60 * minute, keys.Day, -minute, -keys.Day - minute}[min(r.IntN(30), 8)*r.IntN(2)]
				a := keys.Account{byte(r.IntN(5))}
				ask := keys.CodeAsk{Now: now, Key: names.Code(a), SenderKey: names.Sender(address(fmt.Sprint("192.0.2.", r.IntN(3)))), Account: a}
				if r.IntN(3) == 0 {
					ask.Proof = keys.Proof{Key: names.Proof(fmt.Sprint(r.IntN(40))), Rung: keys.Rung(r.IntN(4)), Issued: now - 1,
						Expires: now + int64(r.IntN(3)), NotBefore: now + int64(r.IntN(3)) - 1, Uses: int64(1 + r.IntN(2))}
				}
				serial := serials[len(serials)-1-r.IntN(min(len(serials), 6))]
				deed := r.IntN(10)
				var want string
				for j, s := range subjects {
					var ans keys.CodeAnswer
					var got string
					switch deed {
					case 0:
						spent, err := s.Subject.SpendCode(t.Context(), ask.Key, serial, now)
						got = fmt.Sprintln("spend", spent, err)
					case 1:
						got = fmt.Sprintln("unsend", s.Subject.UnsendCode(t.Context(), ask.Key, serial, now))
					case 3, 4:
						got = fmt.Sprintln("confirm", s.Subject.ConfirmCode(t.Context(), ask.Key, serial, now))
					case 2:
						n, before, err := s.Subject.Tally(t.Context(), names.Tally("x", a.String()), now, 60*minute)
						got = fmt.Sprintln("tally", n, before, err)
					default:
						err := s.Subject.SendCode(t.Context(), &ask, &ans)
						got = fmt.Sprintf("send %+v %v", ans, err)
					}
					live, err := s.Subject.LiveCode(t.Context(), ask.Key, now)
					got += fmt.Sprintf(" then %+v %v", live, err)
					if j == 0 {
						want = got
						if ans.State == keys.CodeSent {
							serials = append(serials, ans.Code.Serial)
						}
					} else if got != want {
						t.Fatalf("step %d: %s says\n%s\nand %s\n%s", i, subjects[0].Name, want, s.Name, got)
					}
				}
			}
		})
	}
}
