package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/guardd/guardd/escalation"
)

const strictPolicy = `realms:
  default:
    delivery: {driver: log}
    flows: {login: {limits: [{tier: account, name: burst, capacity: 2}]}}
`

func realDiff(t *testing.T, before, after string) *diffFigures {
	t.Helper()
	var out, errOut bytes.Buffer
	args := []string{before, after, "--replay", "loginlog/testdata/sshd-auth.log.gz", "--year", "2025", "--zone", "UTC", "--json", "--top", "1000"}
	if code := policyDiffCommand(context.Background(), args, getenv(nil), nil, &out, &errOut); code != exitOK {
		t.Fatalf("%d: %s", code, errOut.String())
	}
	d := &diffFigures{}
	if err := json.Unmarshal(out.Bytes(), d); err != nil || d.Replayed == nil {
		t.Fatal(err)
	}
	return d
}

// A policy differs from itself in nothing; and from another as both differ when
// each is replayed alone.
func TestADiffIsWhatTwoReplaysSay(t *testing.T) {
	strict := writeFile(t, "strict.yaml", strictPolicy)
	same := realDiff(t, "default", "default")
	if r := same.Replayed; r.Same != r.Attempts || r.Attempts != 1185 || len(r.Examples) > 0 || len(same.Rows) > 0 {
		t.Errorf("a policy differs from itself: %+v", same)
	}
	d := realDiff(t, "default", strict).Replayed
	for i, policy := range []string{"", strict} {
		var out, errOut bytes.Buffer
		args := []string{"loginlog/testdata/sshd-auth.log.gz", "--year", "2025", "--zone", "UTC", "--json", "--policy", policy}
		if code := replayCommand(context.Background(), args, getenv(nil), nil, &out, &errOut); code != exitOK {
			t.Fatalf("%d: %s", code, errOut.String())
		}
		var alone replayFigures
		if err := json.Unmarshal(out.Bytes(), &alone); err != nil {
			t.Fatal(err)
		}
		var sums byAction
		for was, row := range d.Actions {
			for is, n := range row {
				*sums.of([]escalation.Action{was, is}[i]) += n
			}
		}
		honest, guesses := []int64{d.Honest.OldAllowed, d.Honest.NewAllowed}[i], []int64{d.Guesses.OldAllowed, d.Guesses.NewAllowed}[i]
		if sums != alone.ByAction || honest != alone.HonestLogins-alone.HonestWithFriction || guesses != alone.GuessesLetThrough {
			t.Errorf("policy %q: in the diff %+v, %d honest and %d guesses let through; alone %+v", policy, sums, honest, guesses, alone)
		}
	}
	if d.Honest.More+d.Honest.Less+d.Guesses.More+d.Guesses.Less+d.Same != d.Attempts || d.Guesses.More == 0 {
		t.Errorf("the parts are not the whole: %+v", d)
	}
	if n := int64(len(d.Examples)); n != d.Honest.MoreAccounts+d.Honest.LessAccounts+d.Guesses.MoreAccounts+d.Guesses.LessAccounts {
		t.Errorf("%d examples, not one an account", n)
	}
	if !slices.IsSortedFunc(d.Examples, func(a, b diffExample) int {
		return map[bool]int{true: 0, false: 1}[a.Honest] - map[bool]int{true: 0, false: 1}[b.Honest]
	}) {
		t.Error("honest logins do not come first")
	}
}
