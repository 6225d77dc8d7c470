package client

import "time"

// AttemptRequest is one guess that a handler wants to let a visitor make:
// POST /v1/attempts. Only Account and IP are required.
type AttemptRequest struct {
	// Account is the name as typed. It is hashed by guardd and kept nowhere.
	// At most 512 bytes.
	Account string `json:"account"`
	// IP is the visitor's address, as the handler knows it: one address, with
	// or without a port (http.Request.RemoteAddr will do where no proxy is in
	// between).
	IP    string `json:"ip"`
	Realm string `json:"realm,omitempty"` // "" is "default"
	Flow  string `json:"flow,omitempty"`  // login (""), otp, reset, signup
	// Device is the token of an earlier success, from the visitor's cookie
	// (DeviceToken). A bad one is never an error.
	Device string `json:"device,omitempty"`
	// Proof is what an earlier challenge gave; for a wait, the challenge's
	// own token once NotBefore has passed.
	Proof string `json:"proof,omitempty"`
	// RequestID makes a repeat within a minute harmless: it gets the first
	// allow again. Made by the handler, never the visitor; Client makes one.
	// At most 128 bytes.
	RequestID string `json:"request_id,omitempty"`
	// Challenge and Answer stand in place of Proof: the token of a picture or
	// code, and what the visitor typed.
	Challenge string `json:"challenge,omitempty"`
	Answer    string `json:"answer,omitempty"`
	// ReturnURL is where a hosted challenge page sends the visitor back to;
	// only origins that the realm allows.
	ReturnURL        string `json:"return_url,omitempty"`
	UserAgent        string `json:"user_agent,omitempty"` // at most 8192 bytes
	Channel          string `json:"channel,omitempty"`    // the handler's word, as "web"; at most 64 bytes
	PasswordBreached bool   `json:"password_breached,omitempty"`
	// PasswordTag is the handler's own HMAC of the password, 16 to 64 hex
	// digits, by which many accounts tried with one password are seen, and one
	// account tried with an old password again and again, which costs nothing.
	PasswordTag string `json:"password_tag,omitempty"`
}

// Actions: what a handler is to do.
const (
	ActionAllow   = "allow"   // compare the password, then report the Outcome
	ActionDelay   = "delay"   // ask to come back after RetryAfterMS
	ActionCaptcha = "captcha" // ask for a solved challenge
	ActionVerify  = "verify"  // ask for a confirmed code
	ActionDeny    = "deny"    // an operator's list names the address
)

// AttemptResponse is the answer to an AttemptRequest.
type AttemptResponse struct {
	Action  string `json:"action"`            // one of the Action words
	Proceed bool   `json:"proceed"`           // Action is allow
	Attempt string `json:"attempt,omitempty"` // for the Outcome; none when not let through
	// KnownDevice: the visitor's device token decided.
	KnownDevice bool   `json:"known_device"`
	Posture     string `json:"posture"`  // normal, elevated, high, critical
	Degraded    bool   `json:"degraded"` // one instance answered by itself, without the store
	// Shadow: nothing is enforced, Action is allow; Would is the real answer.
	Shadow bool   `json:"shadow"`
	Would  string `json:"would"`
	// Reasons say why more than allow is asked: tier.limit, posture, suspect,
	// list.deny, list.allow, flood, device.invalid, device.spent. Never null.
	Reasons []string `json:"reasons"`
	// ProofError is why a proof did not count: expired, spent, wrong_account,
	// wrong_address, too_early, insufficient, wrong_answer, invalid, unsure; else "".
	ProofError   string      `json:"proof_error"`
	RetryAfterMS int64       `json:"retry_after_ms"` // for delay, else 0
	Tiers        []TierLevel `json:"tiers"`          // every limit looked at; never null
	// Challenge is what would make the attempt acceptable; nil when let
	// through, in shadow and for deny.
	Challenge *Challenge `json:"challenge,omitempty"`
	// Proof comes with an allow when a right Answer has guesses left.
	Proof string `json:"proof,omitempty"`

	// Unreachable is set by Client, never by guardd: there was no decision,
	// and Proceed is what Config.Policy says.
	Unreachable bool `json:"-"`
}

