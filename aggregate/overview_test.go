package aggregate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/keys"
)

// TestWhatAnOverviewCounts: minutes by what was answered and reported, networks and
// accounts by what went wrong there, and nothing for ever.
func TestWhatAnOverviewCounts(t *testing.T) {
	r := newRealm("shop")
	at := monday
	see := func(n int, e Event) {
		for range n {
			r.seen.see(&e, at)
		}
	}
	attempt := func(account, network, would string) Event {
		return Event{Kind: KindAttempt, Account: account, Network: network, Would: would, Action: would}
	}
	outcome := func(account, network, what string) Event {
		return Event{Kind: KindOutcome, Account: account, Network: network, Outcome: what}
	}
	see(3, attempt("a", "192.0.2.0/24", "allow"))
	see(2, outcome("a", "192.0.2.0/24", "success"))
	at += 60 * keys.Second
	see(5, attempt("a", "198.51.100.0/24", "captcha"))
	see(1, attempt("a", "198.51.100.0/24", "verify"))
	see(1, attempt("b", "203.0.113.0/24", "deny"))
	see(4, outcome("b", "203.0.113.0/24", "failure"))
	see(1, outcome("b", "203.0.113.0/24", "unknown_account"))
	see(1, outcome("b", "203.0.113.0/24", "not_checked"))
	own := outcome("c", "203.0.113.0/24", "failure")
	own.Familiar = true
	see(9, own) // the owner's own mistakes make nobody a target
	again := outcome("d", "203.0.113.0/24", "failure")
	again.Duplicate = true
	see(9, again)
	shadow := attempt("d", "203.0.113.0/24", "delay")
	shadow.Shadow, shadow.Action = true, "allow"
	see(1, shadow)

	o := r.overview(at + 59*keys.Second)
	if len(o.Minutes) != minutesShown || !o.Shadow || !o.AsOf.Equal(micro(at)) || !o.Since.Equal(micro(monday)) {
		t.Fatalf("%+v", o)
	}
	last := o.Minutes[minutesShown-2:]
	if d := cmp.Diff([]Minute{{Time: micro(monday), Allow: 3, Successes: 2},
		{Time: micro(monday + 60*keys.Second), Captcha: 5, Verify: 1, Deny: 1, Delay: 1, Failures: 14}}, last); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]OverviewNetwork{{Network: "203.0.113.0/24", Load: Load{Asked: 2, Failures: 14}}, {Network: "198.51.100.0/24", Load: Load{Asked: 6}}}, o.Networks); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]OverviewAccount{{"a", Load{Asked: 6}}, {"b", Load{Asked: 1, Failures: 5}}, {"d", Load{Asked: 1}}}, o.Accounts); d != "" {
		t.Error(d)
	}
	if o = r.overview(at + 25*60*keys.Second); len(o.Networks) != 0 || o.Minutes[5].Captcha+o.Minutes[4].Captcha+o.Minutes[3].Captcha != 5 {
		t.Errorf("after 25 minutes: %+v", o)
	}
	if o = r.overview(at + 40*60*keys.Second); cmp.Diff(Minute{Time: o.Minutes[0].Time}, o.Minutes[0]) != "" {
		t.Errorf("after 40 minutes: %+v", o.Minutes)
	}
	late := newRealm("shop")
	for _, at := range []int64{monday, monday - 40*60*keys.Second} {
		e := attempt(fmt.Sprint(at), "203.0.113.0/24", "captcha")
		late.seen.see(&e, at)
	}
	if o = late.overview(monday); len(o.Accounts) != 1 || o.Accounts[0].Account != fmt.Sprint(monday) {
		t.Errorf("what came too late counts: %+v", o.Accounts)
	}
}

// TestWhatIsBusyStaysThroughAFloodOfNames, in bounded memory.
func TestWhatIsBusyStaysThroughAFloodOfNames(t *testing.T) {
	var b busy[string]
	at := monday
	for i := range 40 * busyKept {
		b.add(at, fmt.Sprint("name ", i), Load{Failures: 1})
		if i%1000 == 0 {
			b.add(at, "target", Load{Failures: 3})
			b.add(at, "suspect", Load{Asked: 5})
		}
		b.add(at, fmt.Sprint("calm ", i), Load{Successes: 1})
		if n := len(b.young); n > busyKept {
			t.Fatalf("%d are kept", n)
		}
	}
	top, _ := b.top(at, 3)
	if top[0].key != "suspect" || top[1].key != "target" || top[1].Failures < 3*40 || top[2].weight() > 3 {
		t.Errorf("%+v", top)
	}
	b.add(at, "target", Load{Successes: 7})
	if top, _ = b.top(at, 2); top[1].Successes != 7 {
		t.Errorf("%+v", top[1])
	}
	if top, _ = b.top(at+2*busySpan, 3); len(top) != 0 {
		t.Errorf("twenty minutes later: %+v", top)
	}
}
