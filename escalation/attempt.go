package escalation

import (
	"time"

	"github.com/guardd/guardd/keys"
)

// Attempt is one guess that a handler wants to let a visitor make. Only
// Account and IP are required.
type Attempt struct {
	Account string // as typed; normalised here, never stored
	IP      string // the visitor's address, as the handler knows it
	Realm   string // "" is DefaultRealm
	Flow    string // "" is DefaultFlow
	Device  string // device token from an earlier success
	Proof   string // what an earlier challenge gave
	// RequestID is made by the handler, never the visitor. Within a minute a
	// repeat gets the first allow again. At most 128 bytes.
	RequestID string
	// Challenge and Answer stand in place of Proof: the token of a picture or
	// code and what the visitor typed.
	Challenge string
	Answer    string
	// ReturnURL is where the hosted challenge page sends the visitor back to;
	// only origins that the realm allows.
	ReturnURL        string
	UserAgent        string
	Channel          string
	PasswordBreached bool
	// PasswordTag is the handler's own HMAC of the password, 16 to 64 hex digits. In
	// DefaultFlow one that failed for the account within a day takes from no limit.
	PasswordTag string
}

// Names that stand where a request names none.
const (
	DefaultRealm = "default"
	DefaultFlow  = "login"
)

// Flows are the kinds of guessing that can be told apart.
var Flows = []string{"login", "otp", "reset", "signup"}

// Action is what the handler is to do.
type Action string

// The actions: the rungs, and deny, which only an operator's list gives.
const (
	ActionAllow   Action = "allow"
	ActionDelay   Action = "delay"
	ActionCaptcha Action = "captcha"
	ActionVerify  Action = "verify"
	ActionDeny    Action = "deny"
)

// Actions lists all of them, for metrics and documents.
var Actions = []Action{ActionAllow, ActionDelay, ActionCaptcha, ActionVerify, ActionDeny}

// Verdict is the answer to an Attempt. Whatever it is, it is not an error.
type Verdict struct {
	Action  Action
	Proceed bool   // Action is allow
	Attempt string // sealed; "" when not let through
	// AttemptExpires is until when an outcome can be reported.
	AttemptExpires time.Time
	Posture        keys.Posture
	Degraded       bool // answered by this instance alone
	Shadow         bool // nothing is enforced; Would is the real answer
	Would          Action
	Replayed       bool     // the first answer to the same RequestID
	Reasons        []string // closed set: Reason... and tier.limit
	ProofError     ProofError
	RetryAfter     time.Duration // for delay, else 0
	Tiers          []TierLevel
	Challenge      *Challenge // what would make the attempt acceptable
	// Proof is returned beside an allow when a right Answer still has guesses left.
	Proof string
	// Needed is the rung that was asked for, Used that of the proof which lifted
	// the attempt over it, or none (Allow). Of a deny neither says anything.
	Needed, Used keys.Rung
	Trace
	Channel string // as the handler gave it
	// Realm and Flow are the resolved names; Account is the keyed hash. They
	// are for events, logs and metrics.
	Realm, Flow string
	Account     keys.Account
	IP          keys.Address
	Now         time.Time // by the store's clock
}

// TierLevel is one limit that was looked at.
type TierLevel struct {
	Tier     string
	Limit    string
	Left     int64 // whole tokens, after this answer
	Capacity int64
	Rung     keys.Rung // as judged before taking
}

// Reasons that are not a tier.limit.
const (
	ReasonPosture       = "posture"
	ReasonSuspect       = "suspect"
	ReasonFlood         = "flood"
	ReasonStoreGone     = "store_gone"
	ReasonListDeny      = "list.deny"
	ReasonListAllow     = "list.allow"
	ReasonDeviceInvalid = "device.invalid"
	ReasonDeviceSpent   = "device.spent"
)

// ProofError is why a proof did not count; "" when it did, was not needed, or
// was not shown.
type ProofError string

// The proof errors.
const (
	ProofExpired      ProofError = "expired"
	ProofSpent        ProofError = "spent"
	ProofWrongAccount ProofError = "wrong_account"
	ProofWrongAddress ProofError = "wrong_address"
	ProofTooEarly     ProofError = "too_early"
	ProofInsufficient ProofError = "insufficient"
	ProofWrongAnswer  ProofError = "wrong_answer"
	ProofInvalid      ProofError = "invalid"
	// ProofUnsure: who was asked could not tell (a provider is down). It is
	// never a success, and spends nothing: another way may be tried.
	ProofUnsure ProofError = "unsure"
)

// ProofErrors lists all of them, for metrics and documents.
var ProofErrors = []ProofError{ProofExpired, ProofSpent, ProofWrongAccount, ProofWrongAddress, ProofTooEarly,
	ProofInsufficient, ProofWrongAnswer, ProofInvalid, ProofUnsure}

// Challenge is what a visitor who was not let through can do about it.
type Challenge struct {
	Kind      string    // wait, captcha, verify
	Kinds     []string  // every way that satisfies it
	Token     string    // sealed; for wait, the proof itself from NotBefore on
	ExpiresAt time.Time // of the token
	NotBefore time.Time // for wait, else zero
	// Page, Image and Audio are where a browser finds the hosted page and, for
	// captcha, its picture and sound: absolute where the guard knows its public
	// address.
	Page, Image, Audio string
}

// The kinds of challenge, and the ways to satisfy one.
const (
	KindWait    = "wait"
	KindCaptcha = "captcha"
	KindVerify  = "verify"

	WayWait  = "wait"
	WayImage = "image"
	WayAudio = "audio"
	WayCode  = "code"
	WayPow   = "pow"
)

// Report is the outcome of an attempt that was let through.
type Report struct {
	Attempt          string // as sealed in the Verdict
	Account          string // must be the attempt's
	Outcome          string // one of the seven words
	Device           string // the browser's old token, optional
	PasswordBreached bool
	// Proof finishes a success that is held for a confirmed code (Recorded.Held):
	// it must be such a code's. Where nothing is held it does nothing.
	Proof string
	// ReturnURL is where the page of the challenge of a held success sends the
	// visitor back to; only origins that the realm allows.
	ReturnURL string
}

// Recorded is the answer to a Report.
type Recorded struct {
	Recorded      bool
	Duplicate     bool
	AttemptError  string // "expired", or ""
	Device        string // after success
	DeviceExpires time.Time
	Advice        []string // closed set: Advice...
	// Held: the password was right and has leaked, and the policy has unknown
	// devices show that they are the owner's. Challenge asks for it. Nothing is
	// minted until the success is reported again with its Proof; ProofError is
	// why the one that was shown did not do.
	Held       bool
	ProofError ProofError
	Challenge  *Challenge
	Degraded   bool
	// For events, logs and metrics. Booked is the outcome that the store was told:
	// of a success that is held, a second factor that is waited for.
	Trace
	Realm, Flow string
	Account     keys.Account
	IP          keys.Address
	Outcome     keys.Outcome
	Booked      keys.Outcome
	Now         time.Time // by the store's clock
}

// Advice words.
const (
	AdviceResetPassword = "reset_password"
	AdviceNotifyUser    = "notify_user"
	AdviceVerify        = "verify"
)

// Advices lists all of them, for documents.
var Advices = []string{AdviceResetPassword, AdviceVerify, AdviceNotifyUser}
