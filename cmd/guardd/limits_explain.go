package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

const limitsExplainUsage = `limits explain KEY [flags]

Says what plan limits decided about KEY of late, at every instance: what was let
through, what was refused, and the figures of each refusal. KEY is the name of a
registered key, its SHA-256, or the key itself (-: from standard input, so that no
shell keeps it).

  guardd limits explain acme --since 10m`

// limitsExplain asks a running guardd: evidence lies where the counting is done.
func (o *operator) limitsExplain(args []string) error {
	since := o.flags.Duration("since", plans.DefaultSince, "how far back, at most "+keys.TrailLife.String())
	most := o.flags.Int("refusals", 10, "how many refusals to print, the last ones; --json has up to 1000")
	if err := o.parse(args); err != nil {
		return err
	}
	if len(o.rest) != 1 || o.rest[0] == "" {
		return usagef("takes one KEY, not %q", o.rest)
	}
	q, err := whichKey(o.rest[0], o.stdin)
	if err != nil {
		return err
	}
	q.Since = since.String()
	var a plans.Explanation
	show, err := o.ask(http.MethodPost, api.RouteLimitsExplain, nil, q, &a)
	if q.Name != "" && isUnknownName(err) { // then it is the key itself
		q.Key, q.Name = q.Name, ""
		show, err = o.ask(http.MethodPost, api.RouteLimitsExplain, nil, q, &a)
	}
	if err != nil || !show {
		return err
	}
	return printEvidence(o.out, &a, *most)
}

// whichKey is what KEY means: a digest, a line of standard input, else a name.
func whichKey(word string, in io.Reader) (*plans.ExplainRequest, error) {
	if word == "-" {
		line, err := bufio.NewReader(in).ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			if err == nil || err == io.EOF {
				err = usagef("standard input is empty")
			}
			return nil, err
		}
		return &plans.ExplainRequest{Key: line}, nil
	}
	if raw, err := hex.DecodeString(word); err == nil && len(raw) == len(plans.Digest{}) {
		return &plans.ExplainRequest{SHA256: word}, nil
	}
	return &plans.ExplainRequest{Name: word}, nil
}

func isUnknownName(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && slices.Contains(p.Fields, client.FieldError{Field: "name", Reason: "unknown"})
}

// printEvidence is evidence for people: what was asked and became of it, for each
// rule what there was to be had and what was taken, when, and the last refusals.
func printEvidence(out io.Writer, a *plans.Explanation, most int) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\n", keyText(a))
	fmt.Fprintf(w, "%s\n", askedText(a))
	if !a.Complete {
		fmt.Fprintf(w, "NOT COMPLETE: %s\n", a.Missing)
	}
	for i := range a.Rules {
		fmt.Fprintf(w, "\n%s", ruleText(a, &a.Rules[i]))
	}
	if len(a.Seconds) > 0 {
		fmt.Fprintln(w)
		secondsTable(w, a.Seconds)
	}
	if n := min(len(a.Refusals), max(most, 0)); n > 0 {
		fmt.Fprintf(w, "\n%s\n", refusalsTitle(a, n))
		refusalsTable(w, a.Refusals[len(a.Refusals)-n:])
	}
	return w.Flush()
}

func keyText(a *plans.Explanation) string {
	sum := "sha256 " + a.SHA256.String()[:12] + "…"
	if !a.Registered {
		return "A key that is not registered (" + sum + ")"
	}
	name := a.Name
	if name == "" {
		name = "A key without a name"
	}
	return fmt.Sprintf("%s, plan %s, %s (%s)", name, a.Plan, a.State, sum)
}

func askedText(a *plans.Explanation) string {
	span := short(a.Until.Sub(a.Since).Truncate(time.Second)) // Since is a whole second, and Until is not
	if a.Asked == 0 {
		return fmt.Sprintf("Nothing was asked in the last %s", span)
	}
	s := fmt.Sprintf("%d asked in the last %s, from %s to %s UTC: %d allowed, %d refused",
		a.Asked, span, a.First.Format("2006-01-02 15:04:05.000"), a.Last.Format("15:04:05.000"), a.Allowed, a.Refused)
	for _, x := range []struct {
		n    int64
		text string
	}{{a.Replayed, "repeats at no cost"}, {a.Settled, "settled or refunded"}, {a.Degraded, "decided while the store was gone"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %d %s", x.n, x.text)
		}
	}
	return s
}

