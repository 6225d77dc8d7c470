package escalation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

// This file is what the adversary of TestPromiseNoLockoutOverHistories can do.
// He sees everything but the owner's secrets (password, mailbox, the browser
// that is known), is at every address, solves every picture, has accounts,
// mailboxes and device tokens of his own, and takes the store away.

const (
	owner = "owner@example.com"
	home  = "2001:db8:7::1"
)

// places are addresses by number; 0 is the owner's own, 1 is next door.
func placeOf(n int) string {
	switch n {
	case 0:
		return home
	case 1:
		return "2001:db8:7:1::1"
	}
	return fmt.Sprintf("198.51.100.%d", n)
}

const places = 8

// move is one thing that happens, drawn before anything does, so that a history
// that fails is a list that can be read.
type move struct {
	kind  string
	place int
	n     int
	solve bool
	wait  time.Duration
	fault keystest.Fault
	at    int // instance
}

var faultWords = map[keystest.Fault]string{keystest.Healthy: "works", keystest.NotDone: "is gone",
	keystest.ReplyLost: "does as it is told, but its replies are lost", keystest.TooLate: "is always late"}

func (m move) String() string {
	s := m.kind
	for from, to := range map[string]string{"$place": placeOf(m.place), "$n": fmt.Sprint(m.n), "$wait": m.wait.String(),
		"$at": fmt.Sprint(m.at), "$store": faultWords[m.fault]} {
		s = strings.ReplaceAll(s, from, to)
	}
	if m.solve {
		s += ", solving pictures"
	}
	return s
}

// The kinds of moves, as they are read in a failing history.
const (
	mvPress   = "$n guesses at the owner from $place"
	mvNoise   = "$n guesses at others from $place"
	mvFlood   = "$place is flooded"
	mvSend    = "$n times a code is sent for the owner from $place"
	mvOthers  = "codes are sent for $n others from $place"
	mvWrong   = "$n wrong answers to the owner's challenges from $place"
	mvFetch   = "$n pictures are fetched from $place"
	mvHoard   = "the adversary signs in to $n accounts of his own from $place and reports nothing"
	mvSpend   = "he reports all of it as successes"
	mvPlant   = "he plants his device token in the browser that the owner will use"
	mvForge   = "bent and mistaken tokens are shown for the owner from $place"
	mvCrowd   = "the stores are crowded with $n names"
	mvPass    = "$wait pass"
	mvStore   = "the store $store"
	mvWipe    = "the store forgets everything"
	mvPosture = "posture critical, and all networks are suspect"
	mvReload  = "instance $at reloads policy $n"
	mvClock   = "the clock steps by $wait"
	mvKill    = "the next instance that has a code for the owner is killed with it on its way"
	mvVisit   = "the owner signs in on the known device from $place"
	mvMistype = "the owner mistypes on the known device at $place"
	mvNew     = "the owner signs in on a new device from $place"
	mvRevoke  = "the owner changes the password"
)

var strangersMoves = []string{mvPress, mvPress, mvNoise, mvFlood, mvSend, mvSend, mvOthers, mvWrong, mvFetch, mvHoard, mvSpend,
	mvPlant, mvForge, mvCrowd, mvPass, mvPass, mvPass, mvStore, mvStore, mvWipe, mvPosture, mvReload, mvClock, mvKill}

var ownersMoves = []string{mvVisit, mvMistype, mvNew, mvRevoke}

var waits = []time.Duration{time.Millisecond, time.Second, 20 * time.Second, 2 * time.Minute, 11 * time.Minute, 16 * time.Minute,
	time.Hour, 5 * time.Hour, 12 * time.Hour, 23 * time.Hour, 25 * time.Hour}

func moves(kinds ...string) *rapid.Generator[move] {
	return rapid.Custom(func(t *rapid.T) move {
		m := move{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), place: rapid.IntRange(0, places-1).Draw(t, "place"),
			n: rapid.IntRange(1, 8).Draw(t, "n"), at: rapid.IntRange(0, instances-1).Draw(t, "at")}
		switch m.kind {
		case mvPress, mvSend, mvOthers, mvFetch, bkGuess, bkRetry:
			m.solve = rapid.Bool().Draw(t, "solve")
		case mvPass:
			m.wait = rapid.SampledFrom(waits).Draw(t, "wait")
		case mvClock:
			m.wait = rapid.SampledFrom([]time.Duration{-time.Hour, -time.Minute, time.Minute, time.Hour, 40 * time.Hour}).Draw(t, "step")
		case mvStore:
			m.fault = rapid.SampledFrom([]keystest.Fault{keystest.Healthy, keystest.NotDone, keystest.ReplyLost, keystest.TooLate}).Draw(t, "fault")
		}
		switch m.kind {
		case mvPress, mvNoise:
			m.n *= 4
		case mvWrong, mvFetch:
			m.n *= 12 // beyond what an address may, every other time
		case mvCrowd:
			m.n *= 60
		}
		return m
	})
}

