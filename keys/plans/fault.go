package plans

import (
	"slices"
	"strings"
)

// Fault is one thing wrong with a definition or a request: the field's path,
// and what to do about it.
type Fault struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Faults is an error that names every bad field at once.
type Faults []Fault

// Error lists field and reason of each.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.Field + ": " + x.Reason
	}
	return strings.Join(lines, "\n")
}

// On reports whether one of them is on the field.
func (f Faults) On(field string) bool {
	return slices.ContainsFunc(f, func(x Fault) bool { return x.Field == field })
}

func (f *Faults) add(field, reason string) { *f = append(*f, Fault{field, reason}) }

// err is nil where nothing is wrong.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
