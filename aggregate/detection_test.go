package aggregate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

// monday is one at midnight, in microseconds.
const monday = 4*keys.Day + 2800*7*keys.Day

// quiet feeds w bins of a site with 40 successes and 12 cold failures each, for
// so long, and returns what it had done last and where the next bin begins.
func quiet(w *Detection, from int64, long int64, attack func(i int) detect.Sight, n int) (acts []Act, next int64) {
	at := from
	for ; at < from+long; at += detect.Width {
		b := detect.Bin{Start: at, Taken: 14}
		b.Count[detect.Success], b.Count[detect.Cold] = 40, 12
		for i := range n {
			s := attack(i)
			s.At = at + 1
			w.See(&s)
			b.Observe(&s)
		}
		acts = append(acts, w.Bin(&b))
	}
	return acts, at
}

// oneSource are guesses at other accounts each, from one address.
func oneSource(i int) detect.Sight {
	p := netip.MustParsePrefix("198.51.100.7/32")
	return detect.Sight{Class: detect.Cold, Account: fmt.Sprint("a", i), Source: p, Wide: netip.MustParsePrefix("198.51.100.0/24")}
}

// everywhere are guesses from an address each.
func everywhere(i int) detect.Sight {
	a := netip.AddrFrom4([4]byte{10, byte(i), byte(i * 7), 1})
	return detect.Sight{Class: detect.Cold, Account: fmt.Sprint("a", i), Source: netip.PrefixFrom(a, 32), Wide: netip.PrefixFrom(a, 24).Masked(), Breached: true}
}

