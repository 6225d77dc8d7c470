package sim

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// Config is what a scenario is run with.
type Config struct {
	Policy *escalation.Policy
	// PerDay is the site's honest attempts; 0 is DefaultPerDay.
	PerDay float64
	// Volume is the attack's guesses, of honest attempts a minute; 0: as the
	// scenario has it.
	Volume float64
	// Solvers is the share of guesses whose maker solves captchas.
	Solvers float64
	Seed    int64
	// Static leaves detection out: the policy's limits alone.
	Static bool
	// Before, During and After are how long each part of an attack's run is; an
	// hour each when 0.
	Before, During, After int64
	// AnyHour has the attack begin at any hour of the week; else it is a weekday,
	// when most honest people are there to be bothered.
	AnyHour bool
	// UntilFound ends the run as soon as the attack has been detected.
	UntilFound bool
	// Learnt is what detection knows before (Learn); nil is learnt first.
	Learnt []byte
	// Progress, unless nil, is told how far a run is, from 0 to 1.
	Progress func(done float64)

	tap func(aggregate.Watch) aggregate.Watch // tests look at the bins
}

func (c *Config) tapped(w aggregate.Watch) aggregate.Watch {
	if c.tap == nil {
		return w
	}
	return c.tap(w)
}

// DefaultPerDay is the size of the site that figures are given for.
const DefaultPerDay = 750_000

// realmName is the realm that is simulated.
const realmName = escalation.DefaultRealm

// world is a site with a guard before it.
type world struct {
	c        Config
	clock    int64
	store    *keys.Memory
	guard    *escalation.Guard
	watcher  watcher
	r        random
	score    Score
	taken    map[string]bool
	hoarded  []hoarded
	outages  []Span
	theirs   map[netip.Prefix]bool // the attack's addresses and networks
	scans    map[netip.Prefix]bool // and the background's
	tags     map[string]bool       // and its passwords, under any day\'s key
	retry    queueByTime
	detector *detect.Detector // nil: nobody watches
	failed   func() error     // of the watcher
	attacked bool             // by a scenario's attack
	from     int64            // of the attack
	to       int64
}

// watcher reads events and acts on them: aggregate.Inline does.
type watcher interface {
	Attempt(v *escalation.Verdict) error
	Outcome(r *escalation.Recorded) error
	Flush(ctx context.Context)
}

type hoarded struct{ attempt, account string }

// Score is what a run is judged by.
type Score struct {
	Guesses, Served           int   // the attack's attempts, and those answered allow
	GuessesAfter, ServedAfter int   // of these, after it was detected
	Taken                     int   // accounts
	FirstChallenge            int64 // since the attack's start; -1: never
	Posture                   int64 // until posture or suspects were in force; -1: never
	Relaxed                   int64 // from the end until neither was; -1: never
	Early                     bool  // either was in force when the attack began
	Top                       keys.Posture

	Honest, Challenged int // sign-ins with the right password, and those asked for anything
	New, NewChallenged int // of these, on unknown devices
	KnownAsked         int // on known devices or in familiar places, asked because of posture or suspects
	LockedOut          int // that got in neither at once nor with one proof
	Campaigns          []detect.Campaign

	Minutes []Minute // of the whole run
}

// Minute is what happened within one, which begins From seconds after the attack.
type Minute struct {
	From    int64 `json:"from_s"`
	Guesses int   `json:"guesses"`
	Served  int   `json:"served"`
	Honest  int   `json:"honest"`
	Asked   int   `json:"asked"`
	Posture int   `json:"posture"` // at its end, as guardd_posture has it
}

