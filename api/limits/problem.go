package limits

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/keys/plans"
)

// The problem types of RFC 9457 for rate limits, as registered by
// draft-ietf-httpapi-ratelimit-headers, and ours.
const (
	TypeQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// TypeReducedCapacity is that of Shed: 503, and not the caller's doing.
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeBase            = "https://github.com/guardd/guardd/blob/main/api/problems.md#"
	TypeImpossible      = typeBase + "cost-above-capacity"
	TypeKey             = typeBase + "unauthorized"
	TypeUnavailable     = typeBase + "store-unavailable"
	TypeSuspended       = typeBase + "key-suspended"
)

// Problem is the body of a refusal.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// ViolatedPolicies are the rules that refused, named as in RateLimit-Policy.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Refusal is what a decision that lets nothing through is answered with.
func Refusal(d *plans.Decision) *Problem {
	p := &Problem{Type: TypeQuotaExceeded, Title: "Too many requests", Status: http.StatusTooManyRequests,
		Detail: "The limits of this key are used up for now. Retry-After says when this request can be let through."}
	switch {
	case d.Impossible:
		p = &Problem{Type: TypeImpossible, Title: "Cost above capacity", Status: http.StatusUnprocessableEntity,
			Detail: "The request costs more than a limit can ever hold. Waiting does not help."}
	case d.Reason == plans.ReasonSuspended:
		return &Problem{Type: TypeSuspended, Title: "Key suspended", Status: http.StatusForbidden, Detail: "This key is not in use for now."}
	}
	for i := range d.Limits {
		if l := &d.Limits[i]; !l.Allowed && (!d.Impossible || l.Wait == 0) {
			p.ViolatedPolicies = append(p.ViolatedPolicies, l.Rule)
		}
	}
	return p
}

// SlotRefusal is what a decision that gives no slot is answered with.
func SlotRefusal(d *plans.SlotDecision) *Problem {
	if d.Reason == plans.ReasonSuspended {
		return Refusal(&plans.Decision{Reason: d.Reason})
	}
	p := &Problem{Type: TypeQuotaExceeded, Title: "Too many requests at once", Status: http.StatusTooManyRequests,
		Detail: "As many requests of this key are under way as may be. Repeat this one when another is done."}
	for i := range d.Limits {
		if l := &d.Limits[i]; !l.Allowed {
			p.ViolatedPolicies = append(p.ViolatedPolicies, l.Rule)
		}
	}
	return p
}

// Write answers with it. A cache must not keep what was refused (RFC 6585).
func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
