package main

import (
	"encoding"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/guardd/guardd/escalation"
)

// printPolicy shows the whole policy in force, what was given and what is
// default alike: "is valid" would not tell an operator that a row was missed.
func printPolicy(out io.Writer, p *escalation.Policy) {
	for i, name := range slices.Sorted(maps.Keys(p.Realms)) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		r := p.Realms[name]
		fmt.Fprintf(out, "%s: normalise %s, familiar places %s, events %s, %d addresses allowed, %d denied\n",
			name, r.Normalise, onOff(*r.FamiliarPlaces), onOff(*r.Events), len(r.Lists.Allow), len(r.Lists.Deny))
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  flow\ttier\tlimit\tcapacity\trefill\tdelay\tcaptcha\tverify")
		for _, flow := range escalation.Flows {
			f := r.Flows[flow]
			if f == nil {
				continue // login's
			}
			for _, l := range f.Limits {
				fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", flow, l.Tier, l.Name,
					capacity(&l), refill(&l), rung(&l, l.Delay), rung(&l, l.Captcha), rung(&l, l.Verify))
			}
			if *f.Breached.Verify {
				fmt.Fprintf(w, "  %s\tbreached\t\t\t\t\t\tunknown devices\n", flow)
			}
			fmt.Fprintf(w, "  %s\tdelay\t\t\t\t%s to %s\t\t\n", flow, text(f.Delay.Base), text(f.Delay.Max))
		}
		w.Flush()
		if same := slices.DeleteFunc(slices.Clone(escalation.Flows), func(flow string) bool { return r.Flows[flow] != nil }); len(same) > 0 {
			fmt.Fprintf(out, "  as login, with counters of their own: %s\n", strings.Join(same, ", "))
		}
	}
}

// What a network row leaves out is the ip row's.
const (
	timesIP = "8 x ip"
	asIP    = "as ip"
)

func capacity(l *escalation.Limit) string {
	switch {
	case l.Off:
		return "off"
	case l.Capacity == nil && l.Tier == "network":
		return timesIP
	case l.Capacity == nil:
		return "-"
	}
	return fmt.Sprint(*l.Capacity)
}

func refill(l *escalation.Limit) string {
	if l.Tier == "network" && l.Refill.IsZero() && !l.Off {
		return timesIP
	}
	return text(l.Refill)
}

func rung(l *escalation.Limit, at escalation.Percent) string {
	if l.Tier == "network" && at.IsZero() && !l.Off {
		return asIP
	}
	return text(at)
}

func text(v encoding.TextMarshaler) string {
	b, err := v.MarshalText()
	if err != nil || len(b) == 0 {
		return "-"
	}
	return string(b)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
