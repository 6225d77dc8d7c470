package escalation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/redisstore"
)

// instances share the store; floodCapacity is small, or most of a history would
// be spent on flooding.
const (
	instances     = 2
	floodCapacity = 8
)

// lockoutPolicies are reloaded in the middle of histories: the default table,
// tighter limits, and more for some than for others. Each has a small flood
// limit.
var lockoutPolicies = func() []*Policy {
	n := func(n int64) *int64 { return &n }
	flood := Limit{Tier: "flood", Name: "burst", Capacity: n(floodCapacity), Refill: RefillOf(floodCapacity, time.Minute)}
	tables := [][]Limit{
		{flood},
		{flood, {Tier: "pair", Name: "burst", Capacity: n(3), Refill: RefillOf(1, time.Hour)}, {Tier: "device", Name: "burst", Capacity: n(20), Refill: RefillOf(5, time.Hour)}},
		{flood, {Tier: "account", Name: "sustained", Off: true}, {Tier: "account", Name: "burst", Capacity: n(5), Refill: RefillOf(5, 24*time.Hour)}},
	}
	gone := []string{"local", "challenge", "closed"}
	var all []*Policy
	for i, rows := range tables {
		p := &Policy{Realms: map[string]*Realm{DefaultRealm: {
			Delivery: Delivery{Driver: "log"}, StoreGone: gone[i], Flows: map[string]*Flow{"login": {Limits: rows}},
		}}}
		if err := p.Validate(); err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	return all
}()

// history is a fleet, its owner and its adversary.
type history struct {
	t         rapid.TB
	story     []string
	guards    [instances]*Guard
	fallbacks [instances]*keys.Fallback
	all       []*Guard // those that were killed, too
	store     *keystest.Faulty
	policy    *Policy // to begin with
	wipe      func()
	clock     atomic.Int64
	latest    int64 // before the clock stepped
	unmade    int64 // when a revocation failed
	legible
	came  chan Message  // when all is done about it
	lost  chan struct{} // a mail of an instance that was killed
	ended chan struct{}
	dying atomic.Bool // the next instance that has a mail for the owner is killed with it
	mails []Message   // the owner's, in order

	known   string // the owner's device
	guesses int    // made on it and not taken back
	planted string // what is in the browser that is new to the owner
	malice  string // a device token of the adversary's
	hoard   []hoarded
	epoch   int   // times that the store has changed
	mailed  int   // epoch of the owner's newest mail
	usedAt  int64 // when the owner last used a code
	small   bool  // the twins are full
	marks   int
	unheard bool // a code was booked for the owner whose mail never came
	firm    bool // the store works
}

type hoarded struct{ attempt, account string }

func (w *history) Deliver(_ context.Context, m *Message) error {
	if m.Kind == MessageCode && m.Account == owner && w.dying.CompareAndSwap(true, false) {
		w.lost <- struct{}{}
		<-w.ended // nobody hears of it again
		return errors.New("killed")
	}
	return nil
}

// world opens stores for histories, one after another.
type opens func() (s keystest.Subject, wipe func(f *keystest.Faulty))

func newHistory(t rapid.TB, open opens, marks int) *history {
	w := newHistoryOf(t, open, marks, lockoutPolicies[0])
	w.known = w.signIn(owner, placeOf(3), "")
	w.malice = w.signIn("mallory 0", placeOf(4), "")
	return w
}

// newHistoryOf is a fleet under a policy, in which nobody has signed in yet.
func newHistoryOf(t rapid.TB, open opens, marks int, policy *Policy) *history {
	w := &history{t: t, policy: policy, came: make(chan Message, 64), lost: make(chan struct{}), ended: make(chan struct{}), firm: true, marks: marks, small: marks == 1}
	w.clock.Store(start)
	s, wipe := open()
	w.store = &keystest.Faulty{Subject: s}
	w.wipe = func() { wipe(w.store) }
	for i := range instances {
		w.boot(i)
	}
	return w
}

// boot starts instance i, or starts it anew.
func (w *history) boot(i int) {
	w.t.Helper()
	secrets, err := NewSecrets([][]byte{[]byte("the secret of all instances")})
	if err != nil {
		w.t.Fatal(err)
	}
	local := keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 12, Marks: w.marks, Now: w.clock.Load})
	w.fallbacks[i] = keys.NewFallback(keys.FallbackConfig{Primary: w.store, Local: local, Instances: instances})
	g, err := New(Config{
		Store: w.fallbacks[i], Records: w.fallbacks[i], Policy: w.policy, Secrets: secrets, Instances: instances, Now: w.clock.Load,
		Renderer: &w.legible, Deliver: map[string]Deliverer{DefaultRealm: w},
		Delivered: func(m *Message, _ error) {
			if m.Kind == MessageCode {
				w.came <- *m
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.guards[i], w.all = g, append(w.all, g)
}

func (w *history) close() {
	close(w.ended)
	for _, g := range w.all {
		g.Close(context.Background())
	}
}

func (w *history) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter this history:\n  %s", fmt.Sprintf(format, args...), strings.Join(w.story, "\n  "))
}

func (w *history) say(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%d. ", len(w.story)+1)+fmt.Sprintf(format, args...))
}

func (w *history) check(i int, a Attempt) *Verdict {
	w.t.Helper()
	v, err := w.guards[i%instances].Check(context.Background(), &a)
	if err != nil {
		w.fail("an attempt of %s from %s is not answered: %v", a.Account, a.IP, err)
	}
	if !v.Proceed && (v.Challenge == nil || !slices.Contains(v.Challenge.Kinds, WayCode)) {
		w.fail("%s of %s offers no code: %+v", v.Action, a.Account, v.Challenge)
	}
	return v
}

func (w *history) report(i int, attempt, account, outcome, device string) string {
	w.t.Helper()
	r, err := w.guards[i%instances].Report(context.Background(), &Report{Attempt: attempt, Account: account, Outcome: outcome, Device: device}, nil)
	if err != nil {
		w.fail("reporting %s: %v", outcome, err)
	}
	return r.Device
}

func (w *history) signIn(account, where, device string) string {
	v := w.check(0, Attempt{Account: account, IP: where})
	if !v.Proceed {
		w.fail("%s cannot sign in to begin with: %s", account, v.Action)
	}
	return w.report(1, v.Attempt, account, "success", device)
}

func (w *history) solved(i int, token string, rung keys.Rung) string {
	p, err := w.guards[i%instances].Solve(context.Background(), token, rung)
	if err != nil {
		return ""
	}
	return p
}

// send presses send and waits for the mail, if one comes of it.
func (w *history) send(i int, token, proof string) *Sent {
	w.t.Helper()
	s, err := w.guards[i%instances].Send(context.Background(), token, proof)
	if err != nil {
		var f Faults
		if proof != "" && errors.As(err, &f) {
			return &Sent{}
		}
		w.fail("a code is not sent: %v", err)
	}
	if !s.Sent {
		return s
	}
	select {
	case m := <-w.came:
		if m.Account == owner {
			w.mails = append(w.mails, m)
			w.mailed, w.unheard = w.epoch, false
		}
	case <-w.lost:
		w.say("  instance %d is killed with a code for the owner on its way", i%instances)
		w.unheard = true
		w.boot(i % instances)
	}
	return s
}

// visit is the owner on a device that is not known, and what is done meanwhile.
type visit struct {
	place, at int
	inForm    bool // code and challenge are posted with the password
	planted   bool
	spoiled   bool // somebody answers the owner's own challenge
	mistypes  int
	between   [4][]move
}

func (v visit) String() string {
	return fmt.Sprintf("the owner comes on a new device at %s, instance %d, in a form %v", placeOf(v.place), v.at, v.inForm)
}

func (w *history) meanwhile(all []move) {
	for _, m := range all {
		w.say("meanwhile: %s", m)
		w.do(m)
	}
}

// onKnown is the promise on a known device: at once.
func (w *history) onKnown(i int, where, outcome string) {
	w.t.Helper()
	if outcome != "" && w.guesses >= 3 {
		return // of ten, each of which a fault can have counted twice
	}
	v := w.check(i, Attempt{Account: owner, IP: where, Device: w.known})
	if !v.Proceed || !v.KnownDevice {
		w.fail("LOCKED OUT: the owner on a known device at %s gets %s because of %v", where, v.Action, v.Reasons)
	}
	w.guesses++
	if d := w.report(i+1, v.Attempt, owner, cmpOr(outcome, "failure"), w.known); outcome == "success" {
		w.known, w.guesses = d, 0
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// onNew is the promise on a new device: with one proof.
func (w *history) onNew(p visit) {
	w.t.Helper()
	w.rest()
	a := Attempt{Account: owner, IP: placeOf(p.place)}
	if p.planted {
		a.Device = w.planted
	}
	v := w.check(p.at, a)
	if v.KnownDevice {
		w.fail("a planted token is a known device of the owner's")
	}
	if !v.Proceed {
		v = w.prove(p, a, v)
	}
	w.report(p.at, v.Attempt, owner, "success", a.Device)
}

// rest has the owner let half an hour go by between two new devices where the
// twins are full: which codes of a quarter of an hour were sent is not remembered
// there, so the next mail of that quarter would hold the code that is used up.
func (w *history) rest() {
	if w.small && w.usedAt > 0 {
		w.clock.Store(max(w.clock.Load(), w.usedAt+31*60*keys.Second))
	}
}

// prove goes by the mail, whatever its age, as long as it says that its code is
// good. While the store works and nothing has happened to it since the newest mail
// was sent, its code is. Where the store comes and goes each instance has codes of
// its own, so the owner asks once more, by a picture, and tries the other mails; so
// where no mail came, because its instance was killed.
func (w *history) prove(p visit, a Attempt, v *Verdict) *Verdict {
	w.t.Helper()
	defer func() { w.usedAt = w.clock.Load() }()
	token, why := v.Challenge.Token, ProofError("")
	rounds, spoiled := 3, p.spoiled
	for round := 0; round < rounds; round++ {
		if round == 0 {
			w.meanwhile(p.between[0])
		}
		w.mailTo(p, token, w.unheard || round > 0 && !(w.firm && w.epoch == w.mailed))
		heard := !w.unheard
		if !heard {
			rounds = min(rounds+1, 6) // each kill costs one
		}
		if round == 0 {
			w.meanwhile(p.between[1])
		}
		if p.spoiled && round == 0 {
			if _, err := w.guards[p.at].Answer(context.Background(), &Solution{Token: token, Text: "0123456789"}); err != nil {
				w.fail("%v", err)
			}
		}
		firm := w.firm && w.epoch == w.mailed
		for i := len(w.mails) - 1; i >= 0 && (i == len(w.mails)-1 || !firm); i-- {
			if w.mails[i].ExpiresAt.UnixMicro() <= w.clock.Load() {
				continue // and says so
			}
			var proof string
			if v, proof, token, why = w.typed(p, a, token, w.mails[i].Code); v != nil && v.Proceed {
				return v
			} else if proof != "" {
				return w.withProof(p, a, proof)
			}
			w.say("  the code of mail %d of %d is %q", i+1, len(w.mails), why)
		}
		if firm && heard && !(spoiled && why == ProofSpent) {
			break
		}
		spoiled = spoiled && why != ProofSpent
	}
	w.fail("LOCKED OUT: the owner at %s, with the newest mail's code: %q", a.IP, why)
	return nil
}

// typed has the owner type a code: with the password, or on the page.
func (w *history) typed(p visit, a Attempt, token, code string) (v *Verdict, proof, next string, why ProofError) {
	if p.inForm {
		a.Challenge, a.Answer = token, code
		if v = w.check(p.at, a); v.Proceed {
			return v, "", "", ""
		}
		return v, "", v.Challenge.Token, v.ProofError
	}
	s, err := w.guards[p.at].Answer(context.Background(), &Solution{Token: token, Way: WayCode, Text: code})
	if err != nil {
		w.fail("the owner's answer: %v", err)
	}
	if s.Proof == "" {
		token = s.Challenge.Token
	}
	return nil, s.Proof, token, s.Err
}

// mailTo presses send until the owner has a mail; again has the live code mailed
// once more.
func (w *history) mailTo(p visit, token string, again bool) {
	w.t.Helper()
	s := w.send(p.at, token, "")
	if s.Sent || !s.ValidUntil.IsZero() && !again {
		return
	}
	proof := w.solvePicture(p.at, s.Challenge.Token, true)
	if proof == "" {
		w.fail("LOCKED OUT: no code is sent for the owner at %s without a picture, and none can be solved", placeOf(p.place))
	}
	if s := w.send(p.at, token, proof); !s.Sent && s.ValidUntil.IsZero() {
		w.fail("LOCKED OUT: no code is sent for the owner at %s although the picture is solved: %+v", placeOf(p.place), s)
	}
}

// withProof guesses with it, mistyping first.
func (w *history) withProof(p visit, a Attempt, proof string) *Verdict {
	w.t.Helper()
	a.Proof = proof
	for n := 0; ; n++ {
		w.meanwhile(p.between[min(2+n, 3)])
		v := w.check(p.at+n, a)
		if !v.Proceed || v.ProofError != "" {
			w.fail("LOCKED OUT: the owner at %s with a fresh code, guess %d: %s because of %v, %q", a.IP, n+1, v.Action, v.Reasons, v.ProofError)
		}
		if n >= p.mistypes {
			return v
		}
		w.report(p.at, v.Attempt, owner, "failure", "")
	}
}

// step is the stores' clock stepping, while each instance knows by its own how
// late it was. A revocation that could not be made in the store is to be repeated;
// until then no clock steps back over it.
func (w *history) step(by time.Duration) {
	if now := w.clock.Load() + by.Microseconds(); now > w.unmade {
		for _, g := range w.guards {
			g.Now()
		}
		w.latest = max(w.latest, w.clock.Load())
		w.clock.Store(now)
	}
}

// changePassword ends every device; the owner makes this browser known again.
func (w *history) changePassword(m move) {
	if !w.firm && w.clock.Load() < w.latest {
		return // one that is to be repeated is before what the other instance makes known
	}
	w.clock.Add(1000)
	// Where the store is gone it is to be repeated, but holds at this instance.
	if err := w.guards[m.at].Revoke(context.Background(), "", owner); errors.Is(err, ErrStore) {
		w.unmade = max(w.unmade, w.clock.Load())
	} else if err != nil {
		w.fail("revoking: %v", err)
	}
	w.clock.Add(1000)
	if v := w.check(m.at, Attempt{Account: owner, IP: placeOf(m.place), Device: w.known}); v.KnownDevice {
		w.fail("a device is known after a revocation")
	}
	w.rest()
	a := Attempt{Account: owner, IP: placeOf(m.place)}
	v := w.check(m.at, a)
	if !v.Proceed {
		v = w.prove(visit{place: m.place, at: m.at}, a, v)
	}
	w.known, w.guesses = w.report(m.at, v.Attempt, owner, "success", ""), 0
}

func drawVisit(t *rapid.T) visit {
	v := visit{place: rapid.IntRange(0, places-1).Draw(t, "place"), at: rapid.IntRange(0, instances-1).Draw(t, "at"),
		inForm: rapid.Bool().Draw(t, "in a form"), planted: rapid.Bool().Draw(t, "planted"),
		spoiled: rapid.IntRange(0, 3).Draw(t, "spoiled") == 0, mistypes: rapid.IntRange(0, 1).Draw(t, "mistypes")}
	meanwhile := moves(slices.DeleteFunc(slices.Clone(strangersMoves), func(k string) bool { return k == mvPass || k == mvClock })...)
	for i := range v.between {
		v.between[i] = rapid.SliceOfN(meanwhile, 0, 2).Draw(t, "meanwhile")
	}
	return v
}

// runs has the owner come after the moves of the past.
func (w *history) runs(past []move, visit visit) {
	w.t.Helper()
	for _, m := range past {
		w.say("%s", m)
		w.do(m)
	}
	w.say("%s", visit)
	w.onNew(visit)
	w.onKnown(visit.at, placeOf(visit.place), "")
}

// lockoutStores are what histories are run over.
var lockoutStores = []struct {
	name  string
	times int // hundreds of histories
	marks int // of each twin; 1 is full with the first few names
	open  func(t *testing.T) opens
}{
	{"twin", 10, 1 << 16, openTwin(1 << 16)},
	{"full twin", 5, 1, openTwin(1)},
	{"redis", 5, 1 << 16, openRedis},
}

func openTwin(marks int) func(t *testing.T) opens {
	return func(*testing.T) opens {
		return func() (keystest.Subject, func(*keystest.Faulty)) {
			fresh := func() keystest.Subject {
				return keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 12, Marks: marks})
			}
			return fresh(), func(f *keystest.Faulty) { f.Replace(fresh()) }
		}
	}
}

func openRedis(t *testing.T) opens {
	server := redistest.Start(t)
	client, err := redisstore.Open(server.URL(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s := redisstore.New(redisstore.Config{Client: client, Deadline: 10 * time.Second})
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	empty := func(*keystest.Faulty) {
		if err := server.Client().FlushDB(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return func() (keystest.Subject, func(*keystest.Faulty)) {
		empty(nil)
		return s, empty
	}
}

// TestPromiseNoLockoutOverHistories holds the promise as a property: after every
// history, and in the middle of an adversary's work, the owner on a known device
// proceeds at once, and on a new one with the code of a delivered mail.
func TestPromiseNoLockoutOverHistories(t *testing.T) {
	rounds := 1
	if s, err := strconv.Atoi(os.Getenv("GUARDD_SOAK")); err == nil {
		rounds = s
	}
	for _, store := range lockoutStores {
		t.Run(store.name, func(t *testing.T) {
			open := store.open(t)
			for range store.times * rounds {
				rapid.Check(t, func(t *rapid.T) {
					past := rapid.SliceOfN(moves(slices.Concat(strangersMoves, ownersMoves)...), 1, 12).Draw(t, "history")
					visit := drawVisit(t)
					w := newHistory(t, open, store.marks)
					defer w.close()
					w.runs(past, visit)
				})
			}
		})
	}
}
