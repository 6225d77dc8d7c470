package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func committed(t *testing.T) *measured {
	t.Helper()
	m, err := read(filepath.Join(root, "docs/simulate"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTheReadmeSaysWhatWasMeasured: nothing in its tables and in its plot was
// written by hand.
func TestTheReadmeSaysWhatWasMeasured(t *testing.T) {
	m := committed(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := within(readme, m.tables())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readme, want) {
		t.Error("the README's tables are not those of docs/simulate: go run ./cmd/figures")
	}
	svg, err := os.ReadFile(filepath.Join(root, "docs/simulate/stuffing.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(svg, m.plot()) {
		t.Error("docs/simulate/stuffing.svg is not what was measured: go run ./cmd/figures")
	}
}

// TestWhatWasMeasuredIsGoodEnough holds the measurements to what they are for.
func TestWhatWasMeasuredIsGoodEnough(t *testing.T) {
	m := committed(t)
	for _, name := range []string{"stuffing-8000x4", "low-and-slow", "spray-common-password"} {
		with, ok := find(m.detection, name)
		without, ok2 := find(m.static, name)
		if !ok || !ok2 || *with.ServedShare >= *without.ServedShare/2 {
			t.Errorf("%s: %s were served with detection, %s without", name, percent(with.ServedShare), percent(without.ServedShare))
		}
	}
	for _, set := range [][]run{m.detection, m.tuned} {
		for _, r := range set {
			name := func(what string) string { return r.Scenario + ": " + what }
			if r.LockedOut != 0 {
				t.Error(name("owners were locked out"), r.LockedOut)
			}
			if *r.NewShare < 0.10 {
				t.Error(name("honest logins on new devices"), *r.NewShare)
			}
			if *r.Asked > 0.0205 { // two of a hundred, as the tables have it
				t.Error(name("honest logins asked"), *r.Asked)
			}
			if r.Guesses == nil {
				if r.Posture != nil {
					t.Error(name("an alarm"), *r.Posture)
				}
				continue
			}
			if r.ServedAfter != nil && *r.ServedAfter > 0.05 {
				t.Error(name("served after detection"), *r.ServedAfter)
			}
			if r.Relaxed != nil && *r.Relaxed > 30*60 {
				t.Error(name("normal again after"), *r.Relaxed)
			}
		}
	}
	for _, f := range m.times {
		half, most := 60.0, 120.0
		switch {
		case f.Scenario == "low-and-slow":
			half, most = 1800, 1800
		case f.Volume != nil && *f.Volume >= 3:
			half, most = 45, 45
		}
		if f.FoundP50 == nil || f.FoundP95 == nil || *f.FoundP50 > half || *f.FoundP95 > most {
			t.Errorf("%s (%v, %s, %s): found within %s and %s, want %v and %v s", f.Scenario, f.Volume, f.Level, f.Seeds, never(f.FoundP50), never(f.FoundP95), half, most)
		}
	}
	for _, f := range m.alarms {
		most := 1.0
		if f.PerDay >= 1_000_000 {
			most = 0.25
		}
		if *f.FalseAlarms > most || f.InOutage > 0 || f.Weeks < 26 {
			t.Errorf("%v a day: %v false alarms a week, %d in outages, of %d weeks", f.PerDay, *f.FalseAlarms, f.InOutage, f.Weeks)
		}
	}
}

// TestWhatIsMissingIsSaid: no run by the minute, no line, no place.
func TestWhatIsMissingIsSaid(t *testing.T) {
	dir := t.TempDir()
	says := func(want string) {
		t.Helper()
		if _, err := read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	says("stuffing.jsonl: wants one run by the minute")
	if err := os.WriteFile(filepath.Join(dir, "solvers.jsonl"), []byte("{}\nno\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says("solvers.jsonl:2: ")
	if _, err := within([]byte("a page"), nil); err == nil {
		t.Error("a page without a place was taken")
	}
}
