package escalation

import (
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

const (
	alice = "alice@example.com"
	home  = "192.0.2.7"
)

// row is one step of a climb: what is shown, and what comes of it.
type row struct {
	action Action
	wait   time.Duration
	reason string
}

func TestThirtyGuessesClimbTheLadder(t *testing.T) {
	w := newWorld(t)
	var got []row
	var proof string
	for range 30 {
		v := w.try(Attempt{Account: alice, IP: home, Proof: proof})
		r := row{v.Action, v.RetryAfter, ""}
		if len(v.Reasons) > 0 {
			r.reason = v.Reasons[0]
		}
		got = append(got, r)
		switch proof = ""; v.Action {
		case ActionDelay:
			// Time stands still for the buckets' sake: what is waited for is
			// shown by the wait, not by refill.
			proof = w.waited(v)
		case ActionCaptcha:
			proof = w.solve(v, keys.Captcha)
		}
	}
	want := []row{
		{ActionAllow, 0, ""}, {ActionAllow, 0, ""}, {ActionAllow, 0, ""},
		{ActionDelay, 1 * time.Second, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionDelay, 2 * time.Second, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionCaptcha, 0, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionCaptcha, 0, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionCaptcha, 0, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionCaptcha, 0, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionCaptcha, 0, "pair.burst"}, {ActionAllow, 0, "pair.burst"},
		{ActionVerify, 0, "pair.burst"},
	}
	for len(want) < 30 {
		want = append(want, want[17])
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("guess %d: %v, want %v", i+1, got[i], want[i])
		}
	}
}