// TierLevel is one limit that was looked at.
type TierLevel struct {
	Tier     string `json:"tier"`
	Limit    string `json:"limit"`
	Left     int64  `json:"left"`     // whole tokens, after this answer
	Capacity int64  `json:"capacity"` // in tokens
	Rung     string `json:"rung"`     // as judged before taking
}

// Challenge is what a visitor who was not let through can do about it.
type Challenge struct {
	Kind      string    `json:"kind"`  // wait, captcha, verify
	Kinds     []string  `json:"kinds"` // every way that satisfies it: wait, image, audio, code, pow, or a provider's name
	Token     string    `json:"token"` // for wait, the proof itself from NotBefore on
	ExpiresAt time.Time `json:"expires_at"`
	NotBefore time.Time `json:"not_before,omitzero"` // for wait
	// Page is where a browser meets the challenge, Image and Audio are its
	// picture and sound, for captcha. Absolute when guardd knows its public URL.
	Page  string `json:"page,omitempty"`
	Image string `json:"image,omitempty"`
	Audio string `json:"audio,omitempty"`
}

// Outcomes: what became of an attempt that was let through.
const (
	OutcomeSuccess             = "success"
	OutcomeFailure             = "failure"
	OutcomeUnknownAccount      = "unknown_account"
	OutcomeSecondFactorPending = "second_factor_pending" // password right; success or failure follows
	OutcomeDeniedByPolicy      = "denied_by_policy"      // no password was compared
	OutcomeNotChecked          = "not_checked"           // no password was compared: back-end down
	OutcomeAbandoned           = "abandoned"             // compared, visitor gone
)

// OutcomeRequest reports what became of an attempt: POST /v1/outcomes. An
// attempt that is never reported counts as a failure.
type OutcomeRequest struct {
	Attempt string `json:"attempt"`          // as in the AttemptResponse
	Account string `json:"account"`          // the attempt's
	Outcome string `json:"outcome"`          // one of the Outcome words
	Device  string `json:"device,omitempty"` // the browser's old token
	// PasswordBreached: the password is known from a leak; Advice then says what to do.
	PasswordBreached bool `json:"password_breached,omitempty"`
	// Proof finishes a success that AdviceVerify has held: what its Challenge
	// gave, with all else as before. Where nothing is held it does nothing.
	Proof string `json:"proof,omitempty"`
	// ReturnURL is where the page of that challenge sends the visitor back to;
	// only origins that the realm allows.
	ReturnURL string `json:"return_url,omitempty"`
}

// Advice after an outcome.
const (
	// AdviceResetPassword: it was right, and it has leaked: have it changed.
	AdviceResetPassword = "reset_password"
	// AdviceVerify comes beside it where the realm says so: somebody on an unknown
	// device in an unfamiliar place may have it from the leak. Sign nobody in yet:
	// show OutcomeResponse.Challenge, and report the success again with its proof
	// within 15 minutes of the attempt.
	AdviceVerify = "verify"
	// AdviceNotifyUser: many guesses at the account have failed: tell its owner.
	AdviceNotifyUser = "notify_user"
)

// OutcomeResponse is the answer to an OutcomeRequest.
type OutcomeResponse struct {
	Recorded bool `json:"recorded"`
	// Duplicate: the attempt had been reported before; nothing was changed.
	Duplicate    bool   `json:"duplicate"`
	AttemptError string `json:"attempt_error"` // "expired", or ""
	// Device is for the visitor's browser (DeviceCookie); after success only.
	Device          string    `json:"device,omitempty"`
	DeviceExpiresAt time.Time `json:"device_expires_at,omitzero"`
	Advice          []string  `json:"advice"` // of the Advice words; never null
	// ProofError is why the proof did not finish a held success, as in
	// AttemptResponse; else "".
	ProofError string `json:"proof_error,omitempty"`
	// Challenge comes with AdviceVerify: a code that only the owner gets.
	Challenge *Challenge `json:"challenge,omitempty"`
}

// RevokeRequest makes devices, familiar places and proofs of an account count
// for nothing from now on, at every instance: POST /v1/devices/revoke.
type RevokeRequest struct {
	Account string `json:"account"`
	Realm   string `json:"realm,omitempty"` // "" is "default"
}

// RevokeResponse is the answer to a RevokeRequest.
type RevokeResponse struct {
	Revoked bool `json:"revoked"`
}
