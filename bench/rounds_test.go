package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// scripted answers with the given figures, one a call.
func scripted(name string, xs ...float64) subject {
	n := 0
	return subject{name, func() (sample, error) {
		x := xs[n%len(xs)]
		n++
		return sample{"us": x}, nil
	}}
}

func groupOf(floor subject, others ...subject) *group {
	return &group{name: "g", floor: floor.name, measure: "us", subjects: append([]subject{floor}, others...),
		rows: []row{{What: "x", of: others[0].name, base: floor.name, measure: "us", must: 3, aim: 2}}}
}

func TestASteadyRunIsJudged(t *testing.T) {
	o := groupOf(scripted("floor", 10, 11, 12), scripted("x", 20, 22, 24)).run(3, io.Discard)
	if r := o.results[0]; r.Figure != 2 || r.Verdict != "aim" || o.Repeats != 0 {
		t.Errorf("%+v, repeated %d times", r, o.Repeats)
	}
	if o.FloorAt != 11 || o.Medians["x"]["us"] != 22 {
		t.Errorf("floor %v, medians %v", o.FloorAt, o.Medians)
	}
}

func TestARunWithAnUnsteadyFloorIsRepeated(t *testing.T) {
	o := groupOf(scripted("floor", 10, 30, 10, 10), scripted("x", 20)).run(2, io.Discard)
	if o.Repeats != 1 || o.results[0].Verdict != "aim" {
		t.Errorf("repeated %d times: %+v", o.Repeats, o.results[0])
	}
}

func TestARunThatStaysUnsteadyIsNotJudged(t *testing.T) {
	o := groupOf(scripted("floor", 10, 30), scripted("x", 20)).run(2, io.Discard)
	if o.Repeats != attempts-1 || o.results[0].Verdict != "not judged" {
		t.Errorf("repeated %d times: %+v", o.Repeats, o.results[0])
	}
}

func TestEverySubjectIsMeasuredOnceARound(t *testing.T) {
	all, err := groupOf(scripted("floor", 1), scripted("x", 1), scripted("y", 1)).rounded(7, io.Discard)
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for name, samples := range all {
		if len(samples) != 7 {
			t.Errorf("%s was measured %d times", name, len(samples))
		}
	}
}

func TestAFaultIsSaidAndNothingIsJudged(t *testing.T) {
	broken := subject{"x", func() (sample, error) { return nil, errors.New("refused") }}
	o := groupOf(scripted("floor", 1), broken).run(2, io.Discard)
	if !strings.Contains(o.Error, "x: refused") || len(o.results) != 0 {
		t.Errorf("%+v", o)
	}
	var out strings.Builder
	rep := report{Groups: []outcome{o}}
	rep.print(&out)
	if !strings.Contains(out.String(), "g: not measured: x: refused") {
		t.Errorf("printed %q", out.String())
	}
}
