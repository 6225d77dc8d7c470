package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sample is what one subject cost in one round, by the name of the measure.
type sample map[string]float64

// subject is one side of a comparison.
type subject struct {
	name string
	run  func() (sample, error)
}

// row is one comparison of two subjects of a group, held against its targets.
type row struct {
	What    string `json:"what"`
	Against string `json:"against"`
	of      string
	base    string  // "": the figure itself is judged
	measure string  // of both
	per     float64 // the figure is divided by it; 0 is 1
	higher  bool    // more is better
	report  bool    // there is no target
	must    float64
	aim     float64
}

// group is subjects that are measured side by side.
type group struct {
	name     string
	rounds   int    // 0: as the command line says
	floor    string // the subject that shows whether the machine was steady
	measure  string // of the floor
	unit     string
	subjects []subject
	rows     []row
}

// result is what became of a row.
type result struct {
	row
	Group   string  `json:"group"`
	Figure  float64 `json:"figure"` // median of the rounds' ratios
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Must    float64 `json:"must"`
	Aim     float64 `json:"aim"`
	Better  string  `json:"better"` // lower or higher
	Verdict string  `json:"verdict"`
	Of      float64 `json:"of"` // medians over the rounds
	Base    float64 `json:"base"`
	Unit    string  `json:"unit"`
}

// outcome is what became of a group.
type outcome struct {
	Name      string                        `json:"name"`
	Floor     string                        `json:"floor"`
	FloorUnit string                        `json:"floor_unit"`
	FloorAt   float64                       `json:"floor_at"`
	FloorVary float64                       `json:"floor_varies"`
	Rounds    int                           `json:"rounds"`
	Repeats   int                           `json:"repeats"`
	Took      float64                       `json:"took_s"`
	Medians   map[string]map[string]float64 `json:"medians"`
	Error     string                        `json:"error,omitempty"`
	results   []result
}

// attempts is how often a group whose floor varies too much is measured again.
const attempts = 3

// run measures a group, again when its floor says that the machine was not
// steady; after the last time what was measured is shown and not judged.
func (g *group) run(rounds int, log io.Writer) outcome {
	if g.rounds > 0 {
		rounds = g.rounds
	}
	begun := time.Now()
	o := outcome{Name: g.name, Floor: g.floor, FloorUnit: g.unit, Rounds: rounds}
	var all map[string][]sample
	var floors []float64
	for o.Repeats = 0; ; o.Repeats++ {
		var err error
		if all, err = g.rounded(rounds, log); err != nil {
			o.Error = err.Error()
			fmt.Fprintf(log, "%s: %v\n", g.name, err)
			return o
		}
		floors = series(all[g.floor], g.measure)
		if spread(floors) <= floorVaries || o.Repeats+1 == attempts || !g.judged() {
			break
		}
		fmt.Fprintf(log, "%s: the floor varied %.1f times: measured again\n", g.name, spread(floors))
	}
	o.FloorAt, o.FloorVary = median(floors), spread(floors)
	o.Medians = map[string]map[string]float64{}
	for name, samples := range all {
		o.Medians[name] = map[string]float64{}
		for m := range samples[0] {
			o.Medians[name][m] = median(series(samples, m))
		}
	}
	for i := range g.rows {
		r := g.rows[i].judge(all)
		r.Group, r.Unit = g.name, g.rows[i].measure
		if o.FloorVary > floorVaries && !r.report {
			r.Verdict = "not judged"
		}
		o.results = append(o.results, r)
	}
	o.Took = time.Since(begun).Seconds()
	return o
}

// judged reports whether any row has a target.
func (g *group) judged() bool {
	return slices.ContainsFunc(g.rows, func(r row) bool { return !r.report })
}

// rounded measures every subject once a round, each round in an order of its
// own, so that what drifts or comes in waves meets all alike.
func (g *group) rounded(rounds int, log io.Writer) (map[string][]sample, error) {
	all := map[string][]sample{}
	order := slices.Clone(g.subjects)
	for n := range rounds {
		fmt.Fprintf(log, "%s: round %d of %d\n", g.name, n+1, rounds)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, s := range order {
			x, err := s.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			all[s.name] = append(all[s.name], maps.Clone(x))
		}
	}
	return all, nil
}

func series(samples []sample, measure string) []float64 {
	xs := make([]float64, len(samples))
	for i, s := range samples {
		x, ok := s[measure]
		if !ok {
			x = math.NaN()
		}
		xs[i] = x
	}
	return xs
}

// judge makes a row's result of all rounds.
func (r *row) judge(all map[string][]sample) result {
	of := series(all[r.of], r.measure)
	xs := of
	res := result{row: *r, Must: r.must, Aim: r.aim, Better: "lower", Of: median(of)}
	if r.higher {
		res.Better = "higher"
	}
	if r.base != "" {
		base := series(all[r.base], r.measure)
		xs, res.Base = ratios(of, base), median(base)
	}
	xs = slices.Clone(xs)
	if r.per != 0 {
		for i := range xs {
			xs[i] /= r.per
		}
	}
	res.Figure, res.Low, res.High = median(xs), slices.Min(xs), slices.Max(xs)
	res.Verdict = verdict(res.Figure, r)
	return res
}