func (w *history) do(m move) {
	ctx := context.Background()
	where := placeOf(m.place)
	switch m.kind {
	case mvPress:
		for i := range m.n {
			w.guess(i, owner, where, m.solve)
		}
	case mvNoise:
		for i := range m.n {
			w.guess(i, fmt.Sprint("other ", i%5), where, true)
		}
	case mvFlood:
		for i := range 2 * floodCapacity * instances {
			w.check(i, Attempt{Account: fmt.Sprint("other ", i), IP: where})
		}
	case mvSend:
		for i := range m.n {
			w.sendAs(i, w.token(m.at, owner, where), m.solve)
		}
	case mvOthers:
		for i := range m.n {
			w.sendAs(m.at, w.token(m.at, fmt.Sprint("other ", i), where), m.solve)
		}
	case mvWrong:
		token := w.token(m.at, owner, where)
		for i := range m.n {
			text := []string{"000000", "0123456789"}[i%2]
			if s, err := w.guards[m.at].Answer(ctx, &Solution{Token: token, Text: text}); err == nil && s.Challenge != nil {
				token = s.Challenge.Token
			} else if !errors.Is(err, ErrTooMany) {
				w.fail("a wrong answer brings %+v, %v", s, err)
			}
		}
	case mvFetch:
		for range m.n {
			if c := w.pictured(m.at, where); c != "" {
				w.solvePicture(m.at, c, m.solve)
			}
		}
	case mvHoard:
		for i := range m.n {
			name := fmt.Sprint("mallory ", i%3)
			if v := w.guess(m.at, name, where, true); v.Proceed {
				w.hoard = append(w.hoard, hoarded{v.Attempt, name})
			}
		}
	case mvSpend:
		for _, h := range w.hoard {
			r, err := w.guards[m.at].Report(ctx, &Report{Attempt: h.attempt, Account: h.account, Outcome: "success"}, nil)
			if err != nil {
				w.fail("reporting: %v", err)
			}
			if r.Device != "" {
				w.malice = r.Device
			}
			if _, err := w.guards[m.at].Report(ctx, &Report{Attempt: h.attempt, Account: owner, Outcome: "success"}, nil); err == nil {
				w.fail("an attempt of another's mints the owner a device")
			}
		}
		w.hoard = nil
	case mvPlant:
		w.planted = w.malice
	case mvForge:
		w.forge(m, where)
	case mvCrowd:
		w.crowd(m)
	case mvPass:
		w.clock.Add(m.wait.Microseconds())
	case mvClock:
		w.step(m.wait)
	case mvStore:
		w.store.Set(m.fault)
		w.firm = m.fault == keystest.Healthy
		w.epoch++
	case mvWipe:
		if w.clock.Load() < w.latest {
			break // README: what was made known while the clock was behind outlives a password change after both
		}
		w.wipe()
		w.epoch++
	case mvPosture:
		space := keys.NewSpace("default", 0)
		until := w.clock.Load() + keys.Day
		_ = w.fallbacks[m.at].Put(ctx, space.State(), keys.State{Pin: keys.Critical, PinUntil: until}.Encode(), keys.Day)
		for n := range places {
			a, err := keys.ParseAddress(placeOf(n))
			if err != nil {
				w.fail("%v", err)
			}
			_ = w.fallbacks[m.at].Put(ctx, space.Suspect(a.Counted()), keys.EncodeUntil(until), keys.Day)
		}
	case mvReload:
		if err := w.guards[m.at].SetPolicy(lockoutPolicies[m.n%len(lockoutPolicies)]); err != nil {
			w.fail("reload: %v", err)
		}
	case mvKill:
		w.dying.Store(true)
	case mvVisit:
		w.onKnown(m.at, where, "success")
	case mvMistype:
		w.onKnown(m.at, where, "failure")
	case mvNew:
		w.onNew(visit{place: m.place, at: m.at, inForm: m.n%2 == 0})
	case mvRevoke:
		w.changePassword(m)
	}
}

