package operate

import (
	"context"
	"strings"
	"time"
)

// Decision is one attempt that was answered or one outcome that was reported of
// late, as operators see it. It holds no names.
type Decision struct {
	ID      string    `json:"id"`
	Outcome string    `json:"outcome,omitzero"` // of an outcome, as it was booked; "" for an attempt
	Time    time.Time `json:"time"`

	Flow    string `json:"flow,omitzero"`
	Account string `json:"account,omitzero"` // keyed hash
	IP      string `json:"ip,omitzero"`
	Network string `json:"network,omitzero"` // its /24 or /48
	Attempt string `json:"attempt,omitzero"` // joins an outcome to its attempt

	Action     string   `json:"action,omitzero"`
	Would      string   `json:"would,omitzero"` // what would have been answered without shadow
	Reasons    []string `json:"reasons,omitempty"`
	Proof      string   `json:"proof,omitzero"` // rung of the proof that was used
	ProofError string   `json:"proof_error,omitzero"`

	KnownDevice bool   `json:"known_device,omitzero"`
	Familiar    bool   `json:"familiar,omitzero"`
	Device      string `json:"device,omitzero"` // hash
	Posture     string `json:"posture,omitzero"`
	Degraded    bool   `json:"degraded,omitzero"`
	Shadow      bool   `json:"shadow,omitzero"`

	Duplicate bool `json:"duplicate,omitzero"`
	Expired   bool `json:"expired,omitzero"`

	Breached bool   `json:"breached,omitzero"`
	Repeat   bool   `json:"repeat,omitzero"` // the password had been wrong within a day: it took nothing
	UAClass  string `json:"ua_class,omitzero"`
	Channel  string `json:"channel,omitzero"`

	// Limits as the decision found them.
	Limits []LimitThen `json:"limits,omitempty"`
}

// LimitThen is one limit as a decision found it.
type LimitThen struct {
	Tier     string `json:"tier"`
	Limit    string `json:"limit"`
	Left     int64  `json:"left"` // whole tokens, after the answer
	Capacity int64  `json:"capacity"`
	Rung     string `json:"rung"` // as judged before taking
}

// Query selects decisions: those of which every field that is given holds.
type Query struct {
	ID      string
	Attempt string // an attempt and its outcome
	Account string // keyed hash
	IP      string
	Network string // /24 or /48
	Device  string // hash
	Most    int    // how many at most
}

// byID selects what an operator calls a decision: the id of an event, which is an
// instance's name and a number, or else the hash of an attempt.
func byID(id string) Query {
	if instance, number, ok := strings.Cut(id, "-"); ok && len(instance) == 16 && number != "" && strings.Trim(number, "0123456789") == "" {
		return Query{ID: id, Most: 1}
	}
	return Query{Attempt: id, Most: 2}
}

// Recents are the decisions of late, newest first. Implementations are safe for
// concurrent use.
type Recents interface {
	Recent(ctx context.Context, realm string, q Query) ([]Decision, error)
}
