package client

import (
	"fmt"
	"strings"
)

// ProblemBase begins the type of every problem; the rest is one of the Problem
// words. The page there says what each means and what to do about it.
const ProblemBase = "https://github.com/guardd/guardd/blob/main/api/problems.md#"

// The problems. Types are stable, titles and details are for people.
const (
	ProblemInvalid      = "invalid-request"        // 400, Fields says what
	ProblemUnauthorized = "unauthorized"           // 401
	ProblemForbidden    = "forbidden-realm"        // 403, the key is not for this realm
	ProblemRole         = "forbidden-role"         // 403, the key may not do this much
	ProblemBrowser      = "not-for-browsers"       // 403
	ProblemNotFound     = "not-found"              // 404
	ProblemNoCorpus     = "no-corpus"              // 404, no corpus of that kind is configured
	ProblemNoRange      = "no-range"               // 404, the corpus cannot serve that range
	ProblemUnknownRule  = "unknown-rule"           // 404, of plan limits
	ProblemNoLimits     = "no-limits-database"     // 404, plan limits are in a file, or there are none
	ProblemNoRow        = "unknown-row"            // 404, of the database of plan limits
	ProblemExists       = "row-exists"             // 409, in the database of plan limits
	ProblemNewer        = "newer-guardd"           // 409, keeps that database
	ProblemMethod       = "method-not-allowed"     // 405
	ProblemTimeout      = "request-timeout"        // 408
	ProblemConflict     = "request-id-conflict"    // 409
	ProblemTooLarge     = "body-too-large"         // 413
	ProblemExpired      = "challenge-expired"      // 410
	ProblemMediaType    = "unsupported-media-type" // 415
	ProblemUnsolved     = "challenge-not-solved"   // 422, ProofError says why
	ProblemImpossible   = "cost-above-capacity"    // 422, no wait helps
	ProblemTooMany      = "fetched-too-often"      // 429
	ProblemInternal     = "internal-error"         // 500
	ProblemStore        = "store-unavailable"      // 503, repeat it
	ProblemCorpus       = "corpus-unavailable"     // 503, unknown; repeat it
)

// Problem is a problem document (RFC 9457), and as an error what guardd
// answered in place of a decision.
type Problem struct {
	Type   string       `json:"type"` // ProblemBase and a Problem word
	Title  string       `json:"title"`
	Status int          `json:"status"` // of the HTTP answer
	Detail string       `json:"detail,omitempty"`
	Fields []FieldError `json:"errors,omitempty"`
	// ProofError is why the answer to a challenge gave no proof, and Challenge
	// the one to solve in its place.
	ProofError string     `json:"proof_error,omitempty"`
	Challenge  *Challenge `json:"challenge,omitempty"`
}

// FieldError is one thing wrong with a request: the field's JSON name (a dotted
// path within objects) and one word for the reason.
type FieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Error says status, title and fields. It holds no value of the request.
func (p *Problem) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "guardd answered %d %s", p.Status, p.Title)
	for i, f := range p.Fields {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		s.WriteString(sep + f.Field + " " + f.Reason)
	}
	return s.String()
}

// aboutContent: guardd would have answered, but not to this. What is in a
// request comes from the visitor too, so it must never open the fail policy.
func (p *Problem) aboutContent() bool {
	switch p.Status {
	case 400, 409, 413, 422:
		return true
	}
	return false
}