func newWorld(c Config) (*world, error) {
	w := &world{c: c, r: newRandom(c.Seed, 21), taken: map[string]bool{}, theirs: map[netip.Prefix]bool{}, scans: map[netip.Prefix]bool{}, tags: map[string]bool{}, clock: 1, failed: func() error { return nil }}
	w.score.FirstChallenge, w.score.Posture, w.score.Relaxed = -1, -1, -1
	now := func() int64 { return w.clock }
	w.store = keys.NewMemory(keys.MemoryConfig{Buckets: 4 << 20, Marks: 4 << 20, Now: now})
	secrets, err := escalation.NewSecrets([][]byte{fmt.Appendf(nil, "the secret of simulation %d", c.Seed)})
	if err != nil {
		return nil, err
	}
	w.guard, err = escalation.New(escalation.Config{Store: w.store, Records: w.store, Policy: c.Policy, Secrets: secrets,
		Instances: 1, Now: now, Rand: ids{&w.r}})
	return w, err
}

// ids makes the guard's identities of the seed, so that a run can be run again.
type ids struct{ r *random }

func (i ids) Read(b []byte) (int, error) {
	for j := range b {
		b[j] = byte(i.r.Uint32())
	}
	return len(b), nil
}

// attempt is l as the guard is asked.
func (w *world) attempt(l *login) *escalation.Attempt {
	a := &escalation.Attempt{Account: l.account, IP: l.ip.String(), UserAgent: l.agent, PasswordBreached: l.breached,
		PasswordTag: tagOf(l.password), Proof: l.proof}
	if l.device && l.who != nil {
		a.Device = l.who.device
	}
	return a
}

// tagOf is what a handler's own HMAC of a password would be.
func tagOf(password string) string {
	h := uint64(14695981039346656037)
	for i := range len(password) {
		h = (h ^ uint64(password[i])) * 1099511628211
	}
	return fmt.Sprintf("%016x", h)
}

// do has one login happen.
func (w *world) do(ctx context.Context, l *login) error {
	w.clock = max(w.clock, l.at)
	a := w.attempt(l)
	v, err := w.guard.Check(ctx, a)
	if err != nil {
		return err
	}
	if err := w.watcher.Attempt(v); err != nil {
		return err
	}
	if l.attack {
		w.theirs[v.IP.Counted()], w.theirs[v.IP.Wide()] = true, true
		w.tags[hex.EncodeToString(v.Tag[:])] = true
	}
	if l.scan {
		w.scans[v.IP.Counted()], w.scans[v.IP.Wide()] = true, true
	}
	w.count(l, v)
	if !v.Proceed {
		if v, err = w.asked(ctx, l, a, v); err != nil || v == nil {
			return err
		}
	}
	return w.outcome(ctx, l, v)
}

// asked is what l's maker does when refused; nil: gives up.
func (w *world) asked(ctx context.Context, l *login, a *escalation.Attempt, v *escalation.Verdict) (*escalation.Verdict, error) {
	switch {
	case v.Action == escalation.ActionDeny || l.app || l.scan || v.Challenge == nil:
		return nil, nil
	case l.attack || l.own:
		return w.attackerAsked(ctx, l, a, v)
	case !l.victim && w.r.Float64() >= Solves:
		return nil, nil
	}
	rung := keys.Captcha
	if v.Challenge.Kind != escalation.KindCaptcha {
		rung = keys.Verify // the code in the mail, which every refusal offers
	}
	return w.again(ctx, l, a, v, rung)
}

// attackerAsked: waiting costs nothing, pictures are solved by some, mail is
// not theirs.
func (w *world) attackerAsked(ctx context.Context, l *login, a *escalation.Attempt, v *escalation.Verdict) (*escalation.Verdict, error) {
	switch {
	case v.Challenge.Kind == escalation.KindWait:
		again := *l
		again.at, again.proof = v.Challenge.NotBefore.UnixMicro()+1, v.Challenge.Token
		again.tries++
		if again.tries <= 3 {
			w.retry.add(&again)
		}
		return nil, nil
	case v.Challenge.Kind == escalation.KindCaptcha && w.r.Float64() < w.c.Solvers:
		return w.again(ctx, l, a, v, keys.Captcha)
	}
	return nil, nil
}

