package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tables are what the README says of the measurements.
func (m *measured) tables() []byte {
	var b bytes.Buffer
	m.attacks(&b)
	m.cases(&b)
	m.soon(&b)
	return b.Bytes()
}

func row(b *bytes.Buffer, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func head(b *bytes.Buffer, cells ...string) {
	row(b, cells...)
	fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(cells)))
}

func (m *measured) attacks(b *bytes.Buffer) {
	head(b, "attack", "guesses", "served by the limits alone", "served", "posture or suspect after", "served after that", "accounts taken (limits alone)",
		"served to solvers, taken", "honest logins asked", "normal after")
	for _, r := range m.detection {
		if r.Guesses == nil {
			continue
		}
		alone, _ := find(m.static, r.Scenario)
		solved, _ := find(m.solvers, r.Scenario)
		row(b, "`"+r.Scenario+"`", whole(r.Guesses), percent(alone.ServedShare), percent(r.ServedShare), seconds(r.Posture), percent(r.ServedAfter),
			whole(r.Taken)+" ("+whole(alone.Taken)+")", percent(solved.ServedShare)+", "+whole(solved.Taken), percent(r.Asked), seconds(r.Relaxed))
	}
}

func (m *measured) cases(b *bytes.Buffer) {
	if !slices.ContainsFunc(m.detection, func(r run) bool { return r.Guesses == nil }) {
		return
	}
	fmt.Fprintln(b)
	head(b, "no attack", "honest logins", "on new devices", "asked", "alarm")
	for _, r := range m.detection {
		if r.Guesses != nil {
			continue
		}
		alarm := "none"
		if r.Posture != nil {
			alarm = "after " + seconds(r.Posture)
		}
		row(b, "`"+r.Scenario+"`", whole(&r.Honest), percent(r.NewShare), percent(r.Asked), alarm)
	}
}

func (m *measured) soon(b *bytes.Buffer) {
	if len(m.times)+len(m.alarms) == 0 {
		return
	}
	fmt.Fprintln(b)
	head(b, "found within", "how", "seeds", "attacks", "half", "95 %", "normal after, 95 %")
	for _, f := range m.times {
		volume, how := "", "in bins"
		if f.Volume != nil {
			volume = fmt.Sprintf(", +%.0f %%", 100**f.Volume)
		}
		if f.Level == "events" {
			how = "by event"
		}
		row(b, "`"+f.Scenario+"`"+volume, how, seeds(f), strconv.Itoa(f.Attacks), never(f.FoundP50), never(f.FoundP95), seconds(f.RelaxedP95))
	}
	fmt.Fprintln(b)
	head(b, "honest attempts a day", "seeds", "weeks", "false alarms a week", "in outages")
	for _, f := range m.alarms {
		n := int(f.PerDay)
		row(b, whole(&n), seeds(f), strconv.Itoa(f.Weeks), fmt.Sprintf("%.2f", *f.FalseAlarms), strconv.Itoa(f.InOutage))
	}
}

func seeds(f run) string {
	if f.Tuned {
		return f.Seeds + ", tuned on"
	}
	return f.Seeds
}

func whole(n *int) string {
	if n == nil {
		return "-"
	}
	s := strconv.Itoa(*n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 0.1:
		return fmt.Sprintf("%.0f %%", 100**v)
	}
	return fmt.Sprintf("%.1f %%", 100**v)
}

func seconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f s", *v)
}

func never(v *float64) string {
	if v == nil {
		return "never"
	}
	return seconds(v)
}
