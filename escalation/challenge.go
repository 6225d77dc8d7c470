package escalation

import (
	"context"
	"time"
)

// View is what a page shows of a challenge.
type View struct {
	Realm, Flow string
	Kind        string   // wait, captcha, verify
	Kinds       []string // every way that satisfies it, as in Challenge
	ExpiresAt   time.Time
	NotBefore   time.Time // for wait, else zero
	Wait        time.Duration
	ReturnURL   string // sealed in the challenge; "" for none
	Providers   []ProviderView
	Now         time.Time // by the store's clock
}

// ProviderView is what a page needs to show a third party's challenge.
type ProviderView struct {
	Name    string // also the Way of its answers
	SiteKey string
	Script  string // URL
}

// Solution is what a visitor gave in answer to a challenge.
type Solution struct {
	Token string // of the challenge
	// Way is how it was solved: WayImage (the sound has the same digits),
	// WayCode, WayPow or a provider's name. "" judges by the look of Text.
	Way  string
	Text string // digits, code, or what the widget gave
	IP   string // the visitor's, for providers; "" where not known
}

// Solved is what became of a Solution.
type Solved struct {
	Proof        string // "" when it was not right
	ProofExpires time.Time
	Err          ProofError // why there is no proof
	// Challenge is a fresh one of the same kind, after an answer that was not
	// right: each takes one.
	Challenge *Challenge
	ReturnURL string // as sealed in the challenge
	// Realm and Flow are for logs and metrics.
	Realm, Flow string
}

// Media is a rendered picture or sound.
type Media struct {
	Bytes []byte
	Type  string // media type
}

// Renderer draws and speaks digits; captcha.Renderer does. Safe for concurrent
// use. id makes the noise: distinct for distinct challenges.
type Renderer interface {
	Image(id string, digits []byte) (*Media, error)
	// Audio speaks in lang, one of Languages.
	Audio(id string, digits []byte, lang string) (*Media, error)
}

// Languages are those that Guard.Audio speaks.
var Languages = []string{"en", "ja", "ru", "zh", "pt"}

// Sent is what became of a Guard.Send.
type Sent struct {
	// Sent: a mail is on its way. False where one is already there whose code
	// is good until ValidUntil.
	Sent       bool
	ValidUntil time.Time
	// Challenge is what to solve before anything is sent from this address:
	// repeat with its proof.
	Challenge   *Challenge
	Realm, Flow string
}

// Kinds of Message.
const (
	MessageCode   = "code"
	MessageNotice = "notice"
)

// Message is one thing to tell an account's owner.
type Message struct {
	ID   string // the same on every repetition
	Kind string // MessageCode or MessageNotice
	// Account is the name, normalised. It goes to the owner and nowhere else:
	// logs take AccountHash.
	Account, AccountHash string
	Realm, Flow          string
	Code                 string    // for MessageCode
	ExpiresAt            time.Time // of the code
	// Only: no other code is sent until ExpiresAt, so this mail is to be kept.
	Only bool
	// Hint is the first 16 characters of the challenge's token, by which a
	// developer tells codes apart.
	Hint string
	// Notice is what happened, for MessageNotice, and Suppressed how many
	// more notices the account had since the last that was sent.
	Notice     string
	Suppressed int64
	At         time.Time // when it happened
}

// Deliverer delivers one message. It is called off the request's path, by a
// few goroutines at a time, and repeats by itself what may succeed later. An
// error that wraps ErrUndeliverable means that it failed for good.
type Deliverer interface {
	Deliver(ctx context.Context, m *Message) error
}

// Provider is a third party's challenge. Safe for concurrent use.
type Provider interface {
	Name() string    // of policy and answers: "turnstile"
	SiteKey() string // public
	Script() string  // URL
	// Verify asks the third party about what its widget gave. ok false is a
	// wrong answer; an error means that it could not tell (wrapping
	// ErrMisconfigured when that is our own fault).
	Verify(ctx context.Context, response, ip string) (ok bool, err error)
}

// View shows what a challenge asks for. It changes nothing. Errors: Faults
// (token: invalid, expired).
func (g *Guard) View(ctx context.Context, token string) (*View, error) {
	return nil, Faults{{"token", "invalid"}}
}

// Answer judges the answer to a challenge. Every challenge takes one answer
// for its picture and one for its code: a wrong one brings a fresh challenge.
// Errors: Faults (token: invalid).
func (g *Guard) Answer(ctx context.Context, s *Solution) (*Solved, error) {
	return nil, Faults{{"token", "invalid"}}
}

// Image renders the picture of a challenge. Errors: Faults (token: invalid,
// expired), ErrTooMany.
func (g *Guard) Image(ctx context.Context, token string) (*Media, error) {
	return nil, Faults{{"token", "invalid"}}
}

// Audio speaks the digits of a challenge's picture. Errors as of Image, and
// Faults (lang: unknown).
func (g *Guard) Audio(ctx context.Context, token, lang string) (*Media, error) {
	return nil, Faults{{"token", "invalid"}}
}

// Pow returns the proof of work that solves a challenge, as the JSON that the
// ALTCHA widget (version 2 of its protocol) reads. Errors as of Image.
func (g *Guard) Pow(ctx context.Context, token string) ([]byte, error) {
	return nil, Faults{{"token", "invalid"}}
}

// Send has a code sent to the owner of the challenge's account. It answers the
// same, after the same work, whether there is such an account or not: delivery
// is asynchronous. proof is of the picture that an earlier Sent asked for, or
// that has the live code sent again; "" for none. Errors: Faults (token:
// invalid, expired).
func (g *Guard) Send(ctx context.Context, token, proof string) (*Sent, error) {
	return nil, Faults{{"token", "invalid"}}
}

// Close stops taking messages and waits until those on their way are
// delivered, or ctx ends.
func (g *Guard) Close(ctx context.Context) error { return nil }
