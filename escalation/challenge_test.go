package escalation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// inbox is the owners' mail.
type inbox struct {
	mu   sync.Mutex
	mail []Message
	fail error
	// hold, when set, has a delivery wait for it to close, and tell began before.
	hold, began chan struct{}
	// putOff says whose messages are to be tried again later, without end.
	putOff func(*Message) bool
}

func (b *inbox) Deliver(ctx context.Context, m *Message) error {
	if b.hold != nil {
		if b.began != nil {
			b.began <- struct{}{}
		}
		select {
		case <-b.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for b.putOff != nil && b.putOff(m) {
		if err := Pause(ctx, time.Minute); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	b.mail = append(b.mail, *m)
	return nil
}

// plain is a Renderer whose pictures everybody can read.
type plain struct{}

func (plain) Image(id string, digits []byte) (*Media, error) {
	return &Media{Bytes: digits, Type: "image/plain"}, nil
}

func (plain) Audio(id string, digits []byte, lang string) (*Media, error) {
	return &Media{Bytes: append([]byte(lang), digits...), Type: "audio/plain"}, nil
}

// mailed is a world with mail. Delivered tells settled when a message is done.
type mailed struct {
	*world
	box     *inbox
	settled chan error
}

func newMailed(t *testing.T, change ...func(*Config)) *mailed {
	m := &mailed{box: &inbox{}, settled: make(chan error, 64)}
	m.world = newWorld(t, append(change, func(c *Config) {
		c.Renderer, c.Deliver = plain{}, map[string]Deliverer{}
		logged(c.Policy)
		for name := range c.Policy.Realms {
			c.Deliver[name] = m.box
		}
		c.Delivered = func(_ *Message, err error) { m.settled <- err }
	})...)
	t.Cleanup(func() { m.g.Close(context.Background()) })
	return m
}

// letter waits for the next message that was delivered.
func (m *mailed) letter() Message {
	m.Helper()
	select {
	case err := <-m.settled:
		if err != nil {
			m.Fatalf("not delivered: %v", err)
		}
	case <-time.After(10 * time.Second):
		m.Fatal("nothing is delivered")
	}
	m.box.mu.Lock()
	defer m.box.mu.Unlock()
	return m.box.mail[len(m.box.mail)-1]
}

func (m *mailed) send(token, proof string) *Sent {
	m.Helper()
	s, err := m.g.Send(context.Background(), token, proof)
	if err != nil {
		m.Fatalf("send: %v", err)
	}
	return s
}

// code has a code sent, and returns it.
func (m *mailed) code(token string) string {
	m.Helper()
	if s := m.send(token, ""); !s.Sent {
		m.Fatalf("nothing was sent: %+v", s)
	}
	return m.letter().Code
}

func (w *world) answer(s Solution) *Solved {
	w.Helper()
	r, err := w.g.Answer(context.Background(), &s)
	if err != nil {
		w.Fatalf("answer: %v", err)
	}
	if (r.Proof == "") != (r.Err != "") || (r.Proof == "") != (r.Challenge != nil) {
		w.Fatalf("%+v: either a proof, or why not and a fresh challenge", r)
	}
	return r
}

// read returns what the picture shows.
func (w *world) read(token string) string {
	w.Helper()
	m, err := w.g.Image(context.Background(), token)
	if err != nil {
		w.Fatalf("image: %v", err)
	}
	s := ""
	for _, d := range m.Bytes {
		s += itoa(int(d))
	}
	return s
}

// wrong is another answer of the same form.
func wrong(digits string) string {
	return digits[:5] + itoa(int('9' - digits[5]))[:1]
}

// TestWhatCountsAsTheRightAnswer is the score sheet of what people type.
func TestWhatCountsAsTheRightAnswer(t *testing.T) {
	spaced := func(s string) string { return " " + s[:3] + " \t" + s[3:] + "\u3000\n" }
	for name, c := range map[string]struct {
		rung  keys.Rung
		way   string
		typed func(picture, code string) string
		rest  ProofError
		as    keys.Rung
	}{
		"the digits":               {keys.Captcha, "", func(p, c string) string { return p }, "", keys.Captcha},
		"with blanks":              {keys.Captcha, "", func(p, c string) string { return spaced(p) }, "", keys.Captcha},
		"heard":                    {keys.Captcha, WayAudio, func(p, c string) string { return p }, "", keys.Captcha},
		"with a dash":              {keys.Captcha, WayImage, func(p, c string) string { return p[:3] + "-" + p[3:] }, ProofWrongAnswer, 0},
		"a digit short":            {keys.Captcha, "", func(p, c string) string { return p[:5] }, ProofWrongAnswer, 0},
		"a digit more":             {keys.Captcha, WayImage, func(p, c string) string { return p + "0" }, ProofWrongAnswer, 0},
		"another digit":            {keys.Captcha, "", func(p, c string) string { return wrong(p) }, ProofWrongAnswer, 0},
		"the code for the picture": {keys.Captcha, WayImage, func(p, c string) string { return c }, ProofWrongAnswer, 0},
		"the code at the picture":  {keys.Captcha, "", func(p, c string) string { return c }, "", keys.Verify},
		"the code":                 {keys.Verify, "", func(p, c string) string { return c }, "", keys.Verify},
		"instead of waiting":       {keys.Delay, "", func(p, c string) string { return c }, "", keys.Verify},
		"in small letters":         {keys.Verify, WayCode, func(p, c string) string { return strings.ToLower(c) }, "", keys.Verify},
		"in groups":                {keys.Verify, WayCode, func(p, c string) string { return spaced(c) }, "", keys.Verify},
		"look-alikes": {keys.Verify, WayCode, func(p, c string) string {
			return strings.NewReplacer("0", "o", "1", "l").Replace(strings.Replace(c, "1", "I", 1))
		}, "", keys.Verify},
		"a letter wrong": {keys.Verify, WayCode, func(p, c string) string { return strings.Replace(c, c[9:], "?", 1) }, ProofWrongAnswer, 0},
		"rubbish":        {keys.Delay, "", func(p, c string) string { return "open sesame" }, ProofWrongAnswer, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMailed(t)
			v := w.at(alice, home, c.rung)
			picture := ""
			if c.rung == keys.Captcha {
				picture = w.read(v.Challenge.Token)
			}
			r := w.answer(Solution{Token: v.Challenge.Token, Way: c.way, Text: c.typed(picture, w.code(v.Challenge.Token))})
			if r.Err != c.rest {
				t.Fatalf("%q, want %q", r.Err, c.rest)
			}
			if c.as == 0 {
				return
			}
			p := w.c.Secrets.openProof(r.Proof)
			if p.rung != c.as || r.ProofExpires != micros(p.expires) {
				t.Errorf("a proof of %s until %s", p.rung, r.ProofExpires)
			}
			w.let(Attempt{Account: alice, IP: home, Proof: r.Proof})
		})
	}
}

func TestAChallengeTakesOneAnswer(t *testing.T) {
	w := newMailed(t)
	v := w.at(alice, home, keys.Captcha)
	token, picture := v.Challenge.Token, w.read(v.Challenge.Token)
	r := w.answer(Solution{Token: token, Text: wrong(picture)})
	if r.Err != ProofWrongAnswer {
		t.Fatalf("%q", r.Err)
	}
	if r := w.answer(Solution{Token: token, Text: picture}); r.Err != ProofSpent {
		t.Errorf("a second answer, the right one: %q, want spent", r.Err)
	}
	// The fresh one is like it, with other digits.
	c, d := w.c.Secrets.openChallenge(token), w.c.Secrets.openChallenge(r.Challenge.Token)
	if d.id == c.id || d.digits == c.digits || d.name != c.name || d.account != c.account || d.ip != c.ip || d.scope != c.scope || d.rung != c.rung {
		t.Errorf("%+v\nand fresh\n%+v", c, d)
	}
	if r.Challenge.Kind != KindCaptcha || r.Challenge.Image != "/challenges/"+r.Challenge.Token+"/image.png" {
		t.Errorf("%+v", r.Challenge)
	}
	right := w.answer(Solution{Token: r.Challenge.Token, Text: w.read(r.Challenge.Token)})
	w.let(Attempt{Account: alice, IP: home, Proof: right.Proof})
	if r := w.answer(Solution{Token: r.Challenge.Token, Text: w.read(r.Challenge.Token)}); r.Err != ProofSpent {
		t.Errorf("the right answer again: %q, want spent", r.Err)
	}
}

// TestAWrongAnswerDoesNotLengthenTheWait nor shorten it.
func TestAWrongAnswerDoesNotLengthenTheWait(t *testing.T) {
	w := newMailed(t, withPolicy(slow()))
	v := w.at(alice, home, keys.Delay)
	w.pass(600 * time.Millisecond)
	r := w.answer(Solution{Token: v.Challenge.Token, Text: "what?"})
	if !r.Challenge.NotBefore.Equal(v.Challenge.NotBefore) || r.Challenge.Token == v.Challenge.Token {
		t.Errorf("not before %s, was %s", r.Challenge.NotBefore, v.Challenge.NotBefore)
	}
	w.pass(400 * time.Millisecond)
	w.let(Attempt{Account: alice, IP: home, Proof: r.Challenge.Token})
}

func TestAnExpiredChallengeBringsAFreshOne(t *testing.T) {
	w := newMailed(t, withPolicy(slow()))
	for _, rung := range []keys.Rung{keys.Delay, keys.Captcha, keys.Verify} {
		v := w.at("of "+rung.String(), home, rung)
		w.pass(v.Challenge.ExpiresAt.Sub(micros(w.clock.Load())))
		r := w.answer(Solution{Token: v.Challenge.Token, Text: "000000"})
		if r.Err != ProofExpired || !r.Challenge.ExpiresAt.After(micros(w.clock.Load())) || rung == keys.Delay && r.Challenge.NotBefore.Before(micros(w.clock.Load())) {
			t.Errorf("%s: %q, %+v", rung, r.Err, r.Challenge)
		}
		_, err := w.g.View(context.Background(), v.Challenge.Token)
		wantFault(t, err, "token", "expired")
		_, err = w.g.Send(context.Background(), v.Challenge.Token, "")
		wantFault(t, err, "token", "expired")
	}
}

// TestNothingWorksElsewhere: for another account, purpose or realm.
func TestNothingWorksElsewhere(t *testing.T) {
	p := logged(&Policy{Realms: map[string]*Realm{"default": nil, "shop": nil}})
	w := newMailed(t, withPolicy(p))
	v := w.at(alice, home, keys.Verify)
	code := w.code(v.Challenge.Token)
	other := w.at(bobs, "203.0.113.77", keys.Verify)
	shop := w.try(Attempt{Account: alice, IP: home, Realm: "shop"})
	for shop.Proceed {
		shop = w.try(Attempt{Account: alice, IP: home, Realm: "shop"})
	}
	for name, c := range map[string]*Challenge{"another account": other.Challenge, "another realm": shop.Challenge} {
		if r := w.answer(Solution{Token: c.Token, Text: code}); r.Err != ProofWrongAnswer {
			t.Errorf("%s: %q, want wrong_answer", name, r.Err)
		}
	}
	// In any challenge of the account, in any flow, it does: once.
	otp := w.try(Attempt{Account: alice, IP: home, Flow: "otp"})
	for otp.Proceed {
		otp = w.try(Attempt{Account: alice, IP: home, Flow: "otp"})
	}
	proof := w.answer(Solution{Token: otp.Challenge.Token, Text: code}).Proof
	w.let(Attempt{Account: alice, IP: home, Flow: "otp", Proof: proof})
	if r := w.answer(Solution{Token: v.Challenge.Token, Text: code}); r.Err != ProofWrongAnswer {
		t.Errorf("the code again: %q", r.Err)
	}
	for name, a := range map[string]Attempt{
		"another flow":    {Account: alice, IP: home, Proof: proof},
		"another account": {Account: bobs, IP: home, Flow: "otp", Proof: proof},
		"another realm":   {Account: alice, IP: home, Flow: "otp", Realm: "shop", Proof: proof},
	} {
		if v := w.try(a); v.ProofError != ProofInvalid && v.ProofError != ProofWrongAccount {
			t.Errorf("the proof for %s: %q", name, v.ProofError)
		}
	}
	for what, token := range map[string]string{"proof": proof, "attempt": w.let(Attempt{Account: "new", IP: "203.0.113.78"}).Attempt, "rubbish": "rubbish"} {
		_, err := w.g.Answer(context.Background(), &Solution{Token: token, Text: "1"})
		wantFault(t, err, "token", "invalid")
		_, err = w.g.View(context.Background(), token)
		wantFault(t, err, "token", "invalid")
		_, err = w.g.Image(context.Background(), token)
		wantFault(t, err, "token", "invalid")
		_, err = w.g.Send(context.Background(), token, "")
		wantFault(t, err, "token", "invalid")
		_, err = w.g.Pow(context.Background(), token)
		wantFault(t, err, "token", "invalid")
		_ = what
	}
	delay := w.at("carol", "203.0.113.79", keys.Delay)
	_, err := w.g.Image(context.Background(), delay.Challenge.Token)
	wantFault(t, err, "token", "invalid")
	_, err = w.g.Answer(context.Background(), &Solution{Token: delay.Challenge.Token, Way: WayImage, Text: "000000"})
	wantFault(t, err, "way", "unknown")
}

func TestMediaAreRenderedAFewTimes(t *testing.T) {
	w := newMailed(t)
	v := w.at(alice, home, keys.Captcha)
	ctx, token := context.Background(), v.Challenge.Token
	another := w.guard(w.c) // of the fleet
	for i := range maxRenderings + 2 {
		g := []*Guard{w.g, another}[i%2]
		_, err := g.Image(ctx, token)
		_, err2 := g.Audio(ctx, token, "ja")
		if want := i >= maxRenderings; errors.Is(err, ErrTooMany) != want || errors.Is(err2, ErrTooMany) != want {
			t.Errorf("rendering %d: %v, %v", i+1, err, err2)
		}
	}
	_, err := w.g.Audio(ctx, token, "tlh")
	wantFault(t, err, "lang", "unknown")
}

// TestABusyAddressIsRenderedOneAtATime and never refused: an owner may be behind
// it, whose code is sent for a picture only.
func TestABusyAddressIsRenderedOneAtATime(t *testing.T) {
	busy := &busyRenderer{release: make(chan struct{})}
	w := newMailed(t)
	w.c.Renderer = busy
	w.g = w.guard(w.c)
	ctx := context.Background()
	var tokens []string
	w.put(keys.NewSpace("default", 0).State(), keys.State{Pin: keys.Critical, PinUntil: t0 + keys.Day}.Encode())
	for i := range 2*ownPerMinute + laneLen + 1 {
		tokens = append(tokens, w.try(Attempt{Account: fmt.Sprintf("guest %d", i), IP: home}).Challenge.Token)
	}
	for i, token := range tokens[laneLen+1:] {
		if _, err := w.g.Image(ctx, token); err != nil {
			t.Fatalf("picture %d: %v", i, err)
		}
	}
	busy.hold.Store(true)
	var all sync.WaitGroup
	for _, token := range tokens[:laneLen] {
		all.Go(func() {
			if _, err := w.g.Image(ctx, token); err != nil {
				t.Error(err)
			}
		})
	}
	for w.g.lane.waiting.Load() < laneLen {
		runtime.Gosched()
	}
	if _, err := w.g.Image(ctx, tokens[laneLen]); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more than may wait: %v", err)
	}
	close(busy.release)
	all.Wait()
	if n := busy.most.Load(); n != 1 {
		t.Errorf("%d were rendered at once", n)
	}
	if _, err := w.g.Image(ctx, w.try(Attempt{Account: "dave", IP: "203.0.113.4"}).Challenge.Token); err != nil {
		t.Errorf("another address: %v", err)
	}
}

// busyRenderer counts how many render at once, and holds them.
type busyRenderer struct {
	now, most atomic.Int64
	hold      atomic.Bool
	release   chan struct{}
}

func (b *busyRenderer) Image(string, []byte) (*Media, error) {
	n := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	if b.hold.Load() {
		<-b.release
	}
	return &Media{}, nil
}

func (b *busyRenderer) Audio(id string, digits []byte, _ string) (*Media, error) {
	return b.Image(id, digits)
}

func TestAViewShowsTheChallenge(t *testing.T) {
	p := login()
	p.Realms["default"].ReturnOrigins = []string{"https://app.example.com"}
	w := newMailed(t, withPolicy(p), func(c *Config) { c.PublicURL = "https://login.example.com" })
	for rung, ways := range map[keys.Rung][]string{
		keys.Delay: {"wait", "code", "pow"}, keys.Captcha: {"image", "audio", "code"}, keys.Verify: {"code"},
	} {
		a := Attempt{Account: "for " + rung.String(), IP: "198.51.100." + itoa(int(rung)), ReturnURL: "https://app.example.com/in"}
		w.at(a.Account, a.IP, rung)
		c := w.try(a).Challenge
		v, err := w.g.View(context.Background(), c.Token)
		if err != nil {
			t.Fatal(err)
		}
		if v.Kind != kinds[rung] || v.Kind != c.Kind || !slices.Equal(v.Kinds, ways) || !slices.Equal(c.Kinds, ways) || v.ReturnURL != a.ReturnURL ||
			v.Realm != "default" || v.Flow != "login" || !v.ExpiresAt.Equal(c.ExpiresAt) || !v.NotBefore.Equal(c.NotBefore) || (v.Wait > 0) != (rung == keys.Delay) {
			t.Errorf("%s: %+v of %+v", rung, v, c)
		}
		if c.Page != "https://login.example.com/challenges/"+c.Token || (c.Image != "") != (rung == keys.Captcha) {
			t.Errorf("%s: at %s and %s", rung, c.Page, c.Image)
		}
		if rung == keys.Captcha {
			if r := w.answer(Solution{Token: c.Token, Text: w.read(c.Token)}); r.ReturnURL != a.ReturnURL {
				t.Errorf("returns to %q", r.ReturnURL)
			}
		}
	}
}

func TestAnAnswerMayComeWithTheAttempt(t *testing.T) {
	w := newMailed(t)
	ask := func(challenge, answer string) Attempt {
		return Attempt{Account: alice, IP: home, Challenge: challenge, Answer: answer}
	}
	v := w.at(alice, home, keys.Captcha)
	first := w.read(v.Challenge.Token)
	if v := w.try(Attempt{Account: bobs, IP: home, Challenge: v.Challenge.Token, Answer: first}); v.ProofError != ProofWrongAccount {
		t.Errorf("another's: %q", v.ProofError)
	}
	x := w.try(ask(v.Challenge.Token, wrong(first)))
	if x.Proceed || x.ProofError != ProofWrongAnswer || x.Challenge == nil || x.Challenge.Token == v.Challenge.Token {
		t.Fatalf("a wrong one: %s, %q", x.Action, x.ProofError)
	}
	if x := w.try(ask(v.Challenge.Token, first)); x.Proceed || x.ProofError != ProofSpent {
		t.Errorf("a second answer: %s, %q", x.Action, x.ProofError)
	}
	if x := w.try(ask("rubbish", "fish")); x.ProofError != ProofInvalid {
		t.Errorf("rubbish: %q", x.ProofError)
	}
	if v := w.let(ask(x.Challenge.Token, w.read(x.Challenge.Token))); v.Proof != "" {
		t.Error("a picture's proof is returned although it is spent")
	}
	v = w.at(alice, home, keys.Verify)
	v = w.let(ask(v.Challenge.Token, w.code(v.Challenge.Token)))
	for range 4 {
		w.let(Attempt{Account: alice, IP: home, Proof: v.Proof})
	}
	if v := w.try(Attempt{Account: alice, IP: home, Proof: v.Proof}); v.ProofError != ProofSpent {
		t.Errorf("a sixth guess: %q", v.ProofError)
	}
}

// TestABusyAddressReadsTwoPictures where one was enough, and is never refused: an
// owner may be behind it, whose code is sent for a picture only.
func TestABusyAddressReadsTwoPictures(t *testing.T) {
	w := newMailed(t)
	v := w.at(alice, home, keys.Captcha)
	code, token := w.code(v.Challenge.Token), v.Challenge.Token
	for range ownPerMinute {
		digits := digitsText(w.c.Secrets.openChallenge(token).digits)
		token = w.answer(Solution{Token: token, Text: wrong(digits)}).Challenge.Token
	}
	read := func(token string) string { return digitsText(w.c.Secrets.openChallenge(token).digits) }
	r := w.answer(Solution{Token: token, Text: read(token)})
	if r.Err != ProofInsufficient || r.Proof != "" {
		t.Fatalf("one picture: %+v", r)
	}
	r = w.answer(Solution{Token: r.Challenge.Token, Text: wrong(read(r.Challenge.Token))})
	if r = w.answer(Solution{Token: r.Challenge.Token, Text: read(r.Challenge.Token)}); r.Err != ProofInsufficient {
		t.Fatalf("one picture after a wrong second: %q", r.Err)
	}
	if r = w.answer(Solution{Token: r.Challenge.Token, Text: read(r.Challenge.Token)}); r.Proof == "" {
		t.Errorf("two pictures: %q", r.Err)
	}
	// The same in a form, where challenge and answer come with the attempt.
	v = w.try(Attempt{Account: alice, IP: home})
	if v = w.try(Attempt{Account: alice, IP: home, Challenge: v.Challenge.Token, Answer: read(v.Challenge.Token)}); v.Proceed || v.ProofError != ProofInsufficient {
		t.Fatalf("one picture in a form: %s, %q", v.Action, v.ProofError)
	}
	w.let(Attempt{Account: alice, IP: home, Challenge: v.Challenge.Token, Answer: read(v.Challenge.Token)})
	token = w.try(Attempt{Account: alice, IP: home}).Challenge.Token
	if r := w.answer(Solution{Token: token, Text: code}); r.Err != "" {
		t.Errorf("a code: %q", r.Err)
	}
}

// TestARepeatOfARightAnswerIsNoError: its reply was lost on the way.
func TestARepeatOfARightAnswerIsNoError(t *testing.T) {
	w := newMailed(t)
	v := w.at(alice, home, keys.Captcha)
	a := Attempt{Account: alice, IP: home, RequestID: "r", Challenge: v.Challenge.Token, Answer: w.read(v.Challenge.Token)}
	first, again := w.let(a), w.let(a)
	if again.Attempt != first.Attempt || !again.Replayed || again.ProofError != "" {
		t.Errorf("%+v", again)
	}
}
