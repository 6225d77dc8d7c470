package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/cmd/guardd/loginlog"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// diffFigures is what policy diff --json prints. Accounts are keyed hashes: it is
// for whoever reviews a policy, and need not have the log.
type diffFigures struct {
	Old string `json:"old"`
	New string `json:"new"`
	// Rows are the lines of the policies that differ, - of old and + of new.
	Rows []string `json:"rows"`
	// Replayed is what became of a log's logins; nil where none was given.
	Replayed *replayedDiff `json:"replayed,omitempty"`
}

type replayedDiff struct {
	Lines    int64 `json:"lines"`
	Attempts int64 `json:"attempts"` // those that both judged
	// Refused counts logins that one of both refuses as input; OnlyOne those that
	// the other judges.
	Refused int64 `json:"refused_input"`
	OnlyOne int64 `json:"refused_by_one"`
	Same    int64 `json:"same"`
	// Actions counts attempts by old answer, then new answer.
	Actions map[escalation.Action]map[escalation.Action]int64 `json:"actions"`
	Honest  diffSide                                          `json:"honest_logins"`
	Guesses diffSide                                          `json:"wrong_guesses"`
	// Examples are the first attempt of each account, of the first few, that is
	// answered differently.
	Examples []diffExample `json:"examples"`
}

// diffSide is what differs for one kind of logins.
type diffSide struct {
	Logins       int64 `json:"logins"`
	More         int64 `json:"asked_for_more"` // than before
	MoreAccounts int64 `json:"asked_for_more_accounts"`
	Less         int64 `json:"asked_for_less"`
	LessAccounts int64 `json:"asked_for_less_accounts"`
	// OldAllowed and NewAllowed were let through at once.
	OldAllowed int64 `json:"old_allowed"`
	NewAllowed int64 `json:"new_allowed"`

	more, less map[keys.Account]struct{}
}

type diffExample struct {
	Line    int64             `json:"line"`
	Time    time.Time         `json:"time"`
	Honest  bool              `json:"honest"`
	Account string            `json:"account"` // keyed hash
	IP      string            `json:"ip"`
	Old     escalation.Action `json:"old"`
	New     escalation.Action `json:"new"`
	Reasons []string          `json:"reasons"` // of the one that asks for more
}

// policyDiff compares two policies, if need be over a log.
type policyDiff struct {
	diffFigures
	top      int
	old, new *replay
	examples [2][2][]diffExample // honest, more
}

// replay judges every login of the log by both policies, each with its own
// memory.
func (d *policyDiff) replay(ctx context.Context, f *diffFlags, policies [2]*escalation.Policy, stdin io.Reader, errOut io.Writer) error {
	secrets, err := diffSecrets(f.secretFile)
	if err != nil {
		return err
	}
	if d.old, err = newReplay(policies[0], secrets, f.realm, f.flow); err != nil {
		return fmt.Errorf("%s: %w", f.old, err)
	}
	if d.new, err = newReplay(policies[1], secrets, f.realm, f.flow); err != nil {
		return fmt.Errorf("%s: %w", f.new, err)
	}
	d.Replayed = &replayedDiff{Actions: map[escalation.Action]map[escalation.Action]int64{}, Examples: []diffExample{}}
	for _, s := range []*diffSide{&d.Replayed.Honest, &d.Replayed.Guesses} {
		s.more, s.less = map[keys.Account]struct{}{}, map[keys.Account]struct{}{}
	}
	scanner, _, err := f.scan(ctx, stdin, errOut, time.Now(), d.run)
	if err != nil {
		return err
	}
	d.Replayed.Lines = scanner.Lines
	for _, honest := range d.examples {
		for _, more := range honest {
			d.Replayed.Examples = append(d.Replayed.Examples, more...)
		}
	}
	for _, s := range []*diffSide{&d.Replayed.Honest, &d.Replayed.Guesses} {
		s.MoreAccounts, s.LessAccounts = int64(len(s.more)), int64(len(s.less))
	}
	if n := d.old.report.stuck + d.new.report.stuck; n > 0 {
		return fmt.Errorf("%s refused in spite of their proof: this is a fault of guardd, please report it", plural64(n, "honest login"))
	}
	return nil
}

// diffSecrets are those of the service, by which accounts have the same hashes
// there; without a file they are made up.
func diffSecrets(file string) (*escalation.Secrets, error) {
	if file == "" {
		return escalation.GenerateSecrets()
	}
	lines, err := defaults().readSecretFile(file)
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	return escalation.NewSecrets(lines)
}

