package soc

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// told is what a tracker makes of one finding, in short.
func told(r *Record) string {
	if r == nil {
		return "-"
	}
	return r.Change.String()
}

// minute is a finding as it was n minutes after it began.
func minute(n int, change func(*aggregate.Finding)) *aggregate.Finding {
	f := finding("spray", "open")
	f.Posture, f.Guesses, f.Accounts, f.Sources, f.Groups, f.Done = "", 20, 20, 1, nil, nil
	f.Last = began.Add(time.Duration(n) * time.Minute)
	if change != nil {
		change(f)
	}
	return f
}

func TestACampaignIsToldOnceForEachChange(t *testing.T) {
	tr := NewTracker(Filter{}, 0)
	for i, step := range []struct {
		f    *aggregate.Finding
		want string
	}{
		{minute(0, nil), "opened"},
		{minute(0, nil), "-"}, // comes again
		{minute(1, func(f *aggregate.Finding) { f.Guesses = 60 }), "-"},
		{minute(2, func(f *aggregate.Finding) { f.Guesses = 160 }), "updated"}, // tenfold
		{minute(1, func(f *aggregate.Finding) { f.Guesses = 60 }), "-"},        // an old message
		{minute(3, func(f *aggregate.Finding) { f.Guesses, f.Posture = 200, "elevated" }), "updated"},
		{minute(4, func(f *aggregate.Finding) { f.Guesses, f.Posture = 201, "elevated" }), "-"},
		{minute(5, func(f *aggregate.Finding) {
			f.Guesses, f.Posture, f.Done = 202, "elevated", []aggregate.FindingAction{{Time: began, What: "password suspect"}}
		}), "updated"},
		{minute(5, func(f *aggregate.Finding) {
			f.Guesses, f.Posture, f.Done = 202, "elevated", []aggregate.FindingAction{{Time: began, What: "password suspect"}}
			f.Groups = []aggregate.FindingGroup{{Kind: "password", Key: "0123456789abcdef"}}
		}), "updated"},
		{minute(60, func(f *aggregate.Finding) { f.State, f.End = "closed", f.Last }), "closed"},
		{minute(60, func(f *aggregate.Finding) { f.State, f.End = "closed", f.Last }), "-"},
		{minute(0, nil), "-"}, // the log is read again
		{minute(61, nil), "-"},
		{minute(0, func(f *aggregate.Finding) { f.Realm = "other" }), "opened"}, // ids are a realm's own
	} {
		if got := told(tr.Take(step.f, began)); got != step.want {
			t.Errorf("step %d: %s, not %s", i, got, step.want)
		}
	}
}

func TestAMomentIsToldOnce(t *testing.T) {
	tr, f := NewTracker(Filter{}, 0), finding("operator_action", "once")
	for i, want := range []string{"once", "-", "-"} {
		if got := told(tr.Take(f, began)); got != want {
			t.Errorf("%d: %s", i, got)
		}
	}
}

// A tracker that was started anew tells of the close of what it has never heard of:
// somebody may have been told of the opening.
func TestACloseIsToldAfterARestart(t *testing.T) {
	f := finding("spray", "closed")
	if got := told(NewTracker(Filter{}, 0).Take(f, began)); got != "closed" {
		t.Error(got)
	}
	a, b := NewTracker(Filter{}, 0).Take(f, began), NewTracker(Filter{}, 0).Take(f, began.Add(time.Hour))
	if a.ID != b.ID {
		t.Errorf("the same change has the ids %s and %s", a.ID, b.ID)
	}
	if g := finding("spray", "open"); OfFinding(g, Opened).ID != OfFinding(g, Updated).ID || OfFinding(g, Opened).ID == a.ID {
		t.Error("an id is not that of the change")
	}
}

// What nobody was told of is not closed before them, and what matters only later is
// opened then.
func TestAFilterGoesByWhatIsKnownByThen(t *testing.T) {
	tr := NewTracker(Filter{Min: High}, 0)
	quiet := func(f *aggregate.Finding) { f.ID = "quiet" }
	for i, step := range []struct {
		f    *aggregate.Finding
		want string
	}{
		{minute(0, nil), "-"},
		{minute(1, func(f *aggregate.Finding) { f.Posture = "high" }), "opened"},
		{minute(2, func(f *aggregate.Finding) { f.State, f.End, f.Posture = "closed", f.Last, "high" }), "closed"},
		{minute(0, quiet), "-"},
		{minute(9, func(f *aggregate.Finding) { quiet(f); f.State, f.End = "closed", f.Last }), "-"},
	} {
		if got := told(tr.Take(step.f, began)); got != step.want {
			t.Errorf("step %d: %s, not %s", i, got, step.want)
		}
	}
	for name, f := range map[string]Filter{"kind": {What: []string{"hammering"}}, "realm": {Realms: []string{"other"}}, "severity": {Min: Critical}} {
		if got := told(NewTracker(f, 0).Take(minute(0, nil), began)); got != "-" {
			t.Errorf("another %s is told: %s", name, got)
		}
	}
}

