package aggregate

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/guardd/guardd/keys"
)

// TestClassesOfEvents is the score sheet of what counts as what. Every line is one
// event of one realm, in order.
func TestClassesOfEvents(t *testing.T) {
	const s, minute, hour = keys.Second, 60 * keys.Second, 3600 * keys.Second
	c := newClasser()
	attempt := func(account, action string, more ...func(*Event)) Event {
		e := Event{Kind: KindAttempt, Flow: login, Account: account, Action: action}
		for _, f := range more {
			f(&e)
		}
		return e
	}
	outcome := func(account, outcome string, more ...func(*Event)) Event {
		e := Event{Kind: KindOutcome, Flow: login, Account: account, Outcome: outcome}
		for _, f := range more {
			f(&e)
		}
		return e
	}
	known, familiar := func(e *Event) { e.KnownDevice = true }, func(e *Event) { e.Familiar = true }
	again := func(e *Event) { e.Repeat = true }
	proof := func(e *Event) { e.Proof = "captcha" }
	of := func(attempt string) func(*Event) { return func(e *Event) { e.Attempt = attempt } }
	at := int64(1_800_000_000) * s
	for i, step := range []struct {
		later int64
		e     Event
		ip    string
		want  string // class, solved, taken, given, not checked: what is not 0
	}{
		// Successes, once an hour an account.
		{0, outcome("a", "success"), "192.0.2.1", "success given"},
		{minute, outcome("a", "success", known), "192.0.2.1", ""},
		{0, outcome("b", "success", known), "192.0.2.1", "success"},
		{hour, outcome("a", "success", familiar), "198.51.100.1", "success"},
		{0, outcome("a", "success", func(e *Event) { e.Duplicate = true }), "192.0.2.1", ""},
		{0, outcome("c", "success", func(e *Event) { e.Expired = true }), "192.0.2.1", ""},
		{0, outcome("c", "success", func(e *Event) { e.Flow = "otp" }), "192.0.2.1", ""},

		// Failures: where the account is at home they are warm.
		{0, outcome("a", "failure"), "192.0.2.1", "cold"},
		{0, outcome("a", "failure", known), "192.0.2.1", "warm"},
		{0, outcome("a", "failure", familiar), "192.0.2.1", "warm"},
		{0, outcome("nobody", "unknown_account"), "192.0.2.1", "cold unknown"},
		{0, outcome("a", "abandoned"), "192.0.2.1", "cold"},
		{0, outcome("a", "not_checked"), "192.0.2.1", "given unchecked"},
		{0, outcome("a", "denied_by_policy"), "192.0.2.1", "given"},

		// A password that has been wrong is no guess, from wherever it comes: it took
		// nothing, got nothing back, and is asked for nothing that it would solve.
		{0, attempt("a", "allow", again), "192.0.2.1", ""},
		{0, outcome("a", "failure", again), "192.0.2.1", "repeat"},
		{0, outcome("a", "unknown_account", again), "203.0.113.9", "repeat unknown"},
		{0, outcome("a", "failure", again, known), "192.0.2.1", "repeat"},
		{0, outcome("a", "second_factor_pending", again), "192.0.2.1", ""},
		{0, outcome("a", "not_checked", again), "192.0.2.1", "unchecked"},
		{0, attempt("g", "captcha", again), "192.0.2.1", "repeat"},
		{0, attempt("g", "captcha", again, familiar), "192.0.2.1", "repeat"},
		{0, attempt("g", "allow", again, proof), "192.0.2.1", ""},
		{0, attempt("g", "deny", again), "192.0.2.1", ""},

		// Who is asked and goes on has solved what was asked, from wherever in the
		// network; who was never asked solves nothing.
		{0, attempt("a", "captcha"), "192.0.2.1", "unsolved"},
		{0, attempt("a", "delay"), "192.0.2.1", "unsolved"},
		{0, attempt("a", "allow", proof), "198.51.100.1", "taken"},
		{minute, attempt("a", "allow", proof), "192.0.2.99", "solved2 taken"},
		{0, attempt("a", "allow", proof), "192.0.2.99", "taken"},
		{0, attempt("d", "verify"), "192.0.2.1", "unsolved"},
		{50 * minute, attempt("d", "allow", proof), "192.0.2.1", "taken"}, // no challenge lives so long
		{0, attempt("a", "captcha", known), "192.0.2.1", ""},
		{0, attempt("a", "captcha", familiar), "192.0.2.1", ""},
		{0, attempt("a", "allow", familiar), "192.0.2.1", ""},
		{0, attempt("a", "deny"), "192.0.2.1", ""}, // an operator has seen to it

		// A second factor: the password was right, and its token came back once.
		{0, attempt("e", "allow", of("x")), "192.0.2.1", "taken"},
		{0, outcome("e", "second_factor_pending", of("x")), "192.0.2.1", "given"},
		{0, outcome("e", "success", of("x")), "192.0.2.1", "success"},
		{0, outcome("f", "second_factor_pending", of("y")), "192.0.2.1", "given"},
		{0, outcome("f", "failure", of("y")), "192.0.2.1", ""},
		{0, outcome("f", "failure", of("z")), "192.0.2.1", "cold"},
	} {
		at += step.later
		out := c.class(&step.e, at, accountHash(step.e.Account), address(step.ip))
		got := ""
		add := func(yes bool, word string) {
			if yes && got != "" {
				got += " "
			}
			if yes {
				got += word
			}
		}
		add(out.counts, out.sight.Class.String())
		add(out.sight.Unknown, "unknown")
		add(out.solved == 2, "solved2")
		add(out.taken > 0, "taken")
		add(out.given > 0, "given")
		add(out.notCheck > 0, "unchecked")
		if got != step.want || out.solved != 0 && out.solved != 2 {
			t.Errorf("step %d: %+v counts as %q, not %q", i, step.e, got, step.want)
		}
		if out.counts && (out.sight.At != at || out.sight.Source != address(step.ip).Counted() || out.sight.Wide != address(step.ip).Wide() || out.sight.Tag != step.e.Tag) {
			t.Errorf("step %d: seen as %+v", i, out.sight)
		}
	}
}

