package sim

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// recorder is told what a world's guard answers.
type recorder struct {
	attempts int
	outcomes []keys.Outcome
}

func (r *recorder) Attempt(*escalation.Verdict) error { r.attempts++; return nil }
func (r *recorder) Outcome(o *escalation.Recorded) error {
	r.outcomes = append(r.outcomes, o.Outcome)
	return nil
}
func (r *recorder) Flush(context.Context) {}

// emptyWorld is one in which an attack lasts from the second hour to the third.
func emptyWorld(t *testing.T, c Config) (*world, *recorder) {
	t.Helper()
	c.Policy, c.Seed = escalation.DefaultPolicy(), 1
	w, err := newWorld(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	w.watcher, w.clock, w.from, w.to = r, Start+hour, Start+hour, Start+2*hour
	return w, r
}

// TestScoreCounts each answer where it belongs: guesses once each, whatever they
// wait for; of honest sign-ins the first answer; and of nobody else any.
func TestScoreCounts(t *testing.T) {
	yes := escalation.Verdict{Proceed: true}
	no := escalation.Verdict{Action: escalation.ActionCaptcha}
	asked := func(known, familiar bool, reasons ...string) escalation.Verdict {
		v := no
		v.KnownDevice, v.Familiar, v.Reasons = known, familiar, reasons
		return v
	}
	before := Score{FirstChallenge: -1, Posture: -1, Relaxed: -1}
	after := Score{FirstChallenge: 7, Posture: 5, Relaxed: -1}
	for _, s := range []struct {
		name string
		from Score
		l    login
		v    escalation.Verdict
		want func(*Score)
	}{
		{"a guess", before, login{attack: true}, yes, func(s *Score) { s.Guesses, s.Served = 1, 1 }},
		{"one that is refused", before, login{attack: true, at: Start + hour + 9*second}, no, func(s *Score) { s.Guesses, s.FirstChallenge = 1, 9*second }},
		{"after detection", after, login{attack: true}, yes, func(s *Score) { s.Guesses, s.Served, s.GuessesAfter, s.ServedAfter = 1, 1, 1, 1 }},
		{"and refused", after, login{attack: true, at: Start + 90*minute}, no, func(s *Score) { s.Guesses, s.GuessesAfter = 1, 1 }},
		{"one that has waited", after, login{attack: true, proof: "p"}, yes, func(s *Score) { s.Served, s.ServedAfter = 1, 1 }},
		{"in vain", before, login{attack: true, proof: "p"}, no, func(*Score) {}},
		{"the attacker's own", before, login{own: true, right: true}, no, func(*Score) {}},
		{"an application", before, login{app: true, right: true}, no, func(*Score) {}},
		{"a mistyped password", before, login{}, no, func(*Score) {}},
		{"at home", before, login{right: true, device: true}, yes, func(s *Score) { s.Honest = 1 }},
		{"somewhere else", before, login{right: true}, yes, func(s *Score) { s.Honest, s.New = 1, 1 }},
		{"and asked", before, login{right: true}, asked(false, false, escalation.ReasonPosture), func(s *Score) { s.Honest, s.New, s.Challenged, s.NewChallenged = 1, 1, 1, 1 }},
		{"at home and asked", before, login{right: true, device: true}, asked(true, false, "account.burst"), func(s *Score) { s.Honest, s.Challenged = 1, 1 }},
		{"because of the posture", before, login{right: true, device: true}, asked(true, false, "ip.burst", escalation.ReasonPosture),
			func(s *Score) { s.Honest, s.Challenged, s.KnownAsked = 1, 1, 1 }},
		{"because of a suspect", before, login{right: true}, asked(false, true, escalation.ReasonSuspect),
			func(s *Score) { s.Honest, s.New, s.Challenged, s.NewChallenged, s.KnownAsked = 1, 1, 1, 1, 1 }},
	} {
		w, _ := emptyWorld(t, Config{})
		w.score = s.from
		s.want(&s.from)
		w.count(&s.l, &s.v)
		got := w.score
		minutes := got.Minutes
		got.Minutes = nil
		if g, x := got, s.from; g.Guesses != x.Guesses || g.Served != x.Served || g.GuessesAfter != x.GuessesAfter || g.ServedAfter != x.ServedAfter ||
			g.FirstChallenge != x.FirstChallenge || g.Honest != x.Honest || g.Challenged != x.Challenged || g.New != x.New ||
			g.NewChallenged != x.NewChallenged || g.KnownAsked != x.KnownAsked || g.LockedOut != 0 {
			t.Errorf("%s: %+v, want %+v", s.name, g, x)
		}
		m := Minute{Guesses: got.Guesses, Served: got.Served, Honest: got.Honest, Asked: got.Challenged}
		if len(minutes) > 1 || len(minutes) == 1 && minutes[0] != m || len(minutes) == 0 && m != (Minute{}) {
			t.Errorf("%s: minutes %+v, want %+v", s.name, minutes, m)
		}
	}
}

// TestMinutesAreOfTheAttack: each begins a whole number of them before or after it.
func TestMinutesAreOfTheAttack(t *testing.T) {
	w, _ := emptyWorld(t, Config{})
	for _, after := range []int64{-61, -60, -1, 0, 59, 60, 185} {
		w.clock = w.from + after*second
		w.minute().Guesses++
	}
	var got []int64
	for _, m := range w.score.Minutes {
		got = append(got, m.From, int64(m.Guesses))
	}
	want := []int64{-120, 1, -60, 2, 0, 2, 60, 1, 180, 1}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// TestAskedAsPeopleAre: who does what when refused.
func TestAskedAsPeopleAre(t *testing.T) {
	const many = 300
	for _, s := range []struct {
		name        string
		l           login
		solvers     float64
		kind        string
		least, most int // who shows a proof, of many
		waits       int
	}{
		{"an owner whose account is attacked", login{right: true, victim: true}, 0, escalation.KindCaptcha, many, many, 0},
		{"people", login{right: true}, 0, escalation.KindCaptcha, many * 8 / 10, many * 9 / 10, 0},
		{"people who are to show a code", login{right: true, victim: true}, 0, escalation.KindVerify, many, many, 0},
		{"people who are to wait show a code", login{right: true, victim: true}, 0, escalation.KindWait, many, many, 0},
		{"an application", login{app: true, victim: true}, 1, escalation.KindCaptcha, 0, 0, 0},
		{"a guess", login{attack: true}, 0, escalation.KindCaptcha, 0, 0, 0},
		{"a guess by who solves", login{attack: true}, 1, escalation.KindCaptcha, many, many, 0},
		{"by who does half of the time", login{attack: true}, 0.5, escalation.KindCaptcha, many * 4 / 10, many * 6 / 10, 0},
		{"whose mail it is not", login{attack: true}, 1, escalation.KindVerify, 0, 0, 0},
		{"who waits", login{attack: true}, 0, escalation.KindWait, 0, 0, many},
		{"and has waited twice", login{attack: true, tries: 2}, 0, escalation.KindWait, 0, 0, many},
		{"and three times", login{attack: true, tries: 3}, 0, escalation.KindWait, 0, 0, 0},
		{"the attacker's own", login{own: true, right: true}, 0, escalation.KindCaptcha, 0, 0, 0},
	} {
		w, _ := emptyWorld(t, Config{Solvers: s.solvers})
		asked := &escalation.Verdict{Action: escalation.ActionCaptcha, Challenge: &escalation.Challenge{Kind: s.kind, Token: "wait", NotBefore: time.UnixMicro(Start)}}
		proofs := 0
		for range many {
			// This token is nobody's, which only who solves it is told.
			if _, err := w.asked(t.Context(), &s.l, &escalation.Attempt{}, asked); err != nil {
				proofs++
			}
		}
		if proofs < s.least || proofs > s.most || w.retry.Len() != s.waits {
			t.Errorf("%s: %d of %d show a proof, %d wait", s.name, proofs, many, w.retry.Len())
		}
		if s.waits > 0 {
			if l := w.retry.heap[0]; l.proof != "wait" || l.at != Start+1 || l.tries != s.l.tries+1 {
				t.Errorf("%s: %+v", s.name, l)
			}
		}
	}
}

// TestOutcomesAreWhatHappened: what is reported of whom, what an outage makes of it,
// and which accounts were taken; what is hoarded is told all at once, as right.
func TestOutcomesAreWhatHappened(t *testing.T) {
	ip := netip.MustParseAddr("20.0.0.7")
	for _, s := range []struct {
		name  string
		l     login
		down  Case
		want  keys.Outcome
		taken int
	}{
		{"right", login{right: true}, "", keys.Success, 0},
		{"mistyped", login{}, "", keys.Failure, 0},
		{"nobody's", login{unknown: true}, "", keys.UnknownAccount, 0},
		{"a guess", login{attack: true}, "", keys.Failure, 0},
		{"a right guess", login{attack: true, right: true}, "", keys.Success, 1},
		{"in an outage", login{right: true}, OutageNotChecked, keys.NotChecked, 0},
		{"in one that says failure", login{attack: true, right: true}, OutageFailures, keys.Failure, 0},
		{"of nobody's", login{unknown: true}, OutageFailures, keys.Failure, 0},
	} {
		w, r := emptyWorld(t, Config{})
		if s.down != "" {
			w.outages = []Span{{Case: s.down, From: Start, To: Start + day}}
		}
		for range 2 { // the second time is no second account
			l := s.l
			l.at, l.account, l.ip, l.password = w.clock, "a", ip, "p"
			if err := w.do(t.Context(), &l); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.outcomes) != 2 || r.outcomes[0] != s.want || r.outcomes[1] != s.want || w.score.Taken != s.taken || r.attempts != 2 {
			t.Errorf("%s: %v were told of %d attempts, %d accounts taken", s.name, r.outcomes, r.attempts, w.score.Taken)
		}
	}
	w, r := emptyWorld(t, Config{})
	for range 3 {
		if err := w.do(t.Context(), &login{at: w.clock, account: "mallory0", ip: ip, password: "p", right: true, own: true, hoard: true}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.outcomes) != 0 {
		t.Errorf("%v were told before", r.outcomes)
	}
	for range 2 {
		if err := w.spend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.outcomes) != 3 || r.outcomes[2] != keys.Success {
		t.Errorf("%v were told", r.outcomes)
	}
}

// TestADeviceIsKeptAtHome and used from then on; a known one is not asked.
func TestADeviceIsKeptAtHome(t *testing.T) {
	w, _ := emptyWorld(t, Config{})
	who := &person{n: 1}
	l := login{at: w.clock, account: who.name(), ip: who.home(1), password: "p", right: true, who: who}
	for _, device := range []bool{false, true} {
		l.device = device
		if err := w.do(t.Context(), &l); err != nil {
			t.Fatal(err)
		}
		if (who.device != "") != device {
			t.Errorf("at home %v: the token is %q", device, who.device)
		}
	}
	if a := w.attempt(&l); a.Device != who.device {
		t.Errorf("%q is shown", a.Device)
	}
	if l.device = false; w.attempt(&l).Device != "" {
		t.Error("it is shown elsewhere")
	}
	if l.proof = "waited"; w.attempt(&l).Proof != "waited" {
		t.Error("who has waited does not show it")
	}
}

// TestHoardsAreSpentEveryTenMinutes of an attack, not one by one.
func TestHoardsAreSpentEveryTenMinutes(t *testing.T) {
	w, r := emptyWorld(t, Config{})
	q := &queue{}
	for i, after := range []int64{9, 11, 12, 21, 25} {
		l := &login{at: w.from + after*minute, account: "mallory0", password: "p", ip: netip.MustParseAddr("20.0.0.7"), right: true, own: true, hoard: i < 4}
		q.add(l)
	}
	if err := w.run(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	// That of 9 min with the next login, those of 11 and 12 after ten more; and the last.
	if len(r.outcomes) != 4 || len(w.hoarded) != 1 {
		t.Errorf("%v were told, %d are hoarded", r.outcomes, len(w.hoarded))
	}
}

// TestVolumeIsOfHonestAttempts: half as many guesses, whatever the scenario has.
func TestVolumeIsOfHonestAttempts(t *testing.T) {
	s, _ := ScenarioNamed("stuffing-8000x4") // 533 guesses a minute
	guesses := 0
	for _, l := range s.Play(Config{PerDay: 144_000, Volume: 0.5, Seed: 3, Before: minute, During: 20 * minute, After: minute}) {
		if l.Attack {
			guesses++
		}
	}
	if perMinute := guesses / 20; perMinute < 40 || perMinute > 60 {
		t.Errorf("%d guesses a minute of 100 honest attempts, want half", perMinute)
	}
}

// untilAsked makes guesses at a's account until a is asked for that.
func untilAsked(t *testing.T, w *world, a *escalation.Attempt, kind string) *escalation.Verdict {
	t.Helper()
	for range 100 {
		v, err := w.guard.Check(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if v.Proceed {
			continue
		}
		if v.Challenge.Kind == kind {
			return v
		}
		b := *a
		if b.Proof, err = w.guard.Solve(t.Context(), v.Challenge.Token, keys.Verify); err != nil {
			t.Fatal(err)
		}
		if _, err := w.guard.Check(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("nobody is asked for %s", kind)
	return nil
}

// TestASolvedPictureIsServed: to an attacker who solves them as to an owner, once.
func TestASolvedPictureIsServed(t *testing.T) {
	for _, s := range []struct {
		l       login
		outcome keys.Outcome
		want    [4]int // guesses, served, honest, asked
	}{
		{login{attack: true}, keys.Failure, [4]int{1, 1, 0, 0}},
		{login{right: true, victim: true}, keys.Success, [4]int{0, 0, 1, 1}},
		{login{right: true, own: true}, keys.Success, [4]int{}},
	} {
		w, r := emptyWorld(t, Config{Solvers: 1})
		s.l.at, s.l.account, s.l.ip, s.l.password = w.clock, "a", netip.MustParseAddr("20.0.0.7"), "p"
		untilAsked(t, w, w.attempt(&s.l), escalation.KindCaptcha)
		if err := w.do(t.Context(), &s.l); err != nil {
			t.Fatal(err)
		}
		is := w.score
		if got := [4]int{is.Guesses, is.Served, is.Honest, is.Challenged}; got != s.want || is.LockedOut != 0 {
			t.Errorf("%+v: guesses, served, honest, asked are %v, want %v; %d locked out", s.l, got, s.want, is.LockedOut)
		}
		if len(r.outcomes) != 1 || r.outcomes[0] != s.outcome || r.attempts != 2 {
			t.Errorf("%+v: %v of %d attempts", s.l, r.outcomes, r.attempts)
		}
	}
}

// TestOwnersThatAreLockedOutAreCounted: who is refused with the proof in hand; an
// attacker who is, or somebody who mistyped, is none.
func TestOwnersThatAreLockedOutAreCounted(t *testing.T) {
	ip := netip.MustParseAddr("20.0.0.7")
	for _, s := range []struct {
		name string
		l    login
		want int
	}{
		{"an owner", login{right: true, victim: true}, 1},
		{"who mistyped", login{victim: true}, 0},
		{"an attacker", login{right: true, attack: true}, 0},
		{"his own account", login{right: true, own: true}, 0},
	} {
		w, _ := emptyWorld(t, Config{Solvers: 1})
		s.l.at, s.l.account, s.l.ip, s.l.password = w.clock, "a", ip, "p"
		// A picture is asked for, and by the time it is solved a code is: as a fault of
		// the guard's would have it for everybody.
		a := w.attempt(&s.l)
		picture := untilAsked(t, w, a, escalation.KindCaptcha)
		untilAsked(t, w, a, escalation.KindVerify)
		if _, err := w.again(t.Context(), &s.l, a, picture, keys.Captcha); err != nil {
			t.Fatal(err)
		}
		if w.score.LockedOut != s.want {
			t.Errorf("%s: %d locked out", s.name, w.score.LockedOut)
		}
	}
}

// TestLookBooksWhenItBeganAndEnded.
func TestLookBooksWhenItBeganAndEnded(t *testing.T) {
	const before, during, end = -10 * minute, 10 * minute, hour
	for _, s := range []struct {
		name    string
		tight   []int64 // from when to when, in turn, since the attack's start
		posture int64
		relaxed int64
		early   bool
	}{
		{"never", nil, -1, -1, false},
		{"in the attack", []int64{2 * minute, hour + 5*minute}, 2 * minute, 5 * minute, false},
		{"over before the attack is", []int64{2 * minute, 30 * minute}, 2 * minute, 0, false},
		{"again after it", []int64{2 * minute, hour + 5*minute, hour + 20*minute, hour + 30*minute}, 2 * minute, 30 * minute, false},
		{"for ever", []int64{2 * minute, 9 * hour}, 2 * minute, -1, false},
		{"early", []int64{-5 * minute, 5 * minute}, 0, 0, true},
		{"early and over", []int64{-9 * minute, -5 * minute}, -1, -1, false},
	} {
		w, _ := emptyWorld(t, Config{})
		spaces := keys.NewSpaces(realmName, 1)
		for at := int64(before); at <= end+hour; at += minute {
			w.clock = w.from + at
			c := keys.Control{Epoch: w.clock}
			for i := 0; i < len(s.tight); i += 2 {
				if at >= s.tight[i] && at < s.tight[i+1] {
					c.Posture, c.Until = keys.High, w.clock+hour
				}
			}
			if _, err := spaces.SetControl(t.Context(), w.store, &c, w.clock); err != nil {
				t.Fatal(err)
			}
			if err := w.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m := w.score.Minutes[len(w.score.Minutes)-1]; m.Posture != int(c.Posture) {
				t.Fatalf("%s: minute %+v with %v", s.name, m, c.Posture)
			}
		}
		if got := w.score; got.Posture != s.posture || got.Relaxed != s.relaxed || got.Early != s.early || (got.Top == keys.High) != (len(s.tight) > 0) {
			t.Errorf("%s: posture after %d s, normal after %d s, early %v, top %v", s.name, got.Posture/second, got.Relaxed/second, got.Early, got.Top)
		}
	}
}

// TestSuspectsOfTheAttackCount, and not those of the background; where there is no
// attack those of anybody else.
func TestSuspectsOfTheAttackCount(t *testing.T) {
	p := netip.MustParsePrefix("10.0.0.1/32")
	wide := netip.MustParsePrefix("10.0.0.0/24")
	for _, s := range []struct {
		name string
		set  func(w *world)
		want bool
	}{
		{"nobody", func(*world) {}, false},
		{"an address of the attack", func(w *world) { w.theirs[p] = true }, true},
		{"somebody's in an attack", func(w *world) { w.attacked = true }, false},
		{"somebody's without one", func(*world) {}, true},
		{"the background's", func(w *world) { w.scans[p] = true }, false},
		{"a password of the attack", func(w *world) { w.attacked, w.tags["t"] = true, true }, true},
	} {
		w, _ := emptyWorld(t, Config{})
		w.detector = detect.New(1)
		for i := range 25 { // from one address, with one password
			if s.name == "nobody" {
				break
			}
			x := detect.Sight{At: w.clock, Class: detect.Cold, Account: string(rune('a' + i)), Source: p, Wide: wide, Tag: "t"}
			w.detector.See(&x)
		}
		s.set(w)
		if got := w.suspected(); got != s.want {
			t.Errorf("%s: suspected is %v", s.name, got)
		}
		if err := w.look(t.Context()); err != nil || (w.score.Posture == 0) != s.want {
			t.Errorf("%s: found after %d, %v", s.name, w.score.Posture, err)
		}
	}
	// What a login of each kind leaves behind.
	w, _ := emptyWorld(t, Config{})
	for _, l := range []login{{attack: true, ip: netip.MustParseAddr("10.0.0.1")}, {scan: true, ip: netip.MustParseAddr("150.0.0.1")}, {right: true, ip: netip.MustParseAddr("20.0.0.1")}} {
		l.at, l.account, l.password = w.clock, "a", "p"
		if err := w.do(t.Context(), &l); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.theirs) != 2 || !w.theirs[p] || !w.theirs[wide] || len(w.scans) != 2 || len(w.tags) != 1 {
		t.Errorf("the attack's %v, the background's %v, %d tags", w.theirs, w.scans, len(w.tags))
	}
}
