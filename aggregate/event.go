package aggregate

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Version is the newest form of an Event that this program reads and the one
// it writes. A field that is added keeps it, because readers pass over what
// they do not know; it grows when a field changes its meaning.
const Version = 1

// The kinds of events.
const (
	KindAttempt = "attempt"
	KindOutcome = "outcome"
	// KindEnd is an instance's last event of a realm. After a kill its next start
	// makes it, so that what the kill took is missed, too.
	KindEnd = "end"
)

// Event is one attempt that was answered or one outcome that was reported, as
// it travels. It holds no account name, no password and no user agent.
// docs/events.md describes every field; a test holds the two equal.
type Event struct {
	V int `json:"v"`
	// ID is unique: repeats of an event have the same.
	ID       string `json:"id"`
	Instance string `json:"instance"` // 16 hex digits, anew at every start of a process
	// Seq counts the events that an instance made of the realm, from 1, in order.
	// What is missing in a reader's count was lost.
	Seq  uint64    `json:"seq"`
	Kind string    `json:"kind"`
	Time time.Time `json:"time"` // by the store's clock, microseconds, UTC

	Realm   string `json:"realm"`
	Flow    string `json:"flow,omitzero"`
	Account string `json:"account,omitzero"` // keyed hash, as keys.Account prints
	Name    string `json:"name,omitzero"`    // sealed; only of realms that have names told
	IP      string `json:"ip,omitzero"`      // canonical address
	Network string `json:"network,omitzero"` // its /24 or /48; the /64 is the address' own
	// Attempt joins an outcome to its attempt: a hash of its identity, ""
	// where none was made (the attempt was refused).
	Attempt string `json:"attempt,omitzero"`

	// Of attempts: what was answered, what would have been without shadow, the
	// rung that was needed, and what lifted the attempt over it.
	Action     string   `json:"action,omitzero"`
	Would      string   `json:"would,omitzero"`
	Rung       string   `json:"rung,omitzero"`
	Reasons    []string `json:"reasons,omitempty"`
	Proof      string   `json:"proof,omitzero"` // rung of the proof that was used
	ProofError string   `json:"proof_error,omitzero"`
	// Shown is a hash of the proof that was shown, whether it counted or not, so
	// that one which is shown for many accounts can be told; "" for none, or for
	// one that nobody here has sealed.
	Shown string `json:"shown,omitzero"`

	KnownDevice bool   `json:"known_device,omitzero"`
	Familiar    bool   `json:"familiar,omitzero"`
	Device      string `json:"device,omitzero"` // hash of the device shown, or minted by the outcome; "" for none
	Posture     string `json:"posture,omitzero"`
	Degraded    bool   `json:"degraded,omitzero"`
	Shadow      bool   `json:"shadow,omitzero"`

	// Of outcomes.
	Outcome   string `json:"outcome,omitzero"`   // as it was booked
	Duplicate bool   `json:"duplicate,omitzero"` // one had been reported before: nothing was booked
	Expired   bool   `json:"expired,omitzero"`   // it came too late: nothing was booked

	// Breached: the handler says that the password is known to have leaked.
	Breached bool `json:"breached,omitzero"`
	// Tag is the handler's password tag under a key of the UTC day of the
	// attempt, 16 hex digits; TagPrev is the same under the key of the day
	// before, so that passwords can be compared across midnight; of attempts, and
	// of outcomes of a Repeat.
	Tag     string `json:"tag,omitzero"`
	TagPrev string `json:"tag_prev,omitzero"`
	// Repeat: the password had been wrong for the account within a day, so the
	// attempt took from no limit.
	Repeat  bool   `json:"repeat,omitzero"`
	UAClass string `json:"ua_class,omitzero"` // one of escalation.UAClasses
	// Trace and Span name the request within its caller's trace (W3C), in hex.
	Trace   string `json:"trace,omitzero"`
	Span    string `json:"span,omitzero"`
	Channel string `json:"channel,omitzero"`

	// Tiers are the limits as the decision found them; of attempts only.
	Tiers []TierLevel `json:"tiers,omitempty"`
}

// TierLevel is one limit that an attempt was judged by.
type TierLevel struct {
	Tier     string `json:"tier"`
	Limit    string `json:"limit"`
	Left     int64  `json:"left"` // whole tokens, after the answer
	Capacity int64  `json:"capacity"`
	Rung     string `json:"rung"` // as judged before taking
}

// ErrPoison marks a message that no repeating will make readable. Whoever
// consumes moves it to TopicDead and goes on.
var ErrPoison = errors.New("the message cannot be read")

// AppendTo appends e as JSON.
func (e *Event) AppendTo(b []byte) ([]byte, error) {
	out, err := json.Marshal(e)
	return append(b, out...), err
}

// Decode fills e from what AppendTo made, and resets what is not in it. The
// error is ErrPoison.
func (e *Event) Decode(b []byte) error {
	*e = Event{}
	if err := json.Unmarshal(b, e); err != nil {
		return fmt.Errorf("%w: %w", ErrPoison, err)
	}
	switch {
	case e.V < 1 || e.V > Version:
		return fmt.Errorf("%w: v is %d, and this reader knows up to %d", ErrPoison, e.V, Version)
	case e.ID == "" || e.Realm == "" || e.Time.IsZero():
		return fmt.Errorf("%w: id, realm and time are needed", ErrPoison)
	case e.Kind != KindAttempt && e.Kind != KindOutcome && e.Kind != KindEnd:
		return fmt.Errorf("%w: kind is %.20q", ErrPoison, e.Kind)
	}
	return nil
}