// guess makes a stranger's guess, with whatever he can show.
func (w *history) guess(i int, account, where string, solve bool) *Verdict {
	a := Attempt{Account: account, IP: where, Device: w.malice}
	v := w.check(i, a)
	if v.Challenge == nil || !solve {
		return v
	}
	rung := keys.Captcha
	if strings.HasPrefix(account, "mallory") {
		rung = keys.Verify // in his own mailbox
	}
	if v.Action == ActionCaptcha || rung == keys.Verify {
		a.Proof = w.solved(i, v.Challenge.Token, rung)
		v = w.check(i, a)
	}
	if !v.Proceed && v.Action == ActionDelay && v.Challenge != nil {
		a.Proof = v.Challenge.Token // without having waited
		v = w.check(i, a)
	}
	return v
}

// token is a challenge of the account that a stranger has been given.
func (w *history) token(i int, account, where string) string {
	for n := range 400 {
		if v := w.check(i, Attempt{Account: account, IP: where}); v.Challenge != nil {
			return v.Challenge.Token
		} else if n > 300 {
			break
		}
	}
	w.fail("%s is never asked for anything at %s", account, where)
	return ""
}

// pictured is a challenge with a picture, "" when the owner's account is not
// asked for one there.
func (w *history) pictured(i int, where string) string {
	if v := w.check(i, Attempt{Account: owner, IP: where}); v.Action == ActionCaptcha {
		return v.Challenge.Token
	}
	return ""
}

// solvePicture fetches a challenge's picture and types what it shows, or not.
func (w *history) solvePicture(i int, token string, right bool) string {
	ctx := context.Background()
	m, err := w.guards[i].Image(ctx, token)
	if err != nil {
		return ""
	}
	text := "999999"
	if right {
		text = ""
		for _, d := range m.Bytes {
			text += fmt.Sprint(d)
		}
	}
	s, err := w.guards[i].Answer(ctx, &Solution{Token: token, Text: text})
	if err != nil {
		return ""
	}
	if right && s.Err == ProofInsufficient { // the address is busy
		return w.solvePicture(i, s.Challenge.Token, true)
	}
	return s.Proof
}

// sendAs presses send as a stranger does.
func (w *history) sendAs(i int, token string, solve bool) {
	i %= instances
	s := w.send(i, token, "")
	if s.Sent || !solve || s.Challenge == nil {
		return
	}
	if p := w.solvePicture(i, s.Challenge.Token, true); p != "" {
		w.send(i, token, p)
	}
}

// forge shows what was not made for it.
func (w *history) forge(m move, where string) {
	v := w.check(m.at, Attempt{Account: owner, IP: where})
	bent := []byte(w.known)
	bent[len(bent)/2] ^= 1
	tokens := []string{string(bent), w.known[:len(w.known)-1], v.Attempt, w.malice, "rubbish"}
	if v.Challenge != nil {
		tokens = append(tokens, v.Challenge.Token, strings.Replace(v.Challenge.Token, v.Challenge.Token[:1], "d", 1))
	}
	for i, token := range tokens {
		a := Attempt{Account: owner, IP: where, Device: token, Proof: tokens[(i+m.n)%len(tokens)]}
		if v := w.check(i, a); v.KnownDevice {
			w.fail("a forged device is known")
		}
	}
}

// crowd fills what remembers: answers to challenges, codes and senders of names
// that nobody has, sign-ins of accounts of his own.
func (w *history) crowd(m move) {
	ctx := context.Background()
	for i := range m.n {
		where, name := fmt.Sprintf("203.0.113.%d", i%250+1), fmt.Sprint("nobody ", i)
		if i < floodCapacity*instances*2 {
			where = "203.0.113.1" // a flooded address is given challenges for nothing
		}
		v := w.check(m.at, Attempt{Account: name, IP: where})
		if v.Challenge == nil {
			if i%3 == 0 {
				w.report(m.at, v.Attempt, name, "success", "")
			}
			v = w.check(m.at, Attempt{Account: fmt.Sprint("nobody ", i), IP: "203.0.113.1"})
		}
		if v.Challenge != nil {
			w.send(m.at, v.Challenge.Token, "")
			if _, err := w.guards[m.at].Answer(ctx, &Solution{Token: v.Challenge.Token, Text: "0123456789"}); err != nil {
				w.fail("answering: %v", err)
			}
		}
	}
}