// Accounts' hours do not begin together: of many that sign in all the time, none
// of a day's seconds sees more than a few counted.
func TestSuccessesOfAnHourAreSpreadOverIt(t *testing.T) {
	c, bySecond := newClasser(), map[int64]int{}
	all := 0
	for at := int64(1_800_000_000) * keys.Second; at < 1_800_010_800*keys.Second; at += 10 * keys.Second {
		for account := range uint64(360) {
			if !c.signedIn(at, fingerprint(account)) {
				bySecond[at]++
				all++
			}
		}
		if at > 1_800_000_000*keys.Second && bySecond[at] > 12 {
			t.Errorf("%d accounts are counted at once", bySecond[at])
		}
	}
	if all < 3*360 || all > 4*360 {
		t.Errorf("360 accounts count %d times in three hours", all)
	}
}

// TestAnOutcomeKnowsYesterdaysTag: only an attempt carries it. Without it every
// midnight makes every password one that nobody has tried before.
func TestAnOutcomeKnowsYesterdaysTag(t *testing.T) {
	c := newClasser()
	before := func(e Event) string {
		e.Flow, e.Account = login, "a"
		return c.class(&e, 1, 1, keys.AddressOf(netip.MustParseAddr("192.0.2.1"))).sight.TagBefore
	}
	failed := Event{Kind: KindOutcome, Outcome: "failure", Tag: "today"}
	if got := before(failed); got != "" {
		t.Errorf("nobody has said that it was %q", got)
	}
	before(Event{Kind: KindAttempt, Action: "allow", Tag: "today", TagPrev: "yesterday"})
	if got := before(failed); got != "yesterday" {
		t.Errorf("yesterday's tag is %q", got)
	}
	if got := before(Event{Kind: KindOutcome, Outcome: "failure", Tag: "today", TagPrev: "sealed", Repeat: true}); got != "sealed" {
		t.Errorf("of a repeat it is %q", got)
	}
	if got := before(Event{Kind: KindOutcome, Outcome: "failure"}); got != "" {
		t.Errorf("without a password it is %q", got)
	}
	for i := range 3 * tagsKept / 2 {
		before(Event{Kind: KindAttempt, Action: "allow", Tag: strconv.Itoa(i), TagPrev: "x"})
	}
	if got := before(failed); got != "yesterday" {
		t.Errorf("after half of what is kept it is %q", got)
	}
	for i := range 3 * tagsKept {
		before(Event{Kind: KindAttempt, Action: "allow", Tag: "y" + strconv.Itoa(i), TagPrev: "x"})
	}
	if n := len(c.yesterdays) + len(c.yesterdaysBefore); n > 2*tagsKept || before(failed) != "" {
		t.Errorf("%d are kept", n)
	}
}