func (d *policyDiff) run(ctx context.Context, s *loginlog.Scanner) error {
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.old.tick(ev.Time)
		d.new.tick(ev.Time)
		for range ev.Times {
			was, err := d.old.login(ctx, &ev, s.Lines)
			if err != nil {
				return fmt.Errorf("line %d, by %s: %w", s.Lines, d.Old, err)
			}
			is, err := d.new.login(ctx, &ev, s.Lines)
			if err != nil {
				return fmt.Errorf("line %d, by %s: %w", s.Lines, d.New, err)
			}
			d.compare(&ev, s.Lines, was, is)
		}
	}
}

// compare books two first answers to one login.
func (d *policyDiff) compare(ev *loginlog.Event, line int64, was, is *escalation.Verdict) {
	r := d.Replayed
	if was == nil || is == nil {
		r.Refused++
		if was != is {
			r.OnlyOne++
		}
		return
	}
	r.Attempts++
	if r.Actions[was.Action] == nil {
		r.Actions[was.Action] = map[escalation.Action]int64{}
	}
	r.Actions[was.Action][is.Action]++
	honest := ev.Outcome == loginlog.Accepted
	side, at := &r.Guesses, 1
	if honest {
		side, at = &r.Honest, 0
	}
	side.Logins++
	if was.Proceed {
		side.OldAllowed++
	}
	if is.Proceed {
		side.NewAllowed++
	}
	reasons, kind, seen := is.Reasons, 0, side.more
	switch before, after := slices.Index(escalation.Actions, was.Action), slices.Index(escalation.Actions, is.Action); {
	case before == after:
		r.Same++
		return
	case after > before:
		side.More++
	default:
		side.Less++
		reasons, kind, seen = was.Reasons, 1, side.less
	}
	if _, again := seen[is.Account]; again {
		return
	}
	seen[is.Account] = struct{}{}
	if all := &d.examples[at][kind]; len(*all) < d.top {
		*all = append(*all, diffExample{line, ev.Time, honest, is.Account.String(), is.IP.String(), was.Action, is.Action, slices.Clone(reasons)})
	}
}

// print writes the report for people.
func (d *policyDiff) print(out io.Writer) error {
	w := &table{bufio.NewWriter(out)}
	fmt.Fprintf(w, "- %s\n+ %s\n\n", d.Old, d.New)
	if len(d.Rows) == 0 {
		fmt.Fprintln(w, "No line of guardd policy check differs.")
	}
	for _, row := range d.Rows {
		fmt.Fprintln(w, row)
	}
	if r := d.Replayed; r != nil {
		d.printReplayed(w, r)
	}
	return w.Flush()
}

func (d *policyDiff) printReplayed(w *table, r *replayedDiff) {
	w.head("Attempts judged by both", r.Attempts)
	w.row("answered the same", r.Same, r.Attempts, "")
	for _, was := range escalation.Actions {
		for _, is := range escalation.Actions {
			if n := r.Actions[was][is]; n > 0 && was != is {
				w.row(fmt.Sprintf("%s -> %s", was, is), n, r.Attempts, "")
			}
		}
	}
	if r.Refused > 0 {
		w.note("%s refused as input, %s by one of both only", plural64(r.Refused, "login"), thousands(r.OnlyOne))
	}
	for _, s := range []struct {
		name string
		side *diffSide
	}{{"Honest logins", &r.Honest}, {"Wrong guesses", &r.Guesses}} {
		w.head(s.name, s.side.Logins)
		w.row("asked for more", s.side.More, s.side.Logins, plural64(s.side.MoreAccounts, "account"))
		w.row("asked for less", s.side.Less, s.side.Logins, plural64(s.side.LessAccounts, "account"))
		w.note("let through at once: %s before, %s now", thousands(s.side.OldAllowed), thousands(s.side.NewAllowed))
	}
	if len(r.Examples) == 0 {
		return
	}
	fmt.Fprintf(w, "\nThe first of some accounts\n  %-10s %-8s %-24s %-20s %s\n", "line", "login", "account", "address", "answer")
	for _, e := range r.Examples {
		kind := "guess"
		if e.Honest {
			kind = "honest"
		}
		fmt.Fprintf(w, "  %-10d %-8s %-24s %-20s %s -> %s because of %s\n", e.Line, kind, e.Account, e.IP, e.Old, e.New, strings.Join(e.Reasons, ", "))
	}
}
