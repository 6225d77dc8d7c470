package client

import "time"

// TakeRequest asks whether a caller of a general API may do something now, and
// takes its cost if he may: POST /v1/limits/take.
type TakeRequest struct {
	// Key is the caller's own API key, or anything else that limits are counted
	// by. It is hashed by guardd and kept nowhere. At most 1024 bytes.
	Key string `json:"key"`
	// Rule or Rules (all or nothing) name what to count against; neither: the
	// rules of the key's plan that count Route.
	Rule  string   `json:"rule,omitempty"`
	Rules []string `json:"rules,omitempty"`
	Route string   `json:"route,omitempty"` // as in the rules' cost tables
	// Cost in tokens; nil is 1, and 0 looks without taking.
	Cost *int64 `json:"cost,omitempty"`
	// RequestID makes a repeat within 10 minutes charge once. At most 128 bytes.
	RequestID string `json:"request_id,omitempty"`
	// Reserve: Cost is an estimate. Settle within 60 s what it really was.
	Reserve bool `json:"reserve,omitempty"`
}

// TakeResponse is the answer to a TakeRequest, whatever was decided. Its figures
// are those of the binding rule, and of one moment.
type TakeResponse struct {
	Allowed   bool   `json:"allowed"`
	Rule      string `json:"rule"`
	Limit     int64  `json:"limit"`     // capacity, in tokens
	Remaining int64  `json:"remaining"` // whole tokens left, after this
	// RetryAfterMS is how long to wait until the same request can be let through;
	// 0 unless refused.
	RetryAfterMS int64 `json:"retry_after_ms"`
	ResetAfterMS int64 `json:"reset_after_ms"` // until the rule is full again
	Degraded     bool  `json:"degraded"`       // one instance answered by itself, at its share
	// Reason is why no rule decided: suspended (the key is) or uncounted (no rule
	// of its plan counts the route).
	Reason      string            `json:"reason,omitempty"`
	Limits      []LimitLevel      `json:"limits"`                // every rule, in order
	Reservation string            `json:"reservation,omitempty"` // for Settle
	Headers     map[string]string `json:"headers"`               // to pass on to the caller
}

// LimitLevel is one rule of a take.
type LimitLevel struct {
	Rule      string `json:"rule"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Allowed   bool   `json:"allowed"`
}

// SettleRequest says what a reservation really cost: POST /v1/limits/settle.
type SettleRequest struct {
	Reservation string `json:"reservation"`
	Cost        *int64 `json:"cost"` // in tokens; 0 gives all of it back
}

// SettleResponse is the answer to a SettleRequest.
type SettleResponse struct {
	// Settled: the cost counts now. Duplicate: the reservation was settled before.
	// Neither: it has expired, and was charged as estimated.
	Settled   bool  `json:"settled"`
	Duplicate bool  `json:"duplicate"`
	Charged   int64 `json:"charged"`   // the cost that counts, in tokens
	Remaining int64 `json:"remaining"` // of the binding rule, after this
	Degraded  bool  `json:"degraded"`
}

// AcquireRequest asks for a slot of rules of kind concurrency, or renews one: POST
// /v1/limits/acquire.
type AcquireRequest struct {
	Key   string   `json:"key"`
	Rule  string   `json:"rule"`
	Rules []string `json:"rules"` // all or nothing; not with Rule
	// Route is for a Key with a plan, of which neither Rule nor Rules is given.
	Route string `json:"route"`
	// TTLMS is how long the slot lives unless it is renewed, from 1000; at most, and
	// if 0, as the rules say.
	TTLMS int64 `json:"ttl_ms"`
	// RequestID makes a repeat renew the first's slot while it is held.
	RequestID string `json:"request_id"`
	// Slot is one that is held, to be renewed. Key and Rules need not be given then.
	Slot string `json:"slot"`
}

// AcquireResponse is the answer to an AcquireRequest.
type AcquireResponse struct {
	Allowed bool   `json:"allowed"`
	Slot    string `json:"slot"` // to renew and to release; "" where nothing is held
	Renewed bool   `json:"renewed"`
	// Rule, InUse and Limit are of the rule with the fewest slots left.
	Rule      string      `json:"rule"`
	InUse     int64       `json:"in_use"`
	Limit     int64       `json:"limit"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty"` // none where nothing is held
	Degraded  bool        `json:"degraded"`
	Reason    string      `json:"reason,omitempty"` // why no rule decided
	Limits    []SlotLevel `json:"limits"`
	// RetryAfterMS is an estimate: nobody knows when another's work is done.
	RetryAfterMS int64             `json:"retry_after_ms"`
	Headers      map[string]string `json:"headers"` // to pass on
}

// SlotLevel is one rule of an acquire.
type SlotLevel struct {
	Rule    string `json:"rule"`
	Limit   int64  `json:"limit"`
	InUse   int64  `json:"in_use"`
	Allowed bool   `json:"allowed"`
}

// ReleaseRequest frees a slot: POST /v1/limits/release.
type ReleaseRequest struct {
	Slot string `json:"slot"`
}

// ReleaseResponse is the answer to a ReleaseRequest.
type ReleaseResponse struct {
	Released bool `json:"released"` // false: it was not held any more
}
