package client

import "time"

// ReturnParameter is the query parameter in which the hosted page hands the
// proof to a return_url. It is the query and not the fragment, because a login
// handler must see it where the browser runs no script. It may be seen by
// whoever reads the handler's logs, and opens nothing by itself: a proof is
// for one account, once (a confirmed code: up to 5 guesses) and for minutes,
// and the password is still asked for.
const ReturnParameter = "guardd_proof"

// AnswerRequest is what a visitor gave in answer to a challenge:
// POST /challenges/{token}/answer.
type AnswerRequest struct {
	Answer string `json:"answer"` // digits, code, or what the widget gave
	// Way is how it was solved: image, code, pow or a provider's name; "" goes
	// by the look of it.
	Way string `json:"way,omitempty"`
}

// AnswerResponse has the proof for the next attempt.
type AnswerResponse struct {
	Proof string `json:"proof"`
}

// SendRequest has a code sent to the account's owner:
// POST /challenges/{token}/send. The body may be left out.
type SendRequest struct {
	// Proof is of the challenge that an earlier SendResponse asked for, or of
	// any captcha of the account: then the live code is sent again.
	Proof string `json:"proof,omitempty"`
}

// SendResponse is the same for accounts that do not exist.
type SendResponse struct {
	// Sent: a code is on its way. False: one was sent before and is good until
	// ValidUntil (solving Challenge has it sent again), or, without ValidUntil,
	// Challenge is to be solved first.
	Sent       bool       `json:"sent"`
	ValidUntil time.Time  `json:"valid_until,omitzero"`
	Challenge  *Challenge `json:"challenge,omitempty"`
}
