package api_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// holding has unknown devices with a breached password show that they are the
// owner's.
func holding(c *escalation.Config) {
	yes := true
	c.Policy = &escalation.Policy{Realms: map[string]*escalation.Realm{"default": {
		Delivery: escalation.Delivery{Driver: "log"}, Breached: escalation.Breached{Verify: &yes},
	}}}
}

func TestAHeldSuccessIsFinishedWithTheProofOfItsChallenge(t *testing.T) {
	c := newClock()
	g := realGuard(t, holding, func(e *escalation.Config) { e.Now = c.now.Load })
	s := start(t, api.Config{Guard: g})
	a := s.ask(client.AttemptRequest{Account: "alice", IP: "192.0.2.1"})
	q := client.OutcomeRequest{Attempt: a.Attempt, Account: "alice", Outcome: client.OutcomeSuccess, PasswordBreached: true}
	held := read[client.OutcomeResponse](t, s.report(q))
	if !slices.Equal(held.Advice, []string{client.AdviceResetPassword, client.AdviceVerify}) || held.Device != "" || held.Challenge == nil || held.Cookie() != nil {
		t.Fatalf("%+v", held)
	}
	q.Proof = "rubbish"
	if r := read[client.OutcomeResponse](t, s.report(q)); r.ProofError != "invalid" || r.Challenge == nil || r.Device != "" {
		t.Errorf("%+v", r)
	}
	var err error
	if q.Proof, err = g.Solve(context.Background(), held.Challenge.Token, keys.Verify); err != nil {
		t.Fatal(err)
	}
	done := read[client.OutcomeResponse](t, s.report(q))
	if !slices.Equal(done.Advice, []string{client.AdviceResetPassword}) || done.Device == "" || done.Challenge != nil || done.ProofError != "" || !done.Recorded {
		t.Errorf("%+v", done)
	}
	q.ReturnURL = "https://evil.example/"
	if fields := s.report(q).problem(t, http.StatusBadRequest, client.ProblemInvalid); !slices.Equal(fields, []string{"return_url: not_allowed"}) {
		t.Errorf("%q", fields)
	}
}
