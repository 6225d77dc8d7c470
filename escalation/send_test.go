package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// asked is the token of a challenge that asks the account, at an address, for a
// code.
func (w *world) asked(account, ip string) string {
	w.Helper()
	return w.at(account, ip, keys.Verify).Challenge.Token
}

func TestACodeIsSentAndLives(t *testing.T) {
	w := newMailed(t)
	token := w.asked(" Alice@EXAMPLE.com", home)
	s := w.send(token, "")
	until := micros(w.clock.Load()).Add(15 * time.Minute)
	if !s.Sent || !s.ValidUntil.Equal(until) || s.Challenge != nil {
		t.Fatalf("%+v", s)
	}
	m := w.letter()
	if m.Kind != MessageCode || m.Account != "alice@example.com" || m.Realm != "default" || m.Flow != "login" || len(m.Code) != 10 ||
		!m.ExpiresAt.Equal(until) || !m.Only || m.Hint != token[:16] || m.ID == "" || strings.Contains(m.AccountHash, "alice") {
		t.Errorf("%+v", m)
	}
	// While it lives nothing more is sent, from wherever.
	w.pass(14 * time.Minute)
	elsewhere := w.asked("alice@example.com", "203.0.113.5")
	if s := w.send(elsewhere, ""); s.Sent || !s.ValidUntil.Equal(until) || s.Challenge == nil || s.Challenge.Kind != KindCaptcha {
		t.Errorf("again: %+v", s)
	}
	// It works in any challenge of the account, and once it is used another is sent.
	if r := w.answer(Solution{Token: elsewhere, Text: m.Code}); r.Proof == "" {
		t.Fatalf("%q", r.Err)
	}
	token = w.asked("alice@example.com", home)
	if next := w.code(token); next == m.Code {
		t.Error("the same code")
	}
	// Past its life it is worth nothing.
	token = w.asked("carol", "203.0.113.6")
	code := w.code(token)
	w.pass(15 * time.Minute)
	if r := w.answer(Solution{Token: w.asked("carol", "203.0.113.6"), Text: code}); r.Err != ProofWrongAnswer {
		t.Errorf("after its life: %q", r.Err)
	}
}

// TestASenderForManyPaysWithPictures whose proofs are worth one send each.
func TestASenderForManyPaysWithPictures(t *testing.T) {
	w := newMailed(t)
	for i := range 3 {
		w.code(w.asked(fmt.Sprintf("victim %d", i), "203.0.113.9"))
	}
	token := w.asked("victim 3", "203.0.113.9")
	s := w.send(token, "")
	if s.Sent || s.Challenge == nil || s.Challenge.Kind != KindCaptcha || !s.ValidUntil.IsZero() {
		t.Fatalf("a fourth account: %+v", s)
	}
	if r := w.answer(Solution{Token: s.Challenge.Token, Text: wrong(w.read(s.Challenge.Token))}); r.Proof != "" {
		t.Fatal("a wrong picture pays")
	}
	s = w.send(token, "")
	proof := w.answer(Solution{Token: s.Challenge.Token, Text: w.read(s.Challenge.Token)}).Proof
	other := w.asked("victim 4", "203.0.113.9")
	_, err := w.g.Send(context.Background(), other, proof)
	wantFault(t, err, "proof", "wrong_account")
	for _, bad := range []string{"rubbish", token, w.waited(w.at("dave", "203.0.113.10", keys.Delay))} {
		_, err := w.g.Send(context.Background(), token, bad)
		wantFault(t, err, "proof", "invalid")
	}
	realm := w.g.live.Load().realms["default"]
	c := w.c.Secrets.openChallenge(token)
	otherFlow := *c
	otherFlow.flow = 1
	for what, p := range map[string]*proofToken{"work": w.g.prove(c, keys.Delay), "another flow's": w.g.prove(&otherFlow, keys.Captcha)} {
		if _, err := w.g.price(realm, c, w.c.Secrets.seal(forProof, p.encode())); err == nil {
			t.Errorf("%s proof pays", what)
		}
	}
	if s := w.send(token, proof); !s.Sent {
		t.Fatalf("paid for: %+v", s)
	}
	code := w.letter().Code
	// The same address is free for the accounts that it has sent for, and the
	// proof is spent.
	w.answer(Solution{Token: token, Text: code})
	if v := w.try(Attempt{Account: "victim 3", IP: "203.0.113.9", Proof: proof}); v.Proceed {
		t.Error("the proof lets a guess through, too")
	}
}

