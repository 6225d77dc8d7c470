package soc

import (
	"fmt"
	"slices"
)

// Severity is how much a record matters. Its numbers are those of OCSF's
// severity_id.
type Severity uint8

// The severities.
const (
	Informational Severity = iota + 1
	Low
	Medium
	High
	Critical
)

// Severities are the names, in order.
var Severities = []string{"informational", "low", "medium", "high", "critical"}

// String is its name; "unknown" of none.
func (s Severity) String() string {
	if s < Informational || s > Critical {
		return "unknown"
	}
	return Severities[s-Informational]
}

// UnmarshalText reads a name.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(Severities, string(text))
	if i < 0 {
		return fmt.Errorf("must be one of %v, not %q", Severities, text)
	}
	*s = Informational + Severity(i)
	return nil
}

// caption is the name as OCSF has it.
func (s Severity) caption() string {
	return [...]string{"Unknown", "Informational", "Low", "Medium", "High", "Critical"}[min(s, Critical)]
}

// less is a severity by n steps less.
func (s Severity) less(n Severity) Severity {
	if s <= Informational+n {
		return Informational
	}
	return s - n
}

// cef is the severity of a CEF header, 0 to 10 (the standard calls 0 to 3 low, 4 to
// 6 medium, 7 and 8 high, 9 and 10 very high).
func (s Severity) cef() int { return [...]int{0, 1, 3, 5, 8, 10}[min(s, Critical)] }

// syslog is the severity of RFC 5424, table 2: informational, notice, warning,
// error, critical.
func (s Severity) syslog() int { return [...]int{6, 6, 5, 4, 3, 2}[min(s, Critical)] }
