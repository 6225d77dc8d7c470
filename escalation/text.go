package escalation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/keys"
)

// The types of this file are numbers as people write them in a policy. Their
// UnmarshalText never fails: what cannot be read is kept and reported by
// Policy.Validate, so that every fault is named at once and with its path. The
// zero value of each means "not given".

// Percent is a share of a capacity: "70%", "12.5%", "empty" (less than one
// token left) or "never".
type Percent struct {
	at  keys.Threshold
	set bool
	bad string
}

// PercentOf returns the threshold as a Percent.
func PercentOf(t keys.Threshold) Percent { return Percent{at: t, set: true} }

// Threshold returns the threshold; Never where none is given.
func (p Percent) Threshold() keys.Threshold {
	if !p.set {
		return keys.Never
	}
	return p.at
}

// IsZero reports whether nothing was given.
func (p Percent) IsZero() bool { return p == Percent{} }

// MarshalText is the inverse of UnmarshalText.
func (p Percent) MarshalText() ([]byte, error) {
	switch {
	case p.bad != "":
		return []byte(p.bad), nil
	case !p.set:
		return nil, nil
	case p.at == keys.Never:
		return []byte("never"), nil
	case p.at == keys.Empty:
		return []byte("empty"), nil
	}
	return []byte(strconv.FormatFloat(float64(p.at)/100, 'f', -1, 64) + "%"), nil
}

// UnmarshalText reads a share.
func (p *Percent) UnmarshalText(b []byte) error {
	s := strings.TrimSpace(string(b))
	switch s {
	case "":
		*p = Percent{}
		return nil
	case "never":
		*p = PercentOf(keys.Never)
		return nil
	case "empty":
		*p = PercentOf(keys.Empty)
		return nil
	}
	n, ok := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
	h := math.Round(f * 100)
	if !ok || err != nil || !(f >= 0 && f <= 100) || math.Abs(f*100-h) > 1e-9 {
		*p = Percent{bad: s}
		return nil
	}
	*p = PercentOf(keys.Threshold(h))
	return nil
}

// Refill is how fast a bucket fills again: "20/1h" is 20 tokens per hour.
type Refill struct {
	Count int64
	Per   time.Duration
	set   bool
	bad   string
}

// RefillOf returns count tokens per span of time.
func RefillOf(count int64, per time.Duration) Refill {
	return Refill{Count: count, Per: per, set: true}
}

// IsZero reports whether nothing was given.
func (r Refill) IsZero() bool { return r == Refill{} }

// MarshalText is the inverse of UnmarshalText.
func (r Refill) MarshalText() ([]byte, error) {
	switch {
	case r.bad != "":
		return []byte(r.bad), nil
	case r.IsZero():
		return nil, nil
	}
	return fmt.Appendf(nil, "%d/%s", r.Count, shortDuration(r.Per)), nil
}

// UnmarshalText reads a count, a slash and a duration.
func (r *Refill) UnmarshalText(b []byte) error {
	s := strings.TrimSpace(string(b))
	if s == "" {
		*r = Refill{}
		return nil
	}
	n, d, err := keys.ParseRefill(s)
	if err != nil {
		*r = Refill{bad: s}
		return nil
	}
	*r = RefillOf(n, d)
	return nil
}

// Duration is a span of time: "1s", "1m30s".
type Duration struct {
	D   time.Duration
	set bool
	bad string
}

// DurationOf returns d as a Duration.
func DurationOf(d time.Duration) Duration { return Duration{D: d, set: true} }

// IsZero reports whether nothing was given.
func (d Duration) IsZero() bool { return d == Duration{} }

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) {
	switch {
	case d.bad != "":
		return []byte(d.bad), nil
	case d.IsZero():
		return nil, nil
	}
	return []byte(shortDuration(d.D)), nil
}

// UnmarshalText reads a duration in Go's notation.
func (d *Duration) UnmarshalText(b []byte) error {
	s := strings.TrimSpace(string(b))
	v, err := time.ParseDuration(s)
	switch {
	case s == "":
		*d = Duration{}
	case err != nil:
		*d = Duration{bad: s}
	default:
		*d = DurationOf(v)
	}
	return nil
}

// shortDuration is time.Duration.String without the zero parts: "10m", not
// "10m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