func TestDecisionsAreFiltered(t *testing.T) {
	shadow := attempt("allow")
	shadow.Shadow, shadow.Would = true, "captcha"
	end := attempt("")
	end.Kind = aggregate.KindEnd
	for _, tt := range []struct {
		e    *aggregate.Event
		want string // of the choices
	}{
		{attempt("allow"), "all"}, {attempt("delay"), "refused all"}, {attempt("deny"), "refused all"},
		{shadow, "refused all"}, {outcome("failure"), "all"}, {outcome("success"), "all"}, {end, ""},
	} {
		var got []string
		for _, d := range []Decisions{NoDecisions, RefusedDecisions, AllDecisions} {
			if f := (Filter{Decisions: d}); f.passes(OfEvent(tt.e)) {
				got = append(got, string(d))
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s %s%s: %q, not %q", tt.e.Kind, tt.e.Action, tt.e.Outcome, s, tt.want)
		}
	}
}

// Two hundred campaigns in a minute are an attack on whoever reads of them: ten are
// told, and how many were held back; those that go on are told later.
func TestACapHoldsBackAndSaysSo(t *testing.T) {
	tr := NewTracker(Filter{}, 10)
	numbered := func(i, m int) *aggregate.Finding {
		return minute(m, func(f *aggregate.Finding) { f.ID = fmt.Sprint("spray-", i) })
	}
	take := func(from, to, m int, at time.Time) (n int) {
		for i := from; i < to; i++ {
			if tr.Take(numbered(i, m), at) != nil {
				n++
			}
		}
		return n
	}
	if n := take(0, 200, 0, began); n != 10 {
		t.Errorf("%d are told at once", n)
	}
	if r := tr.Due(began.Add(59 * time.Second)); r != nil {
		t.Error("what was held back is told of before the minute is over")
	}
	if r := tr.Take(minute(2, func(f *aggregate.Finding) { f.ID, f.State, f.End = "spray-3", "closed", f.Last }), began); told(r) != "closed" {
		t.Error("the close of one that was told is held back")
	}
	r := tr.Due(began.Add(time.Minute))
	if r == nil || r.Finding.What != HeldBack || !strings.Contains(r.Finding.Reason, "190 findings") || !strings.Contains(r.Finding.Reason, "190 spray") {
		t.Fatalf("%+v", r)
	}
	if tr.Due(began.Add(2*time.Minute)) != nil {
		t.Error("it is told twice")
	}
	// A minute later they go on: ten more are told, for which the cap has room.
	if n := take(100, 200, 1, began.Add(3*time.Minute)); n != 10 {
		t.Errorf("%d of those that go on are told", n)
	}
	if tr.HeldBack() != 190 {
		t.Errorf("%d held back: each is counted once", tr.HeldBack())
	}
	if told(tr.Take(minute(9, func(f *aggregate.Finding) { f.ID, f.State, f.End = "spray-50", "closed", f.Last }), began)) != "-" {
		t.Error("one that nobody was told of is closed before them")
	}
}

// The rate of the cap over an hour is what it says, however findings come.
func TestTheCapIsKeptOverTime(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, 700 * time.Millisecond, 5 * time.Second, 61 * time.Second} {
		tr, n := NewTracker(Filter{}, 7), 0
		for i, at := 0, time.Duration(0); at < time.Hour && i < 10000; i, at = i+1, at+step {
			if tr.Take(minute(0, func(f *aggregate.Finding) { f.ID = fmt.Sprint(i) }), began.Add(at)) != nil {
				n++
			}
		}
		if over := min(time.Hour, 10000*step); n > 7+int(over*7/time.Minute) {
			t.Errorf("one each %v: %d told in %v", step, n, over)
		}
	}
}

func TestWhatATrackerRemembersIsBounded(t *testing.T) {
	tr := NewTracker(Filter{}, 0)
	for i := range 3 * campaignsKept {
		tr.Take(minute(0, func(f *aggregate.Finding) { f.ID = fmt.Sprint(i) }), began.Add(time.Duration(i)*time.Second))
		if len(tr.campaigns) > campaignsKept {
			t.Fatalf("%d campaigns", len(tr.campaigns))
		}
	}
	if tr.Take(minute(0, func(f *aggregate.Finding) { f.ID = fmt.Sprint(3*campaignsKept - 1) }), began) != nil {
		t.Error("the one heard of last is forgotten")
	}
}

// docs/findings.md and the table say the same.
func TestEveryKindOfFindingHasItsRow(t *testing.T) {
	text, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "| field |")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(head, -1) {
		if m[1] == "what" { // the head of the table
			continue
		}
		documented = append(documented, m[1])
		if _, ok := kinds[m[1]]; !ok {
			t.Errorf("%s of docs/findings.md has no title and no severity", m[1])
		}
	}
	if slices.Sort(documented); !slices.Equal(documented, slices.DeleteFunc(Kinds(), func(k string) bool { return k == HeldBack })) {
		t.Errorf("%v there, %v here", documented, Kinds())
	}
	techniques := regexp.MustCompile(`^(T\d{4}(\.\d{3})?)?$`)
	for what, k := range kinds {
		if k.title == "" || k.severity == 0 || k.analytic == 0 || !techniques.MatchString(k.attack[0]) || (k.tactic[0] == "") != (k.attack[0] == "") ||
			k.sub[0] != "" && !strings.HasPrefix(k.sub[0], k.attack[0]+".") {
			t.Errorf("%s: %+v", what, k)
		}
	}
}