func learnedDetection(t *testing.T, c DetectionConfig) (*Detection, int64) {
	t.Helper()
	w, err := NewDetection(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, at := quiet(w, monday, 8*keys.Day, nil, 0)
	return w, at
}

func controls(acts []Act) (list []*keys.Control) {
	for _, a := range acts {
		if a.Control != nil {
			list = append(list, a.Control)
		}
	}
	return list
}

// TestDetectionBeats: what is in force is set again and again before it lapses,
// and let go at the end.
func TestDetectionBeats(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	begin := at
	acts, at := quiet(w, at, 10*60*keys.Second, everywhere, 60)
	list := controls(acts)
	last := begin
	for _, c := range list {
		if c.Posture > keys.Normal {
			if c.Until != c.Epoch+lapse {
				t.Fatalf("at %d s the posture lapses in %d s", (c.Epoch-begin)/keys.Second, (c.Until-c.Epoch)/keys.Second)
			}
			if gap := c.Epoch - last; gap > 60*keys.Second {
				t.Errorf("%d s without a beat", gap/keys.Second)
			}
		}
		last = c.Epoch
	}
	if c := list[len(list)-1]; c.Posture != keys.Critical || c.Baseline.Zero() {
		t.Errorf("the last one sets %+v", c)
	}
	acts, _ = quiet(w, at, 2*3600*keys.Second, nil, 0)
	list = controls(acts)
	if c := list[len(list)-1]; c.Posture != keys.Normal || c.Until != 0 {
		t.Errorf("two hours later %+v is set", c)
	}
}

// TestDetectionLetsSuspectsGo: a suspect is set, and once it has lapsed said to be none.
func TestDetectionLetsSuspectsGo(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	bad := oneSource(0).Source
	acts, at := quiet(w, at, 5*60*keys.Second, oneSource, 60)
	list := controls(acts)
	if c := list[len(list)-1]; c.Posture != keys.Normal || c.Suspects[bad] <= c.Epoch {
		t.Fatalf("in the attack %+v is set", c)
	}
	acts, _ = quiet(w, at, 3600*keys.Second, nil, 0)
	gone := slices.IndexFunc(controls(acts), func(c *keys.Control) bool {
		until, ok := c.Suspects[bad]
		return ok && until <= c.Epoch
	})
	if gone < 0 {
		t.Error("it is never let go")
	}
	if c := controls(acts); len(c[len(c)-1].Suspects) != 0 {
		t.Errorf("at last %+v is set", c[len(c)-1])
	}
}

// TestDetectionSuspectsPasswords: a sprayed password's tag is set, under the key
// of the day as events have it.
func TestDetectionSuspectsPasswords(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	n := 0
	acts, _ := quiet(w, at, 10*60*keys.Second, func(int) detect.Sight {
		n++
		s := everywhere(n)
		s.Account, s.Tag = fmt.Sprint("v", n), "0123456789abcdef"
		return s
	}, 1)
	list := controls(acts)
	if c := list[len(list)-1]; c.Tags["0123456789abcdef"] <= c.Epoch || len(c.Tags) != 1 {
		t.Errorf("after %d accounts %+v is set", n, c)
	}
	for _, c := range list {
		if len(c.Tags) > 0 {
			if at := (c.Epoch - at) / keys.Second; at > 250 {
				t.Errorf("it is set after %d accounts", at/10)
			}
			break
		}
	}
}

// TestDetectionDryRun finds and sets nothing.
func TestDetectionDryRun(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop", DryRun: true})
	acts, _ := quiet(w, at, 5*60*keys.Second, everywhere, 60)
	if list := controls(acts); len(list) > 0 {
		t.Errorf("it sets %+v", list[0])
	}
	found := false
	for _, a := range acts {
		for _, b := range a.Findings {
			var f Finding
			if err := json.Unmarshal(b, &f); err != nil {
				t.Fatal(err)
			}
			found = found || f.What == "distributed_guessing" && f.DryRun && f.Realm == "shop" && f.Posture == "critical"
		}
	}
	if !found {
		t.Error("it finds nothing")
	}
}

// TestDetectionGoesOn: a successor in the middle of an attack changes nothing by
// itself, knows what is normal, and lets go in its time.
func TestDetectionGoesOn(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	_, at = quiet(w, at, 10*60*keys.Second, everywhere, 60)
	next, err := NewDetection(DetectionConfig{Realm: "shop"}, w.State())
	if err != nil {
		t.Fatal(err)
	}
	acts, at := quiet(next, at, 60*keys.Second, everywhere, 60)
	for _, c := range controls(acts) {
		if c.Posture != keys.Critical {
			t.Errorf("the successor sets %v", c.Posture)
		}
	}
	if len(controls(acts)) == 0 {
		t.Error("the successor does not beat")
	}
	acts, _ = quiet(next, at, 3600*keys.Second, nil, 0)
	list := controls(acts)
	if c := list[len(list)-1]; c.Posture != keys.Normal {
		t.Errorf("an hour later %v is set", c.Posture)
	}
	closed := false
	for _, a := range acts {
		for _, b := range a.Findings {
			closed = closed || strings.Contains(string(b), `"closed"`) && strings.Contains(string(b), "distributed_guessing")
		}
	}
	if !closed {
		t.Error("the campaign that it took over is not closed")
	}
}

// TestWhatGoesOnIsToldOnce: a campaign that a predecessor has told of is no new one,
// and is counted as open.
func TestWhatGoesOnIsToldOnce(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	_, at = quiet(w, at, 10*60*keys.Second, everywhere, 60)
	next, err := NewDetection(DetectionConfig{Realm: "shop"}, w.State())
	if err != nil {
		t.Fatal(err)
	}
	if n := next.Status().Open["distributed_guessing"]; n != 1 {
		t.Errorf("%d campaigns are open", n)
	}
	quiet(next, at, 60*keys.Second, everywhere, 60)
	found := next.Status().Found
	if found[FindingCount{"distributed_guessing", "open"}] != 0 || found[FindingCount{"distributed_guessing", "update"}] == 0 {
		t.Errorf("found: %v", found)
	}
}

// TestWhoKnowsNothingLowersNothing: a successor whose state is lost is learning, and
// leaves the posture and the baseline as they are set; what it finds of its own it sets.
func TestWhoKnowsNothingLowersNothing(t *testing.T) {
	st, spaces := keys.NewMemory(keys.MemoryConfig{}), keys.NewSpaces("shop", 3)
	const at = monday
	want := keys.Control{Epoch: at, Posture: keys.High, Until: at + lapse, Baseline: keys.Limit{Capacity: 3000, Count: 300, Period: baseline}}
	if set, err := spaces.SetControl(t.Context(), st, &want, at); !set || err != nil {
		t.Fatal(set, err)
	}
	w, err := NewDetection(DetectionConfig{Realm: "shop"}, []byte("no state"))
	if err == nil {
		t.Fatal("no state is one")
	}
	acts, _ := quiet(w, at, 5*60*keys.Second, oneSource, 60)
	list := controls(acts)
	if len(list) == 0 || len(list[len(list)-1].Suspects) == 0 {
		t.Fatal("one address that tries 60 accounts is no suspect")
	}
	last := list[len(list)-1]
	if set, err := spaces.SetControl(t.Context(), st, last, last.Epoch); !set || err != nil {
		t.Fatal(set, err)
	}
	for i, s := range spaces {
		b, err := st.Get(t.Context(), s.State())
		if err != nil {
			t.Fatal(err)
		}
		is := keys.DecodeState(b)
		if is.Posture != keys.High || is.Until != want.Until || is.Baseline.Zero() || is.Epoch != last.Epoch {
			t.Errorf("shard %d: %+v", i, is)
		}
		if b, err = st.Get(t.Context(), s.Suspect(oneSource(0).Source)); err != nil || b == nil {
			t.Errorf("shard %d: the suspect is not set: %v", i, err)
		}
	}
}

// TestDetectionReadsItAllAgain: bins that a successor is given again, older than
// the state, lower nothing.
func TestDetectionReadsItAllAgain(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	_, at = quiet(w, at, 50*60*keys.Second, nil, 0)
	_, end := quiet(w, at, 10*60*keys.Second, everywhere, 60)
	next, err := NewDetection(DetectionConfig{Realm: "shop"}, w.State())
	if err != nil {
		t.Fatal(err)
	}
	first, mid := quiet(next, end-3600*keys.Second, 50*60*keys.Second, nil, 0)
	second, _ := quiet(next, mid, 10*60*keys.Second, everywhere, 60)
	for _, c := range append(controls(first), controls(second)...) {
		if c.Posture != keys.Critical {
			t.Fatalf("at %d s before the end %v is set", (end-c.Epoch)/keys.Second, c.Posture)
		}
	}
}

// TestDetectionRefusesWhatIsNoState, and begins anew.
func TestDetectionRefusesWhatIsNoState(t *testing.T) {
	w, err := NewDetection(DetectionConfig{}, []byte("no state"))
	if err == nil || w == nil || !w.Detector().Watch.Baseline().Learning() {
		t.Errorf("%v", err)
	}
}

// TestFindingsAreFew: a campaign that changes with every guess is told once a minute.
func TestFindingsAreFew(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	acts, _ := quiet(w, at, 10*60*keys.Second, oneSource, 60)
	of := map[string]int{}
	for _, a := range acts {
		for _, b := range a.Findings {
			var f Finding
			if err := json.Unmarshal(b, &f); err != nil {
				t.Fatal(err)
			}
			of[f.What]++
		}
	}
	if n := of["distributed_guessing"]; n < 8 || n > 12 {
		t.Errorf("in ten minutes %v are told", of)
	}
}

// TestDetectionSetsAtOnce what the detector has come to with a bin, when it begins and
// when it is over: what a store has is never a bin behind. The level is published with
// the bin that changed it.
func TestDetectionSetsAtOnce(t *testing.T) {
	found := 0
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop", Found: func(*detect.Campaign) { found++ }})
	set, letGo := w.set, false
	n := 0
	another := func(i int) detect.Sight { // not in time with the beat
		s := oneSource(i)
		s.Source = netip.MustParsePrefix("192.0.2.7/32")
		return s
	}
	spraying := func(int) detect.Sight {
		n++
		s := oneSource(n)
		s.Tag = "0123456789abcdef"
		return s
	}
	for _, part := range []struct {
		attack func(int) detect.Sight
		n      int
		long   int64
	}{{nil, 0, 60}, {another, 30, 10}, {nil, 0, 1230}, {another, 30, 20}, {nil, 0, 1210}, {spraying, 30, 300}, {everywhere, 60, 600}, {nil, 0, 26 * 3600}} {
		acts, next := quiet(w, at, detect.Width, part.attack, part.n)
		for ; next <= at+part.long*keys.Second; acts, next = quiet(w, next, detect.Width, part.attack, part.n) {
			was := set.Posture
			if c := acts[0].Control; c != nil {
				set = *c
				if u, ok := c.Tags["0123456789abcdef"]; ok && u <= c.Epoch {
					letGo = true
				}
				if c.Epoch != next {
					t.Fatalf("the epoch is %d s after the bin", (c.Epoch-next)/keys.Second)
				}
			}
			if is := keys.Posture(w.d.Control.Level()); set.Posture != is {
				t.Fatalf("%v is set, and it is %v", set.Posture, is)
			}
			networks, tags := w.d.SuspectsAt(next)
			for what, n := range map[string][2]int{"networks": {len(networks), inForce(set.Suspects, set.Epoch)}, "tags": {len(tags), inForce(set.Tags, set.Epoch)}} {
				if n[0] != n[1] {
					t.Fatalf("%d s after the beginning %d %s are suspects, %d are set", (next-at)/keys.Second, n[0], what, n[1])
				}
			}
			if set.Posture != was && !bytes.Contains(bytes.Join(acts[0].Findings, nil), []byte(`"what":"posture `+set.Posture.String()+`"`)) {
				t.Errorf("%v is set, and not told: %s", set.Posture, acts[0].Findings)
			}
		}
		at = next
	}
	// 14 tokens a bin are 84 a minute: three times that, for ten minutes.
	if b := set.Baseline; b.Period != 60*keys.Second || b.Count < 230 || b.Count > 275 || b.Capacity != 10*b.Count {
		t.Errorf("the baseline is %+v", b)
	}
	if found == 0 || len(w.told) != 0 || len(set.Suspects)+len(set.Tags) > 0 || !letGo {
		t.Errorf("told of %d, %d are remembered, at last %+v is set; the password is let go %v", found, len(w.told), set, letGo)
	}
}

// inForce counts what lasts longer than that.
func inForce[K comparable](until map[K]int64, at int64) (n int) {
	for _, u := range until {
		if u > at {
			n++
		}
	}
	return n
}

// TestDetectionLapses a quarter of an hour after its last beat (DESIGN), and beats twice a minute.
func TestDetectionLapses(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	acts, end := quiet(w, at, 10*60*keys.Second, everywhere, 60)
	var last *keys.Control
	for _, c := range controls(acts) {
		if c.Posture > keys.Normal && c.Until-c.Epoch != 900*keys.Second {
			t.Errorf("it lapses in %d s", (c.Until-c.Epoch)/keys.Second)
		}
		if last != nil && c.Epoch-last.Epoch > 30*keys.Second {
			t.Errorf("%d s without a beat", (c.Epoch-last.Epoch)/keys.Second)
		}
		last = c
	}
	if end-last.Epoch > 30*keys.Second || len(controls(acts)) > 30 {
		t.Errorf("%d beats in ten minutes, the last %d s before the end", len(controls(acts)), (end-last.Epoch)/keys.Second)
	}
}

// TestDetectionLeavesANewRealmAlone: while there is nothing to be set nothing is,
// and what it finds says that it learns.
func TestDetectionLeavesANewRealmAlone(t *testing.T) {
	w, err := NewDetection(DetectionConfig{Realm: "shop", DryRun: true}, nil)
	if err != nil || !w.Status().Learning {
		t.Fatalf("%v, %+v", err, w.Status())
	}
	w.c.DryRun = false
	acts, at := quiet(w, monday, 3600*keys.Second, nil, 0)
	if list := controls(acts); len(list) > 0 {
		t.Errorf("%d times something is set: %+v", len(list), list[0])
	}
	w.c.DryRun = true
	acts, at = quiet(w, at, 60*keys.Second, oneSource, 30)
	for _, a := range acts {
		for _, b := range a.Findings {
			if !bytes.Contains(b, []byte(`"learning":true`)) {
				t.Errorf("%s", b)
			}
		}
	}
	open := w.Open(9)
	if len(open) != 1 || !open[0].Learning || !open[0].DryRun {
		t.Errorf("open are %+v", open)
	}
	if s := w.Status(); s.Networks != 1 || s.Tags != 0 {
		t.Errorf("%+v", s)
	}
	// A suspect that goes on is one for longer than it was set for at first.
	w.c.DryRun = false
	n := 0
	acts, at = quiet(w, at, 1200*keys.Second, func(int) detect.Sight {
		n++
		s := oneSource(0)
		s.Account = fmt.Sprint("v", n)
		return s
	}, 1)
	list := controls(acts)
	if len(list) == 0 || list[len(list)-1].Suspects[oneSource(0).Source] <= at {
		t.Errorf("after twenty minutes %d times something is set, at last %+v", len(list), list[len(list)-1])
	}
}

// TestDetectionSizesTheTierAnew where strangers spend more than they did.
func TestDetectionSizesTheTierAnew(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	was := w.set.Baseline
	for end := at + 12*keys.Day; at < end; at += detect.Width {
		b := detect.Bin{Start: at, Taken: 42}
		b.Count[detect.Success], b.Count[detect.Cold] = 40, 12
		w.Bin(&b)
	}
	if is := w.set.Baseline; was.Count == 0 || is.Count < was.Count*11/10 {
		t.Errorf("%+v became %+v", was, is)
	}
}

// TestAFindingIsItsCampaign: every field is the campaign's own.
func TestAFindingIsItsCampaign(t *testing.T) {
	second := func(n int64) int64 { return monday + n*keys.Second }
	network := netip.MustParsePrefix("198.51.100.0/24")
	c := detect.Campaign{ID: "i", What: "spray", Start: second(1), Last: second(2), Level: detect.High, Reason: "r", Guesses: 3, Accounts: 4, Sources: 5, Peak: 6,
		Groups: []detect.Group{{Kind: detect.GroupNetwork, Prefix: network, Minute: 7}, {Kind: detect.GroupTag, Key: "t", Minute: 8}, {Kind: detect.GroupUA, Key: "1", Minute: 9}},
		Sample: []string{"s"}, Done: []detect.Action{{At: second(10), What: "told"}}}
	want := Finding{V: 1, ID: "i", Realm: "shop", What: "spray", State: "open", Start: micro(second(1)), Last: micro(second(2)), Posture: "high", Reason: "r",
		Guesses: 3, Accounts: 4, Sources: 5, Peak: 6, Samples: []string{"s"}, Done: []FindingAction{{micro(second(10)), "told"}},
		Groups: []FindingGroup{{"network", "198.51.100.0/24", 7}, {"password", "t", 8}, {"user_agent", escalation.UAClasses[1], 9}}}
	if d := cmp.Diff(want, findingOf("shop", &c)); d != "" {
		t.Error(d)
	}
	c.Level, c.End = detect.Calm, second(11)
	want.Posture, want.State, want.End = "", "closed", micro(second(11))
	if d := cmp.Diff(want, findingOf("shop", &c)); d != "" {
		t.Error(d)
	}
}

// docs/findings.md has one row for each field, and none for others.
func TestFindingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| field |")
	var rows []string
	for line := range strings.Lines(table) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows = append(rows, name)
		}
	}
	var fields []string
	var of func(prefix string, t reflect.Type)
	of = func(prefix string, ty reflect.Type) {
		for i := range ty.NumField() {
			name, _, _ := strings.Cut(ty.Field(i).Tag.Get("json"), ",")
			fields = append(fields, prefix+name)
			if e := ty.Field(i).Type; e.Kind() == reflect.Slice && e.Elem().Kind() == reflect.Struct && e.Elem() != reflect.TypeFor[time.Time]() {
				of(prefix+name+".", e.Elem())
			}
		}
	}
	of("", reflect.TypeFor[Finding]())
	if d := cmp.Diff(fields, rows); d != "" {
		t.Errorf("docs/findings.md against the struct:\n%s", d)
	}
	for _, what := range slices.Concat(detect.Kinds(), Moments) {
		if !strings.Contains(string(text), "| `"+what+"` |") {
			t.Errorf("docs/findings.md does not name %q", what)
		}
	}
	for _, word := range append([]string{FindingOpen, FindingClosed, FindingOnce}, operate.Actions...) {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("docs/findings.md does not name %q", word)
		}
	}
}
