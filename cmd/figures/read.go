package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// run is a scenario with a seed, as guardd simulate --json has it.
type run struct {
	Scenario    string   `json:"scenario"`
	Seed        int64    `json:"seed"`
	Guesses     *int     `json:"attack_guesses"`
	ServedShare *float64 `json:"served_share"`
	ServedAfter *float64 `json:"served_after_detection_share"`
	Taken       *int     `json:"accounts_taken"`
	Posture     *float64 `json:"time_to_posture_s"`
	Honest      int      `json:"honest_logins"`
	Asked       *float64 `json:"honest_challenged_share"`
	NewShare    *float64 `json:"honest_new_device_share"`
	LockedOut   int      `json:"owner_locked_out"`
	FalseAlarms *float64 `json:"false_alarms_per_week"`
	Relaxed     *float64 `json:"relaxed_after_s"`
	Minutes     []minute `json:"minutes"`
	Figure      string   `json:"figure"`
	Level       string   `json:"level"`
	Seeds       string   `json:"seeds"`
	Tuned       bool     `json:"tuned"`
	PerDay      float64  `json:"per_day"`
	Volume      *float64 `json:"volume"`
	Attacks     int      `json:"attacks"`
	FoundP50    *float64 `json:"found_p50_s"`
	FoundP95    *float64 `json:"found_p95_s"`
	RelaxedP95  *float64 `json:"relaxed_p95_s"`
	Weeks       int      `json:"weeks"`
	InOutage    int      `json:"in_outages"`
}

type minute struct {
	From    int `json:"from_s"`
	Guesses int `json:"guesses"`
	Served  int `json:"served"`
	Honest  int `json:"honest"`
	Asked   int `json:"asked"`
	Posture int `json:"posture"`
}

// measured is everything that was.
type measured struct {
	detection, solvers, static, tuned []run
	times, alarms                     []run
	with, without                     run // by the minute
}

// read reads the lines in a folder. What was not measured stands in no table, but
// the attack that is drawn has to be there.
func read(dir string) (*measured, error) {
	all := map[string][]run{}
	for _, name := range []string{"stuffing", "stuffing-static", "attacks", "cases", "static", "solvers", "figures", "tuned"} {
		var err error
		if all[name], err = lines(filepath.Join(dir, name+".jsonl")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	m := &measured{detection: slices.Concat(all["stuffing"], all["attacks"], all["cases"]), solvers: all["solvers"],
		static: slices.Concat(all["stuffing-static"], all["static"]), tuned: all["tuned"]}
	for _, f := range all["figures"] {
		switch f.Figure {
		case "detection_time":
			m.times = append(m.times, f)
		case "false_alarms":
			m.alarms = append(m.alarms, f)
		}
	}
	for _, name := range []string{"stuffing", "stuffing-static"} {
		if r := all[name]; len(r) != 1 || len(r[0].Minutes) == 0 {
			return nil, fmt.Errorf("%s: wants one run by the minute (--timeline)", filepath.Join(dir, name+".jsonl"))
		}
	}
	m.with, m.without = all["stuffing"][0], all["stuffing-static"][0]
	return m, nil
}

func lines(path string) (all []run, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		var r run
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		all = append(all, r)
	}
	return all, in.Err()
}

// find is the run of a scenario.
func find(all []run, scenario string) (run, bool) {
	for _, r := range all {
		if r.Scenario == scenario {
			return r, true
		}
	}
	return run{}, false
}
