package escalation

import (
	"errors"
	"fmt"
	"strings"
)

// FieldFault is one thing wrong: of a request the field's JSON name and one word
// for the reason, of a configuration the field's path and what to do about it.
type FieldFault struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Faults is an error that names every bad field at once.
type Faults []FieldFault

// Error lists field and reason of each.
func (f Faults) Error() string {
	var s []string
	for _, x := range f {
		s = append(s, x.Field+": "+x.Reason)
	}
	return strings.Join(s, "; ")
}

// Add adds one, its reason formatted as by fmt.Sprintf.
func (f *Faults) Add(field, format string, args ...any) {
	*f = append(*f, FieldFault{field, fmt.Sprintf(format, args...)})
}

// Errors of Guard beside Faults.
var (
	// ErrConflict: the request id was used within the last minute for another
	// request.
	ErrConflict = errors.New("request_id was used for another request")
	// ErrRealm: the caller may not act for the realm that the token names.
	ErrRealm = errors.New("not allowed for this realm")
	// ErrStore wraps a failure to reach the store where no local answer can stand
	// in for it (Revoke).
	ErrStore = errors.New("the store cannot be reached")
	// ErrTooMany: this was fetched as often as it may be, or its address
	// fetches too much. A fresh challenge helps, or a minute's patience.
	ErrTooMany = errors.New("fetched too often")
	// ErrUndeliverable is wrapped by a Deliverer's error that no repetition
	// will mend.
	ErrUndeliverable = errors.New("cannot be delivered")
	// ErrMisconfigured is wrapped by a Provider's error that is our own fault
	// (a wrong key), and no sign that the visitor answered wrongly.
	ErrMisconfigured = errors.New("misconfigured")
)