// TestASolvedPictureHasTheCodeSentAgain to an owner who lost the mail.
func TestASolvedPictureHasTheCodeSentAgain(t *testing.T) {
	w := newMailed(t)
	token := w.asked(alice, home)
	first := w.code(token)
	for i := range 4 {
		c := w.send(token, "").Challenge
		proof := w.answer(Solution{Token: c.Token, Text: w.read(c.Token)}).Proof
		s := w.send(token, proof)
		if s.Sent != (i < keys.MaxResends) {
			t.Fatalf("resend %d: %+v", i+1, s)
		}
		if s.Sent && w.letter().Code != first {
			t.Error("another code")
		}
		w.pass(time.Second)
	}
}

func TestACodeThatFailedForGoodCountsAsNotSent(t *testing.T) {
	w := newMailed(t)
	w.box.fail = fmt.Errorf("no such mailbox: %w", ErrUndeliverable)
	token := w.asked(alice, home)
	for range 12 { // more often than any mails are sent in a day
		if s := w.send(token, ""); !s.Sent {
			t.Fatalf("%+v", s)
		}
		if err := <-w.settled; !errors.Is(err, ErrUndeliverable) {
			t.Fatal(err)
		}
		w.g.queue.settle(t)
	}
	w.box.mu.Lock()
	w.box.fail = nil
	w.box.mu.Unlock()
	if r := w.answer(Solution{Token: token, Text: w.code(token)}); r.Proof == "" {
		t.Error(r.Err)
	}
}

// settle waits until every worker is idle, by having each take one more job.
func (q *queue) settle(t *testing.T) {
	t.Helper()
	gate, done := make(chan struct{}), make(chan struct{}, queueWorkers)
	for range queueWorkers {
		if !q.put("default", &letter{deliver: func(context.Context) { done <- struct{}{}; <-gate }}) {
			t.Fatal("no room")
		}
	}
	for range queueWorkers {
		<-done
	}
	close(gate)
}

// fresh is the token of a challenge of an account and address of its own.
func (w *world) fresh(i int) string {
	w.Helper()
	return w.freshAt(fmt.Sprintf("account %d", i), fmt.Sprintf("198.18.%d.%d", i/250, i%250+1))
}

func (w *world) freshAt(of, where string) string {
	w.Helper()
	realm := w.g.live.Load().realms["default"]
	account, name, err := realm.account(of)
	if err != nil {
		w.Fatal(err)
	}
	ip, _ := keys.ParseAddress(where)
	c := &challengeToken{scope: scope{"default", 0}, rung: keys.Verify, account: account, name: name, ip: ip}
	if err := w.g.refresh(c, w.clock.Load()); err != nil {
		w.Fatal(err)
	}
	return w.c.Secrets.seal(forChallenge, c.encode())
}

// TestAnEmptiedAddressCausesFewMails: whoever has used up an address and solves
// no picture causes at most 8 mails in a day for each of 3 accounts, and none
// for any other.
func TestAnEmptiedAddressCausesFewMails(t *testing.T) {
	w := newMailed(t)
	const ip = "203.0.113.9"
	for i := range 300 {
		if _, err := w.g.Check(context.Background(), &Attempt{Account: fmt.Sprint("guess ", i), IP: ip}); err != nil {
			t.Fatal(err)
		}
	}
	mails := map[int]int{}
	for range 24 * 12 { // a day, every five minutes
		for victim := range 5 {
			if s := w.send(w.asked(fmt.Sprint("victim ", victim), ip), ""); s.Sent {
				<-w.settled
				mails[victim]++
			}
		}
		w.pass(5 * time.Minute)
	}
	for victim, n := range mails {
		if n > 8 || victim > 2 {
			t.Errorf("%d mails for victim %d", n, victim)
		}
	}
	if len(mails) != 3 {
		t.Errorf("mails for %d accounts", len(mails))
	}
}

