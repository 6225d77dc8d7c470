package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strings"
	"testing"

	"github.com/guardd/guardd/aggregate/detect"
)

const start = Start

// TestEveryParameterHasASource: a figure without one is an opinion.
func TestEveryParameterHasASource(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "params.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		text := "" // a source may cover what follows it up to the next heading
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if v.Doc != nil {
				text = v.Doc.Text()
			}
			for _, n := range v.Names {
				seen++
				if v.Doc != nil && !strings.Contains(text, n.Name) {
					t.Errorf("%s: its comment does not name it", n.Name)
				}
			}
		}
	}
	for _, c := range f.Comments {
		text := c.Text()
		if strings.Contains(text, "is the share") && !strings.Contains(text, "Source") {
			t.Errorf("without a source: %s", text)
		}
	}
	if seen < 50 {
		t.Errorf("%d parameters were looked at", seen)
	}
}

// TestBinsAreASeedsOwn: the same seed makes the same bins, another other ones.
func TestBinsAreASeedsOwn(t *testing.T) {
	run := func(seed int64) (all []detect.Bin) {
		g := NewBins(750_000, seed, start, true)
		g.Attack(Attacks[2], start+hour, start+2*hour)
		for range 3 * hour / detect.Width {
			all = append(all, g.Next())
		}
		return all
	}
	a, b, c := run(1), run(1), run(2)
	same := 0
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("bin %d differs between two runs of one seed: %+v, %+v", i, a[i], b[i])
		}
		if a[i] == c[i] {
			same++
		}
	}
	if same > len(a)/100 {
		t.Errorf("%d of %d bins are the same with another seed", same, len(a))
	}
}

// TestWeekFitsTheFigures: what is made has the rates, the swing, the failures
// and the scatter that the parameters say.
func TestWeekFitsTheFigures(t *testing.T) {
	const perDay = 750_000.0
	g := NewBins(perDay, 3, start, false)
	var sum detect.Bin
	var scatter, mean float64
	busiest, quietest := 0.0, math.Inf(1)
	for range week / hour {
		var h detect.Bin
		last := -1
		for range hour / detect.Width {
			b := g.Next()
			h.Add(&b)
			n := b.Count[detect.Success]
			if last >= 0 {
				d := float64(n - last)
				scatter += d * d / 2
				mean += float64(n)
			}
			last = n
		}
		s := float64(h.Count[detect.Success])
		busiest, quietest = max(busiest, s), min(quietest, s)
		sum.Add(&h)
	}
	honest := float64(sum.Count[detect.Success]) / (1 - HonestFails)
	within(t, "honest attempts a day", honest/7/perDay, 0.95, 1.05)
	within(t, "busiest hour over quietest", busiest/quietest, 6, 12)
	within(t, "variance over mean of successes", scatter/mean, Dispersion-0.15, Dispersion+0.25)
	scan := perDay * 7 * Scan
	cold := float64(sum.Count[detect.Cold]) - scan
	within(t, "honest cold failures", cold/(honest*HonestFails*(1-Repeats)*ColdFails), 0.85, 1.15)
	within(t, "unknown accounts among cold failures",
		float64(sum.Unknown)/(scan*ScanUnknown+cold*HonestUnknown), 0.9, 1.1)
	ua := 0
	for _, n := range sum.UA {
		ua += n
	}
	if ua != sum.Count[detect.Cold] {
		t.Errorf("%d user agents of %d cold failures", ua, sum.Count[detect.Cold])
	}
}

// TestAttacksAddWhatTheySay compares an attacked hour with the same hour of
// the same seed.
func TestAttacksAddWhatTheySay(t *testing.T) {
	for _, a := range Attacks {
		with, without := NewBins(750_000, 5, start, false), NewBins(750_000, 5, start, false)
		with.Attack(a, start, start+hour)
		var x, y detect.Bin
		for range hour / detect.Width {
			b, c := with.Next(), without.Next()
			x.Add(&b)
			y.Add(&c)
		}
		want := 60 * a.PerMinute(with.HonestPerMinute()) * (1 - a.Success)
		if a.On > 0 {
			want *= a.On / (a.On + a.Off)
		}
		got := float64(x.Failed() - y.Failed())
		if d := math.Abs(got - want); d > 5*math.Sqrt(want) {
			t.Errorf("%s: %v cold failures more, want %v", a.Name, got, want)
		}
		right := x.Count[detect.Success] - y.Count[detect.Success]
		if a.OwnEvery > 0 && a.Success == 0 && right != CanaryAccounts {
			t.Errorf("%s: %d successes of its own, want each of its accounts once", a.Name, right)
		}
	}
}

// TestOutagesHaveNoSuccesses, in both forms.
func TestOutagesHaveNoSuccesses(t *testing.T) {
	for _, c := range []Case{OutageNotChecked, OutageFailures} {
		g := NewBins(750_000, 7, start, false)
		g.Happen(c, start)
		b := g.Next()
		for range 20 {
			n := g.Next()
			b.Add(&n)
		}
		if b.Count[detect.Success] != 0 {
			t.Errorf("%s: %d successes", c, b.Count[detect.Success])
		}
		if (b.NotChecked > 0) != (c == OutageNotChecked) {
			t.Errorf("%s: %d not checked", c, b.NotChecked)
		}
	}
}

func within(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %.3f, want %.3f to %.3f", what, got, least, most)
	}
}
