package api_test

import (
	"fmt"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

var (
	actions     = escalation.Actions
	proofErrors = []escalation.ProofError{"", escalation.ProofExpired, escalation.ProofSpent, escalation.ProofWrongAccount,
		escalation.ProofWrongAddress, escalation.ProofTooEarly, escalation.ProofInsufficient, escalation.ProofWrongAnswer, escalation.ProofInvalid, escalation.ProofUnsure}
	postures = []keys.Posture{keys.Normal, keys.Elevated, keys.High, keys.Critical}
	rungs    = []keys.Rung{keys.Allow, keys.Delay, keys.Captcha, keys.Verify}
	outcomes = []string{client.OutcomeSuccess, client.OutcomeFailure, client.OutcomeUnknownAccount, client.OutcomeSecondFactorPending,
		client.OutcomeDeniedByPolicy, client.OutcomeNotChecked, client.OutcomeAbandoned}
)

func texts[T any](of []T) []string {
	var s []string
	for _, v := range of {
		s = append(s, fmt.Sprint(v))
	}
	return s
}