// hangs is a world whose mail server hangs until it is released.
func hangs(t *testing.T) (w *mailed, release func()) {
	w = newMailed(t)
	w.box.hold, w.box.began, w.settled = make(chan struct{}), make(chan struct{}, 3*queueLen), make(chan error, 3*queueLen)
	release = sync.OnceFunc(func() { close(w.box.hold) })
	t.Cleanup(release) // or a failure would wait for ever
	return w, release
}

// pile has as many codes sent for strangers as are taken, from places with so many
// addresses each.
func (w *mailed) pile(each int) (sent int, refused string) {
	w.Helper()
	for i := range queueLen + 3*queueWorkers {
		token := w.freshAt(fmt.Sprintf("account %d", i), fmt.Sprintf("198.%d.%d.%d", 18+i/each/250, i/each%250, i%each+1))
		s, err := w.g.Send(context.Background(), token, "")
		switch {
		case err != nil:
			w.Fatal(err)
		case s.Sent:
			sent++
		case s.Challenge == nil || s.Challenge.Kind != KindCaptcha || !s.ValidUntil.IsZero():
			w.Fatalf("%+v", s)
		default:
			refused = token
		}
	}
	return sent, refused
}

// TestDeliveriesThatHangFillABoundedQueue and hold nobody up.
func TestDeliveriesThatHangFillABoundedQueue(t *testing.T) {
	w, release := hangs(t)
	sent, refused := w.pile(1)
	if sent < queueLen || sent > queueLen+queueWorkers || refused == "" {
		t.Errorf("%d taken", sent)
	}
	release()
	for range sent {
		<-w.settled
	}
	w.code(refused) // it counted as not sent
}

// TestAQueueThatStrangersFilledHoldsUpNoOwner: from few places they give way to
// another; from more than there is room for, she reads a picture, and goes before
// them.
func TestAQueueThatStrangersFilledHoldsUpNoOwner(t *testing.T) {
	for _, each := range []int{250, 1} {
		t.Run(fmt.Sprintf("%d addresses a place", each), func(t *testing.T) {
			w, release := hangs(t)
			w.pile(each)
			token := w.freshAt(alice, home)
			s := w.send(token, "")
			if each == 1 {
				if s.Sent || s.Challenge == nil {
					t.Fatalf("%+v", s)
				}
				proof := w.answer(Solution{Token: s.Challenge.Token, Text: w.read(s.Challenge.Token)}).Proof
				s = w.send(token, proof)
			}
			if !s.Sent {
				t.Fatalf("%+v", s)
			}
			release()
			for range 4 * queueWorkers { // those at work, and a turn of each place
				<-w.settled
			}
			w.box.mu.Lock()
			defer w.box.mu.Unlock()
			for _, m := range w.box.mail {
				if m.Account == alice {
					if r := w.answer(Solution{Token: token, Text: m.Code}); r.Proof == "" {
						t.Error(r.Err)
					}
					return
				}
			}
			t.Errorf("the owner's is not among the first %d", len(w.box.mail))
		})
	}
}