// again shows the proof of a solved challenge.
func (w *world) again(ctx context.Context, l *login, a *escalation.Attempt, v *escalation.Verdict, rung keys.Rung) (*escalation.Verdict, error) {
	proof, err := w.guard.Solve(ctx, v.Challenge.Token, rung)
	if err != nil {
		return nil, fmt.Errorf("solving a challenge: %w", err)
	}
	a.Proof = proof
	if v, err = w.guard.Check(ctx, a); err != nil {
		return nil, err
	}
	if err := w.watcher.Attempt(v); err != nil {
		return nil, err
	}
	switch {
	case v.Proceed && l.attack:
		w.served()
	case !v.Proceed && !l.attack && !l.own && l.right:
		w.score.LockedOut++
	}
	if !v.Proceed {
		return nil, nil
	}
	return v, nil
}

// outcome reports what became of an attempt that was let through.
func (w *world) outcome(ctx context.Context, l *login, v *escalation.Verdict) error {
	word := keys.Failure
	switch down := w.down(l.at); {
	case down == OutageNotChecked:
		word = keys.NotChecked
	case down == OutageFailures:
	case l.right:
		word = keys.Success
	case l.unknown:
		word = keys.UnknownAccount
	}
	if l.attack && word == keys.Success && !w.taken[l.account] {
		w.taken[l.account] = true
		w.score.Taken++
	}
	if l.hoard {
		w.hoarded = append(w.hoarded, hoarded{v.Attempt, l.account})
		return nil
	}
	return w.report(ctx, v.Attempt, l.account, word, l)
}

// down is the outage at that time.
func (w *world) down(at int64) Case {
	for i := range w.outages {
		if s := &w.outages[i]; s.on(at) {
			return s.Case
		}
	}
	return ""
}

func (w *world) report(ctx context.Context, attempt, account string, word keys.Outcome, l *login) error {
	rec, err := w.guard.Report(ctx, &escalation.Report{Attempt: attempt, Account: account, Outcome: word.String()}, nil)
	if err != nil {
		return fmt.Errorf("reporting an outcome: %w", err)
	}
	if err := w.watcher.Outcome(rec); err != nil {
		return err
	}
	if l != nil && l.device && l.who != nil && rec.Device != "" {
		l.who.device = rec.Device
	}
	return nil
}

// spend reports what was hoarded, all at once.
func (w *world) spend(ctx context.Context) error {
	for _, h := range w.hoarded {
		if err := w.report(ctx, h.attempt, h.account, keys.Success, nil); err != nil {
			return err
		}
	}
	w.hoarded = w.hoarded[:0]
	return nil
}

// count books the first answer to an attempt.
func (w *world) count(l *login, v *escalation.Verdict) {
	s := &w.score
	switch {
	case l.own || l.app:
	case l.attack && l.proof != "": // a guess that waited
		if v.Proceed {
			w.served()
		}
	case l.attack:
		s.Guesses++
		w.minute().Guesses++
		if s.Posture >= 0 {
			s.GuessesAfter++
		}
		if v.Proceed {
			w.served()
		} else if s.FirstChallenge < 0 {
			s.FirstChallenge = l.at - w.from
		}
	case l.right:
		w.countHonest(l, v)
	}
}

// minute is the one of now.
func (w *world) minute() *Minute {
	from := (w.clock - w.from - mod(w.clock-w.from, minute)) / second
	m := w.score.Minutes
	if n := len(m); n == 0 || m[n-1].From < from {
		w.score.Minutes = append(m, Minute{From: from})
	}
	return &w.score.Minutes[len(w.score.Minutes)-1]
}

func (w *world) served() {
	w.minute().Served++
	w.score.Served++
	if w.score.Posture >= 0 {
		w.score.ServedAfter++
	}
}

