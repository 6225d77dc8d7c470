package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/guardd/guardd/aggregate/sim"
)

// figure is what many runs of one kind say, as JSON has it.
type figure struct {
	Figure string  `json:"figure"` // detection_time or false_alarms
	Level  string  `json:"level"`  // bins or events
	Seeds  string  `json:"seeds"`
	Tuned  bool    `json:"tuned"` // detection was tuned on these seeds
	PerDay float64 `json:"per_day"`

	// Of detection_time. Null: some were never found, or never let go.
	Scenario   string   `json:"scenario,omitempty"`
	Volume     *float64 `json:"volume,omitempty"` // null: as the scenario has it
	Attacks    *int     `json:"attacks,omitempty"`
	Early      *int     `json:"not_calm_before,omitempty"`
	FoundP50   *float64 `json:"found_p50_s,omitempty"`
	FoundP95   *float64 `json:"found_p95_s,omitempty"`
	RelaxedP95 *float64 `json:"relaxed_p95_s,omitempty"`

	// Of false_alarms.
	Weeks    *int     `json:"weeks,omitempty"`
	PerWeek  *float64 `json:"false_alarms_per_week,omitempty"`
	InOutage *int     `json:"in_outages,omitempty"`
}

// timed are the attacks whose times are taken: at these multiples of the honest
// attempts (0: as the scenario has it), and whether attempt by attempt, too.
var timed = []struct {
	scenario string
	volume   float64
	events   bool
}{
	{"stuffing-8000x4", 0.5, false}, {"stuffing-8000x4", 1, true}, {"stuffing-8000x4", 3, false},
	{"canary", 1, false}, {"low-and-slow", 0, false},
}

// timedNames are the scenarios among them.
func timedNames() string {
	var names []string
	for _, t := range timed {
		if !slices.Contains(names, t.scenario) {
			names = append(names, t.scenario)
		}
	}
	return strings.Join(names, ", ")
}

// sizes of sites for false alarms, in honest attempts a day.
var sizes = []float64{75_000, 750_000, 1_200_000}

// seedSets are those that figures are taken on.
var seedSets = []struct {
	first int64
	tuned bool
}{{sim.Reporting, false}, {0, true}}

// figures are what only many runs say: how soon an attack is found, and how often
// there is an alarm without one.
func (s *simulation) figures() (jobs []job) {
	for _, set := range seedSets {
		s.know(set.first + 1)
		for _, t := range timed {
			jobs = append(jobs, job{"times of " + t.scenario, s.times(t.scenario, t.volume, set.first, set.tuned, false)})
			if t.events && s.f.events > 0 {
				jobs = append(jobs, job{"times of " + t.scenario, s.times(t.scenario, t.volume, set.first, set.tuned, true)})
			}
		}
		for _, perDay := range sizes {
			if s.f.weeks > 0 {
				jobs = append(jobs, job{"false alarms", s.falseAlarms(perDay, set.first, set.tuned)})
			}
		}
	}
	return jobs
}

// times runs an attack as often as was asked for.
func (s *simulation) times(name string, volume float64, first int64, tuned, events bool) func(context.Context, func(float64)) (func() error, error) {
	return func(ctx context.Context, progress func(float64)) (func() error, error) {
		sc, err := sim.ScenarioNamed(name)
		if err != nil {
			return nil, err
		}
		n := s.f.attacks
		if events {
			n = s.f.events
		}
		f := &figure{Figure: "detection_time", Level: "bins", Seeds: fmt.Sprintf("%d-%d", first+101, first+100+int64(n)), Tuned: tuned,
			PerDay: s.f.perDay, Scenario: name}
		a := *sc.Attack
		if volume > 0 {
			f.Volume, a = &volume, a.At(volume)
		}
		learnt := s.learned[first+1]()
		var t sim.Times
		if events {
			f.Level = "events"
			t, err = sc.ByEvent(ctx, sim.Config{Policy: s.policy, PerDay: s.f.perDay, Volume: volume, Learnt: learnt}, first+101, n, progress)
		} else {
			t, err = sim.InBins(s.f.perDay, learnt, a, first+101, n)
			f.RelaxedP95 = withinSeconds(t.Relaxed, 0.95)
		}
		if err != nil {
			return nil, err
		}
		f.Attacks, f.Early = new(len(t.Found)), &t.Early
		f.FoundP50, f.FoundP95 = withinSeconds(t.Found, 0.5), withinSeconds(t.Found, 0.95)
		return func() error { return s.printFigure(f) }, nil
	}
}

// withinSeconds is a quantile in seconds.
func withinSeconds(sorted []int64, share float64) *float64 {
	t := sim.Quantile(sorted, share)
	if t == sim.Never {
		return nil
	}
	return seconds(t)
}

func (s *simulation) falseAlarms(perDay float64, first int64, tuned bool) func(context.Context, func(float64)) (func() error, error) {
	return func(_ context.Context, progress func(float64)) (func() error, error) {
		seed := first + 1
		alarms, _ := sim.FalseAlarms(perDay, seed, s.f.weeks, func(week int) { progress(float64(week) / float64(s.f.weeks)) })
		outages := 0
		for _, a := range alarms {
			if a.InOutage() {
				outages++
			}
		}
		f := &figure{Figure: "false_alarms", Level: "bins", Seeds: fmt.Sprint(seed), Tuned: tuned, PerDay: perDay,
			Weeks: &s.f.weeks, PerWeek: new(float64(len(alarms)) / float64(s.f.weeks)), InOutage: &outages}
		return func() error { return s.printFigure(f) }, nil
	}
}

func (s *simulation) printFigure(f *figure) error {
	if s.f.json {
		return json.NewEncoder(s.out).Encode(f)
	}
	seeds := f.Seeds
	if f.Tuned {
		seeds += ", tuned on"
	}
	if f.Figure == "false_alarms" {
		s.falseAlarmsHeading.Do(func() {
			fmt.Fprint(s.out, "\nfalse alarms: in bins, with flash crowds, resets, outages, offices, carriers and stale applications each week\n")
		})
		_, err := fmt.Fprintf(s.out, "%-26s %14s: %.2f a week in %d weeks, %d of them in an outage\n",
			thousands(int64(f.PerDay))+" honest a day", seeds, *f.PerWeek, *f.Weeks, *f.InOutage)
		return err
	}
	level, volume := "in bins", "as it is"
	if f.Level == "events" {
		level = "by event"
	}
	if f.Volume != nil {
		volume = fmt.Sprintf("+%.0f %%", 100**f.Volume)
	}
	s.timesHeading.Do(func() {
		const heads = "%-17s %-9s %-9s %20s %8s %8s %8s %10s\n"
		fmt.Fprint(s.out, "\nhow soon an attack is found: at any hour of the week; in bins of ten seconds with what late events are waited for, by event through guard, store and aggregator\n")
		fmt.Fprintf(s.out, heads, "attack", "volume", "level", "seeds", "attacks", "half", "95 %", "normal")
	})
	_, err := fmt.Fprintf(s.out, "%-17s %-9s %-9s %20s %8d %8s %8s %10s\n", f.Scenario, volume, level, seeds, *f.Attacks,
		neverText(f.FoundP50), neverText(f.FoundP95), secondsText(f.RelaxedP95))
	return err
}

func neverText(s *float64) string {
	if s == nil {
		return "never"
	}
	return secondsText(s)
}

// headings are printed once, before their first row.
type headings struct{ timesHeading, falseAlarmsHeading sync.Once }