// TestACodeThatIsPastIsNotDelivered: its mail has waited until another code was
// sent, and would be the newest in the mailbox with one that is dead.
func TestACodeThatIsPastIsNotDelivered(t *testing.T) {
	w, release := hangs(t)
	for i := range queueWorkers {
		w.send(w.fresh(i), "")
		<-w.box.began
	}
	w.send(w.freshAt(alice, home), "")
	w.pass(15 * time.Minute)
	// Another instance sends the next.
	other := &mailed{world: w.world, box: &inbox{}, settled: make(chan error, 1)}
	c := w.c
	c.Deliver, c.Delivered = map[string]Deliverer{"default": other.box}, func(_ *Message, err error) { other.settled <- err }
	other.world = &world{T: t, g: w.guard(c), c: c, store: w.store}
	code := other.code(w.freshAt(alice, home))
	release()
	if err := w.g.Close(t.Context()); err != nil || len(w.box.mail) != queueWorkers {
		t.Fatalf("%d mails, %v", len(w.box.mail), err)
	}
	for _, m := range w.box.mail {
		if m.Account == alice {
			t.Error("a dead code was delivered")
		}
	}
	if r := w.answer(Solution{Token: w.freshAt(alice, home), Text: code}); r.Proof == "" {
		t.Error(r.Err)
	}
}