// ruleText is the account of one rule: what was taken of what was to be had.
func ruleText(a *plans.Explanation, r *plans.RuleReport) string {
	share := ""
	if r.Degraded {
		share = ", one instance's share while the store was gone"
	}
	back := r.Refill + " back"
	if r.Refill == "" {
		back = "a quota of its period"
	}
	s := fmt.Sprintf("%s: at most %s, %s%s, version %s\n", r.Rule, plural(int(r.Capacity), "token"), back, share, strings.Join(r.Versions, ", "))
	s += fmt.Sprintf("  %d taken", r.Taken)
	if alone(a, r) && r.Refill != "" {
		s += fmt.Sprintf("; %d were to be had in %s: %d at once, %d that came back", r.Had, r.Last.Sub(r.First).Round(time.Millisecond), r.Capacity, r.Had-r.Capacity)
	}
	s += "\n"
	if r.Refused > 0 {
		s += fmt.Sprintf("  %d requests refused by it\n", r.Refused)
	}
	return s
}

// alone reports whether what a rule gave can be reckoned: under one set of numbers,
// at all instances together, and as it was taken.
func alone(a *plans.Explanation, r *plans.RuleReport) bool {
	n := 0
	for i := range a.Rules {
		if a.Rules[i].Rule == r.Rule {
			n++
		}
	}
	return n == 1 && !r.Degraded && a.Settled == 0
}

// secondSteps are what rows of the table sum up; the first that makes few enough.
var secondSteps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

const mostSteps = 15

func secondsTable(out io.Writer, all []plans.SecondReport) {
	step := secondSteps[len(secondSteps)-1]
	for _, d := range secondSteps {
		rows := map[time.Time]bool{}
		for i := range all {
			rows[all[i].At.Truncate(d)] = true
		}
		if len(rows) <= mostSteps {
			step = d
			break
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s from\tasked\tallowed\trefused\tcost\tleft after\n", short(step))
	for len(all) > 0 {
		at := all[0].At.Truncate(step)
		var sum plans.Decided
		var last *plans.SecondReport
		for len(all) > 0 && all[0].At.Truncate(step).Equal(at) {
			x := &all[0]
			sum.Asked, sum.Allowed, sum.Refused, sum.Cost = sum.Asked+x.Asked, sum.Allowed+x.Allowed, sum.Refused+x.Refused, sum.Cost+x.Cost
			last, all = x, all[1:]
		}
		var left []string
		for _, l := range last.Limits {
			left = append(left, fmt.Sprintf("%s %d", l.Rule, l.Remaining))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", at.Format("15:04:05"), sum.Asked, sum.Allowed, sum.Refused, sum.Cost, strings.Join(left, ", "))
	}
	w.Flush()
}

func refusalsTitle(a *plans.Explanation, n int) string {
	if int64(n) == a.Refused {
		return "Refusals:"
	}
	return fmt.Sprintf("The last %d of %d refusals:", n, a.Refused)
}

func refusalsTable(out io.Writer, all []plans.RefusalReport) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "at\tby\tcost\tleft\tretry after\tversion\tdegraded\troute")
	for i := range all {
		r := &all[i]
		by, retry := r.Rule, short(time.Duration(r.RetryAfterMS)*time.Millisecond)
		if r.Reason != "" {
			by = strings.TrimSpace(r.Reason + " " + by)
		}
		if r.RetryAfterMS == 0 {
			retry = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", r.At.Format("15:04:05.000000"), by, r.Cost, r.Remaining, retry, r.Version,
			map[bool]string{true: "yes", false: "no"}[r.Degraded], dash(r.Route))
	}
	w.Flush()
}
