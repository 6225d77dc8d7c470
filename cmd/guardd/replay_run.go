package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/guardd/guardd/cmd/guardd/loginlog"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// replay runs logins through a Guard of its own, whose time is the log's.
//
// What the log cannot say is assumed so: devices are never known (a log has no
// tokens), but places become familiar as they would have. A wrong guess that
// is refused is not made, and takes nothing; the guesser does not come back
// with a proof. Whoever had the right password is honest: when asked for more,
// they pass, by a confirmed code, which every refusal offers, and are back at
// once.
type replay struct {
	guard       *escalation.Guard
	store       *keys.Memory
	policy      *escalation.Policy
	realm, flow string
	clock       int64 // microseconds: the latest time in the log so far
	report      replayReport
	sources     *top
	accounts    *top
	detector    *detector // nil without --detect
}

// replayRoom is how many buckets and marks are kept: four times a service's, so
// that a day of millions of accounts fits, in a few hundred megabytes. The
// report says when it was not enough.
const replayRoom = 4 * keys.DefaultBuckets

func newReplay(policy *escalation.Policy, secrets *escalation.Secrets, realm, flow string) (r *replay, err error) {
	r = &replay{
		policy: policy, realm: realm, flow: flow, clock: 1, // 0 would mean "now"
		sources: newTop(topKeys), accounts: newTop(topKeys),
		report: replayReport{reasons: map[string]int64{}, refusals: map[string]int64{}},
	}
	now := func() int64 { return r.clock }
	r.store = keys.NewMemory(keys.MemoryConfig{Buckets: replayRoom, Marks: replayRoom, Now: now})
	r.guard, err = escalation.New(escalation.Config{
		Store: r.store, Records: r.store, Policy: policy, Secrets: secrets, Instances: 1, Now: now,
	})
	return r, err
}

// run replays all events of the log.
func (r *replay) run(ctx context.Context, s *loginlog.Scanner) error {
	for {
		ev, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r.tick(ev.Time)
		if err := r.detector.tick(ctx, r.clock); err != nil {
			return fmt.Errorf("line %d: %w", s.Lines, err)
		}
		for range ev.Times {
			if _, err := r.login(ctx, &ev, s.Lines); err != nil {
				return fmt.Errorf("line %d: %w", s.Lines, err)
			}
		}
	}
}

// tick moves the clock on. It never runs backwards: a login that the log has
// too late is judged at the latest time before it.
func (r *replay) tick(at time.Time) {
	if r.report.first.IsZero() {
		r.report.first = at
	}
	now := at.UnixMicro()
	if now < r.clock {
		r.report.late++
		r.report.latest = max(r.report.latest, time.Duration(r.clock-now)*time.Microsecond)
		return
	}
	r.clock, r.report.last = now, at
}

// login is one guess. It returns the first answer to it; nil where the log's line
// is refused as input.
func (r *replay) login(ctx context.Context, ev *loginlog.Event, line int64) (*escalation.Verdict, error) {
	p := &r.report
	honest := ev.Outcome == loginlog.Accepted
	if honest {
		p.Accepted++
	} else {
		p.Failed++
	}
	a := &escalation.Attempt{Account: ev.Account, IP: ev.IP, Realm: or(ev.Realm, r.realm), Flow: or(ev.Flow, r.flow), UserAgent: ev.UserAgent}
	v, err := r.guard.Check(ctx, a)
	var faults escalation.Faults
	switch {
	case errors.As(err, &faults):
		p.RefusedInput++
		p.refusals[faults[0].Field+" "+faults[0].Reason]++
		return nil, nil
	case err != nil:
		return nil, err
	}
	r.count(a, v)
	if err := r.detector.attempt(v, a.Account); err != nil {
		return nil, err
	}
	switch {
	case honest:
		return v, r.honest(ctx, a, v, line)
	case v.Proceed:
		p.GuessesLetThrough++
		return v, r.outcome(ctx, a, v, ev.Outcome)
	}
	return v, nil
}

// count books the first answer to an attempt.
func (r *replay) count(a *escalation.Attempt, v *escalation.Verdict) {
	p := &r.report
	p.Attempts++
	p.ByAction.add(v.Action)
	asked := v.Action != escalation.ActionAllow
	if asked {
		for _, reason := range v.Reasons {
			p.reasons[reason]++
		}
	}
	// By what guardd counts by: addresses by their /64, names in normal form.
	source := v.IP.String()
	if v.IP.Is6() {
		source = v.IP.Counted().String()
	}
	r.sources.add(source, asked)
	name, err := r.policy.Realms[a.Realm].Normalise.Apply(a.Account)
	if err != nil {
		name = a.Account
	}
	if a.Realm != r.realm {
		name += " (" + a.Realm + ")"
	}
	r.accounts.add(name, asked)
}

// honest is a login with the right password: it gets in, if need be with a proof.
func (r *replay) honest(ctx context.Context, a *escalation.Attempt, v *escalation.Verdict, line int64) error {
	p := &r.report
	p.HonestLogins++
	if !v.Proceed {
		p.HonestWithFriction++
		p.friction.add(v.Action)
		if v.Action == escalation.ActionDeny { // the operator's own list: there is nothing to pass
			return nil
		}
		proof, err := r.guard.Solve(ctx, v.Challenge.Token, keys.Verify)
		if err != nil {
			return fmt.Errorf("solving a challenge: %w", err)
		}
		again := *a
		again.Proof = proof
		if v, err = r.guard.Check(ctx, &again); err != nil {
			return err
		}
		if err := r.detector.attempt(v, a.Account); err != nil {
			return err
		}
		if !v.Proceed {
			if p.stuck++; p.stuck == 1 {
				p.firstStuck = line
			}
			return nil
		}
	}
	return r.outcome(ctx, a, v, loginlog.Accepted)
}

var outcomeWords = map[loginlog.Outcome]string{
	loginlog.Accepted:       keys.Success.String(),
	loginlog.Failed:         keys.Failure.String(),
	loginlog.UnknownAccount: keys.UnknownAccount.String(),
}

func (r *replay) outcome(ctx context.Context, a *escalation.Attempt, v *escalation.Verdict, o loginlog.Outcome) error {
	rec, err := r.guard.Report(ctx, &escalation.Report{Attempt: v.Attempt, Account: a.Account, Outcome: outcomeWords[o]}, nil)
	if err != nil {
		return fmt.Errorf("reporting an outcome: %w", err)
	}
	return r.detector.outcome(rec)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