func TestCloseDeliversWhatIsOnItsWayOrTakesItBack(t *testing.T) {
	w := newMailed(t)
	w.send(w.fresh(1), "")
	if err := w.g.Close(context.Background()); err != nil || len(w.box.mail) != 1 {
		t.Errorf("%v, %d mails", err, len(w.box.mail))
	}
	if _, err := w.g.Send(context.Background(), w.fresh(2), ""); !errors.Is(err, ErrTooMany) {
		t.Errorf("after Close: %v", err)
	}

	w = newMailed(t)
	w.box.hold = make(chan struct{})
	var tokens []string
	for i := range 3 * queueWorkers {
		tokens = append(tokens, w.fresh(i))
		w.send(tokens[i], "")
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if err := w.g.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	next := &mailed{world: w.world, box: &inbox{}, settled: make(chan error, len(tokens))}
	next.c.Deliver = map[string]Deliverer{"default": next.box}
	next.c.Delivered = func(_ *Message, err error) { next.settled <- err }
	next.g = next.guard(next.c)
	defer next.g.Close(context.Background())
	for _, token := range tokens {
		next.code(token) // none of them was delivered, so each is sent
	}
}

// TestARealmThatHangsHoldsUpNoOther and reload changes who delivers.
func TestARealmThatHangsHoldsUpNoOther(t *testing.T) {
	w := newMailed(t)
	w.c.Policy = logged(&Policy{Realms: map[string]*Realm{"default": nil, "shop": nil}})
	stuck := &inbox{hold: make(chan struct{})}
	wantFault(t, w.g.Reload(w.c.Policy, map[string]Deliverer{"default": stuck}, nil), "realms.shop.delivery", "")
	if err := w.g.Reload(w.c.Policy, map[string]Deliverer{"default": stuck, "shop": w.box}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * queueWorkers {
		w.send(w.fresh(i), "")
	}
	v := w.try(Attempt{Account: alice, IP: home, Realm: "shop"})
	for v.Proceed {
		v = w.try(Attempt{Account: alice, IP: home, Realm: "shop"})
	}
	if code := w.code(v.Challenge.Token); w.answer(Solution{Token: v.Challenge.Token, Text: code}).Proof == "" {
		t.Error("the other realm's code does not work")
	}
	close(stuck.hold)
}

// TestADeliveryThatIsPutOffHoldsUpNoOther: strangers name as many accounts as
// may wait, whose mail is put off, and the owner's goes out all the same. What
// may not wait is given up, and counts as not sent.
func TestADeliveryThatIsPutOffHoldsUpNoOther(t *testing.T) {
	w := newMailed(t)
	w.settled = make(chan error, queuePaused+8)
	w.box.putOff = func(m *Message) bool { return m.Account != alice }
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	defer w.g.Close(ended) // also of a test that fails
	end := time.Now().Add(10 * time.Second)
	for i := range queuePaused + 1 {
		token := w.fresh(i)
		for {
			s, err := w.g.Send(context.Background(), token, "")
			if err == nil && s.Sent {
				break
			}
			if err != nil || time.Now().After(end) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	select {
	case err := <-w.settled:
		if err == nil {
			t.Fatal("one was delivered")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("none was given up")
	}
	token := w.at(alice, home, keys.Verify).Challenge.Token
	if r := w.answer(Solution{Token: token, Text: w.code(token)}); r.Proof == "" {
		t.Error(r.Err)
	}
}

// TestCodesAreSpreadAndSeparate: of every letter, and of their realm, account,
// serial and kind alone.
func TestCodesAreSpreadAndSeparate(t *testing.T) {
	p := logged(&Policy{Realms: map[string]*Realm{"default": nil, "shop": nil}})
	w := newWorld(t, withPolicy(p))
	one, two := w.g.live.Load().realms["default"], w.g.live.Load().realms["shop"]
	letters, seen := map[rune]int{}, map[string]bool{}
	for serial := range int64(500) {
		for _, code := range []string{one.code(keys.Account{1}, serial), one.code(keys.Account{2}, serial), two.code(keys.Account{1}, serial), one.quarterCode(keys.Account{1}, serial, 1)} {
			if seen[code] || len(code) != codeLen || spell(strings.ToLower(code)) != code {
				t.Fatalf("%q", code)
			}
			seen[code] = true
			for _, r := range code {
				letters[r]++
			}
		}
	}
	for _, r := range crockford {
		if n := letters[r]; n < 450 || n > 800 { // of 20,000: 625
			t.Errorf("%c comes %d times", r, n)
		}
	}
	// Rotating the sealing secret changes none of them.
	c := w.c
	c.Secrets = secrets(t, "another secret, and a longer one", string(testSecret))
	for name := range p.Realms {
		p.Realms[name].Pepper = testSecret
	}
	rotated := w.guard(c).live.Load().realms["default"]
	if rotated.code(keys.Account{1}, 7) != one.code(keys.Account{1}, 7) {
		t.Error("a new sealing secret changes the codes that are in the mail")
	}
}

func TestOwnersAreTold(t *testing.T) {
	w := newMailed(t)
	told := func() (what []string) {
		w.g.queue.settle(t)
		for len(w.settled) > 0 {
			<-w.settled
		}
		w.box.mu.Lock()
		defer w.box.mu.Unlock()
		for _, m := range w.box.mail {
			if m.Kind == MessageNotice {
				what = append(what, fmt.Sprintf("%s of %s, %d more", m.Notice, m.Account, m.Suppressed))
			}
		}
		w.box.mail = nil
		return what
	}
	want := func(when string, notices ...string) {
		t.Helper()
		if got := told(); !slices.Equal(got, notices) {
			t.Errorf("%s: told of %q, want %q", when, got, notices)
		}
	}
	device := w.signIn("Alice", home, "")
	want("a first device", "new_device of alice, 0 more")
	w.signIn("alice", home, "")
	w.signIn("alice", home, "")
	want("two more within the hour")
	w.pass(time.Hour)
	w.signIn("alice", home, device)
	want("a known device")
	w.signIn("alice", home, "")
	want("an hour later", "new_device of alice, 2 more")
	w.pass(2 * time.Hour)
	if err := w.g.Revoke(context.Background(), "", "ALICE"); err != nil {
		t.Fatal(err)
	}
	want("revoked", "devices_revoked of alice, 0 more")
	for i := range keys.MaxFailures {
		v := w.let(Attempt{Account: "bob", IP: fmt.Sprintf("203.0.113.%d", i+1)})
		w.report(v.Attempt, "bob", "failure", "")
		w.pass(5 * time.Minute)
	}
	want("failures alone")
	w.signIn("bob", "203.0.113.99", "")
	want("and then a success", "success_after_failures of bob, 0 more")
	v := w.let(Attempt{Account: "carol", IP: "203.0.113.50", Flow: "signup"})
	w.report(v.Attempt, "carol", "success", "")
	want("a sign-up")

	p := login()
	p.Realms["default"].Notices = []string{NoticeRevoked}
	if err := w.g.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	w.signIn("dave", "203.0.113.60", "")
	want("what the realm does not want")
}
