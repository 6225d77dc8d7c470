package escalation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// This file holds three promises over random histories, beside
// TestPromiseNoLockoutOverHistories: no leak, a refusal costs nothing, a success
// forgives itself only. Whoever guesses has every outcome reported, early, late,
// twice and to any instance, repeats request ids, solves pictures and reads the
// account's mail, while policies are reloaded, clocks step and the store comes
// and goes.

// ledgerPolicies have one limit of the account that binds, so that the book can
// be kept by one number; nothing else refuses.
var ledgerPolicies = func() (all []*Policy) {
	n := func(n int64) *int64 { return &n }
	for _, capacity := range []int64{11, 6, 3} {
		rows := []Limit{
			{Tier: "account", Name: "burst", Capacity: n(capacity), Refill: RefillOf(capacity, 6*time.Hour)},
			{Tier: "account", Name: "sustained", Off: true}, {Tier: "pair", Name: "burst", Off: true}, {Tier: "pair", Name: "sustained", Off: true},
			{Tier: "ip", Name: "burst", Off: true}, {Tier: "ip", Name: "sustained", Off: true},
			{Tier: "network", Name: "burst", Off: true}, {Tier: "network", Name: "sustained", Off: true}, {Tier: "flood", Name: "burst", Off: true},
		}
		p := &Policy{Realms: map[string]*Realm{DefaultRealm: {Delivery: Delivery{Driver: "log"}, Flows: map[string]*Flow{"login": {Limits: rows}}}}}
		if err := p.Validate(); err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	return all
}()

// What ledgerPolicies allow at most, whichever is in force: so many at once, and
// so many in ledgerPeriod.
const (
	ledgerCapacity = 11
	ledgerPeriod   = 6 * time.Hour
)

// booked is one guess of the book.
type booked struct {
	at      int64 // by the latest time that the store has seen
	outages int   // before it
	attempt string
	lifted  bool // over the last rung
	back    bool
	told    bool // a retry: it is reported as what it was
}

type book struct {
	*history
	guesses []*booked
	byID    map[[16]byte]*booked
	outages int
	seen    int64 // the latest time of an answer
	asked   int   // request ids
	reached bool  // the limit, by as many guesses as there may be

	right string          // the password in force, if it is one of the old ones
	told  bool            // a revocation said so when it became that
	wrong map[string]bool // what was ever said to be
	free  int
}

// try makes one guess, by whatever proof it takes.
func (b *book) try(m move, a Attempt) *Verdict {
	v := b.check(m.at, a)
	if !v.Proceed && m.solve {
		a.Proof = b.solved(m.at, v.Challenge.Token, map[Action]keys.Rung{ActionDelay: keys.Verify, ActionCaptcha: keys.Captcha, ActionVerify: keys.Verify}[v.Action])
		v = b.check(m.at, a)
	}
	if v.Proceed && !v.Repeat {
		b.enter(v)
	}
	return v
}

// retry is an attempt with one of a few passwords, as an application makes it that
// has an old one, or an adversary who hopes that it will be changed to one that was
// wrong. It may be free only if that has been said of it, and never when it has
// become right since and somebody has told.
func (b *book) retry(m move, a Attempt, password string) {
	a.PasswordTag = tagFor(password)
	v := b.try(m, a)
	if !v.Proceed {
		return
	}
	if v.Repeat {
		b.free++
		if !b.wrong[password] {
			b.fail("A FREE GUESS at %s: nobody has said that it is wrong", password)
		}
		if password == b.right && b.told && !v.Degraded { // an instance that is alone may not have heard
			b.fail("A FREE GUESS at %s, which is right", password)
		}
	}
	outcome := "failure"
	if password == b.right {
		outcome = "second_factor_pending"
	} else {
		b.wrong[password] = true
	}
	r, err := b.guards[(m.at+1)%instances].Report(context.Background(), &Report{Attempt: v.Attempt, Account: owner, Outcome: outcome}, nil)
	if err != nil {
		b.fail("reporting %s: %v", outcome, err)
	}
	if g := b.byID[v.AttemptID]; g != nil {
		g.back = g.back || r.Recorded && password == b.right
		g.told = true
	}
}

func (b *book) enter(v *Verdict) {
	if b.byID[v.AttemptID] != nil {
		return // a repeat: the same attempt
	}
	b.seen = max(b.seen, v.Now.UnixMicro())
	g := &booked{at: b.seen, outages: b.outages, attempt: v.Attempt}
	for _, t := range v.Tiers {
		g.lifted = g.lifted || t.Rung == keys.Verify
	}
	b.guesses, b.byID[v.AttemptID] = append(b.guesses, g), g
}

// tell reports an outcome of one of the guesses.
func (b *book) tell(m move, outcome string) {
	if len(b.guesses) == 0 {
		return
	}
	g := b.guesses[m.place*7%len(b.guesses)]
	if g.told {
		return // what is said of a retry is true
	}
	r, err := b.guards[m.at].Report(context.Background(), &Report{Attempt: g.attempt, Account: owner, Outcome: outcome}, nil)
	if err != nil {
		b.fail("reporting %s: %v", outcome, err)
	}
	o, _ := keys.ParseOutcome(outcome)
	g.back = g.back || r.Recorded && o.GivesBack()
}

// audit asserts that no interval has more guesses than it may.
func (b *book) audit() {
	period := ledgerPeriod.Microseconds()
	var counted []*booked
	for _, g := range b.guesses {
		if !g.lifted && !g.back {
			counted = append(counted, g)
		}
	}
	for i := range counted {
		for j := i; j < len(counted); j++ {
			// An outage adds max(limit, 3 x instances).
			more := int64(counted[j].outages-counted[i].outages+counted[i].outages%2) * max(ledgerCapacity, 3*instances)
			n, room := int64(j-i+1)*period, (ledgerCapacity+more)*period+ledgerCapacity*(counted[j].at-counted[i].at)
			b.reached = b.reached || more == 0 && n > room-period
			if n > room {
				b.fail("LEAK: %d guesses in %v with %d beginnings and ends of outages", j-i+1,
					time.Duration(counted[j].at-counted[i].at)*time.Microsecond, counted[j].outages-counted[i].outages)
			}
		}
	}
}

// left is what an answer says is left of the account's limit.
func left(v *Verdict) int64 {
	i := slices.IndexFunc(v.Tiers, func(t TierLevel) bool { return t.Tier == "account" })
	if i < 0 {
		return -1
	}
	return v.Tiers[i].Left
}

const (
	bkGuess  = "$n guesses from $place at instance $at"
	bkRepeat = "a request is repeated $n times from $place"
	bkTell   = "guess $place is reported a $outcome at instance $at"
	bkRefuse = "a guess without a proof, twice"
	bkForget = "a guess and its success, twice"
	bkReload = "instance $at reloads policy $n"
	bkRetry  = "$n attempts from $place with old passwords"
	bkChange = "the password becomes the old one $n, and instance $at is told"
	bkSwap   = "the password becomes the old one $n, and nobody is told"
)

// oldOf is one of a few passwords.
func oldOf(n int) string { return fmt.Sprint("old ", n%4) }

var outcomes = []string{"success", "failure", "unknown_account", "second_factor_pending", "denied_by_policy", "not_checked", "abandoned"}

func (b *book) act(m move) {
	a := Attempt{Account: owner, IP: placeOf(m.place)}
	switch m.kind {
	case bkGuess:
		for range m.n {
			b.try(m, a)
		}
	case bkRepeat:
		b.asked++
		a.RequestID = fmt.Sprint("request ", b.asked)
		for i := range m.n {
			v := b.check(m.at+i, a)
			if v.Proceed {
				b.enter(v)
			}
		}
		a.UserAgent = "another"
		if v, err := b.guards[m.at].Check(context.Background(), &a); err == nil && v.Proceed {
			b.enter(v)
		} else if err != nil && !errors.Is(err, ErrConflict) {
			b.fail("another body: %v", err)
		}
	case bkTell:
		b.tell(m, outcomes[m.n%len(outcomes)])
	case bkRefuse:
		if !b.firm {
			return
		}
		first := b.check(m.at, a)
		if first.Proceed {
			b.enter(first)
			return
		}
		if second := b.check(m.at, a); second.Proceed || second.Degraded != first.Degraded || left(second) != left(first) {
			b.fail("A REFUSAL COSTS: %d left, then %d", left(first), left(second))
		}
	case bkForget:
		if !b.firm {
			return
		}
		before := int64(-1)
		for range 2 {
			v := b.try(move{at: m.at, solve: false}, a)
			if !v.Proceed {
				return
			}
			if now := left(v); before >= 0 && now > before {
				b.fail("A SUCCESS FORGIVES %d tokens more than its own", now-before)
			} else {
				before = now
			}
			b.tellLast(m)
		}
	case bkReload:
		if err := b.guards[m.at].SetPolicy(ledgerPolicies[m.n%len(ledgerPolicies)]); err != nil {
			b.fail("%v", err)
		}
	case mvStore:
		was := b.firm
		b.do(m)
		if b.firm != was {
			b.outages++
		}
	case bkRetry:
		for i := range m.n {
			b.retry(m, a, oldOf(m.place+i/2))
		}
	case bkChange, bkSwap:
		b.right, b.told = oldOf(m.n), false
		if m.kind == bkChange {
			b.told = b.guards[m.at].Revoke(context.Background(), DefaultRealm, owner) == nil
		}
	case mvPass, mvClock:
		b.told = b.told && m.wait > 0 // by a clock that steps back nothing is later than what was
		b.do(m)
	}
}

func (b *book) tellLast(m move) {
	g := b.guesses[len(b.guesses)-1]
	b.report(m.at+1, g.attempt, owner, "second_factor_pending", "")
	g.back = true
}

func TestPromisesOfTheBookOverHistories(t *testing.T) {
	kinds := []string{bkGuess, bkGuess, bkGuess, bkGuess, bkRepeat, bkTell, bkTell, bkRefuse, bkForget, bkReload, bkRetry, bkRetry, bkRetry, bkChange, bkSwap, mvPass, mvPass, mvStore, mvClock}
	for _, store := range lockoutStores {
		if store.marks == 1 {
			continue // gives nothing back, and shares counts
		}
		t.Run(store.name, func(t *testing.T) {
			open := store.open(t)
			reached, free := 0, 0
			check := func(t *rapid.T) {
				all := rapid.SliceOfN(moves(kinds...), 6, 30).Draw(t, "history")
				b := &book{history: newHistoryOf(t, open, store.marks, ledgerPolicies[0]), byID: map[[16]byte]*booked{}, wrong: map[string]bool{}}
				defer b.close()
				for _, m := range all {
					b.say("%s", strings.ReplaceAll(m.String(), "$outcome", outcomes[m.n%len(outcomes)]))
					b.act(m)
					b.audit()
				}
				if b.reached {
					reached++
				}
				free += b.free
			}
			for range store.times / 2 {
				rapid.Check(t, check)
			}
			if reached < 3 {
				t.Errorf("%d histories came up to the limit: they prove little", reached)
			}
			if free < 20 {
				t.Errorf("%d attempts were free: they prove little", free)
			}
		})
	}
}