func (w *world) countHonest(l *login, v *escalation.Verdict) {
	s := &w.score
	s.Honest++
	w.minute().Honest++
	asked := !v.Proceed
	if asked {
		s.Challenged++
		w.minute().Asked++
	}
	if !l.device {
		s.New++
		if asked {
			s.NewChallenged++
		}
	}
	if asked && (v.KnownDevice || v.Familiar) {
		for _, reason := range v.Reasons {
			if reason == escalation.ReasonPosture || reason == escalation.ReasonSuspect {
				s.KnownAsked++
				break
			}
		}
	}
}

// acquaint signs everybody who is to come in from home, within the two days
// before, so that devices and places are known.
func (w *world) acquaint(ctx context.Context, q *queue, p *people, at int64) error {
	w.watcher = nobody{}
	var first queue
	for _, l := range q.list {
		if who := l.who; who != nil && !who.warm {
			who.warm = true
			first.add(&login{at: at - 2*day + int64(float64(2*day-hour)*w.r.Float64()), account: who.name(), who: who,
				password: who.password(), right: true, ip: who.home(p.offices()), agent: agentTexts["chrome"], device: true})
		}
	}
	first.sort()
	for _, l := range first.list {
		if err := w.do(ctx, l); err != nil {
			return err
		}
	}
	// An office has been learned to be many people.
	space := keys.NewSpaces(realmName, 1)
	for n := range p.offices() {
		a := keys.AddressOf(officeAddress(n))
		err := space.Put(ctx, w.store, func(s keys.Space) string { return s.K(a.Counted()) }, keys.EncodeK(keys.MaxK, at+week), 8*day)
		if err != nil {
			return err
		}
	}
	top := w.score.Top
	w.score = Score{FirstChallenge: -1, Posture: -1, Relaxed: -1, Top: top}
	return nil
}

// nobody watches.
type nobody struct{}

func (nobody) Attempt(*escalation.Verdict) error  { return nil }
func (nobody) Outcome(*escalation.Recorded) error { return nil }
func (nobody) Flush(context.Context)              {}

// look reads what is in force, and books when it began and ended.
func (w *world) look(ctx context.Context) error {
	doc, err := w.store.Get(ctx, keys.NewSpaces(realmName, 1)[0].State())
	if err != nil {
		return err
	}
	posture := keys.DecodeState(doc).Effective(w.clock)
	w.score.Top = max(w.score.Top, posture)
	w.minute().Posture = int(posture)
	tight := posture > keys.Normal || w.suspected()
	s := &w.score
	if w.clock < w.from {
		s.Early = tight
	}
	switch {
	case tight && w.clock >= w.from && w.from > 0 && s.Posture < 0:
		s.Posture = w.clock - w.from
	case !tight && s.Posture >= 0 && w.clock >= w.to && s.Relaxed < 0:
		s.Relaxed = w.clock - w.to
	case tight:
		s.Relaxed = -1
	}
	return nil
}

var errNothing = errors.New("a scenario without logins")

// run takes the world through q.
func (w *world) run(ctx context.Context, q *queue) error {
	if len(q.list) == 0 {
		return errNothing
	}
	next := q.list[0].at
	spend := w.from + 10*minute
	for i := 0; i < len(q.list) || w.retry.Len() > 0; {
		l := w.retry.before(q, &i)
		for l.at >= next { // the aggregator's own pace
			w.clock = max(w.clock, next)
			w.watcher.Flush(ctx)
			if err := w.failed(); err != nil {
				return err
			}
			if err := w.look(ctx); err != nil {
				return err
			}
			next += second
			if w.c.UntilFound && w.score.Posture >= 0 {
				return nil
			}
		}
		if len(w.hoarded) > 0 && l.at >= spend {
			spend += 10 * minute
			if err := w.spend(ctx); err != nil {
				return err
			}
		}
		if err := w.do(ctx, l); err != nil {
			return err
		}
		if w.c.Progress != nil && i%1000 == 0 {
			w.c.Progress(float64(i) / float64(len(q.list)))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
