package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{nil, math.NaN()}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{1, 1, 1000}, 1},
	} {
		if got := median(c.xs); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("median(%v) = %v, want %v", c.xs, got, c.want)
		}
	}
	xs := []float64{3, 1, 2}
	if median(xs); xs[0] != 3 || xs[1] != 1 || xs[2] != 2 {
		t.Errorf("median changed its argument: %v", xs)
	}
}

func TestQuantileIsByNearestRank(t *testing.T) {
	xs := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(xs, q); got != want {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("there is no quantile of nothing")
	}
}

func TestSpread(t *testing.T) {
	if got := spread([]float64{2, 1, 5}); got != 5 {
		t.Errorf("spread = %v, want 5", got)
	}
	if got := spread([]float64{7, 7}); got != 1 {
		t.Errorf("spread of equals = %v, want 1", got)
	}
}

// A round in which the machine was ten times as slow changes no ratio.
func TestRatiosAreOfOneRound(t *testing.T) {
	all := map[string][]sample{
		"a": {{"us": 2}, {"us": 20}, {"us": 2}},
		"b": {{"us": 4}, {"us": 40}, {"us": 5}},
	}
	r := row{of: "a", base: "b", measure: "us", must: 0.6, aim: 0.4}
	got := r.judge(all)
	if got.Figure != 0.5 || got.Low != 0.4 || got.High != 0.5 || got.Verdict != "must" {
		t.Errorf("%+v", got)
	}
	if got.Of != 2 || got.Base != 5 {
		t.Errorf("medians %v and %v, want 2 and 5", got.Of, got.Base)
	}
}

func TestVerdict(t *testing.T) {
	less, more := &row{must: 0.8, aim: 0.5}, &row{must: 0.9, aim: 1, higher: true}
	for _, c := range []struct {
		r    *row
		x    float64
		want string
	}{
		{less, 0.5, "aim"}, {less, 0.51, "must"}, {less, 0.8, "must"}, {less, 0.81, "missed"}, {less, math.NaN(), "not measured"},
		{more, 1, "aim"}, {more, 0.95, "must"}, {more, 0.9, "must"}, {more, 0.89, "missed"},
		{&row{report: true}, 99, "reported"}, {&row{}, 0, "aim"}, {&row{}, 1, "missed"},
	} {
		if got := verdict(c.x, c.r); got != c.want {
			t.Errorf("verdict(%v) with must %v aim %v = %s, want %s", c.x, c.r.must, c.r.aim, got, c.want)
		}
	}
}
