package plans

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// RuleKind is what a rule limits.
type RuleKind string

const (
	// Rate: tokens, which flow back. The default.
	Rate RuleKind = "rate"
	// Concurrency: slots, of which each is held until it is released, or until it
	// expires because its holder no longer renews it.
	Concurrency RuleKind = "concurrency"
	// Quota: tokens of a calendar period, which do not flow back before the next.
	Quota RuleKind = "quota"
)

// RuleKinds are all that this guardd knows: a row of another is bad.
var RuleKinds = []RuleKind{Rate, Concurrency, Quota}

// Settings is what rules of some kinds have beside what every rule has. It is the
// one place that names a setting: files, JSON, the database's column settings,
// changes and lists carry whatever stands here. Each is nil where it is not given;
// in a change nil leaves it as it is, and its zero value takes it away. The tag
// kinds names those that it goes with.
type Settings struct {
	// TTL is how long a slot lives unless it is renewed, as "1m": DefaultTTL, if
	// not given.
	TTL *string `yaml:"ttl,omitempty" json:"ttl,omitempty" kinds:"concurrency"`
	// Per is what a quota counts by: PerMonth, if not given.
	Per *Per `yaml:"per,omitempty" json:"per,omitempty" kinds:"quota"`
	// Anchor is the day of the month on which a quota's month begins, 1 if not given;
	// a shorter month begins on its last.
	Anchor *int64 `yaml:"anchor,omitempty" json:"anchor,omitempty" kinds:"quota"`
	// Zone is whose midnight a quota's period begins at, as "Europe/Berlin"; "UTC" if
	// not given.
	Zone *string `yaml:"zone,omitempty" json:"zone,omitempty" kinds:"quota"`
	// Lease has tokens leased in advance where a key is busy. Not given: never.
	Lease *Lease `yaml:"lease,omitempty" json:"lease,omitempty" kinds:"rate"`
	// Shards spreads each key's bucket over so many slots of a Redis Cluster, at most
	// MaxShards. Not given, and 1: it is one.
	Shards *int64 `yaml:"shards,omitempty" json:"shards,omitempty" kinds:"rate"`
	// Regions are the shares of regions of which each counts its own. Not given: the
	// rule is whole in every one.
	Regions Regions `yaml:"regions,omitempty" json:"regions,omitempty" kinds:"rate,concurrency,quota"`
}

// Bounds of a slot's life. The least leaves a holder time to renew; the most is
// how long one that was killed can keep what others wait for.
const (
	DefaultTTL = time.Minute
	MinTTL     = time.Second
	MaxTTL     = time.Hour
)

// ttl is how long a slot lives. Compile has checked it.
func (r *Rule) ttl() time.Duration {
	if r.TTL == nil {
		return DefaultTTL
	}
	d, _ := time.ParseDuration(*r.TTL)
	return d
}

// each calls f for every setting that is given.
func (s *Settings) each(f func(name string, field reflect.StructField, v reflect.Value)) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if field := v.Type().Field(i); !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			f(name, field, v.Field(i))
		}
	}
}

// Given are the names and values of the settings that are given, in the order of
// their fields.
func (s Settings) Given() (names []string, values []any) {
	s.each(func(name string, _ reflect.StructField, v reflect.Value) {
		names, values = append(names, name), append(values, reflect.Indirect(v).Interface())
	})
	return names, values
}

// lay writes what more gives over s.
func (s *Settings) lay(more *Settings) {
	to := reflect.ValueOf(s).Elem()
	more.each(func(_ string, field reflect.StructField, v reflect.Value) {
		to.FieldByIndex(field.Index).Set(v)
	})
}

// brief takes away what is given as nothing.
func (s Settings) brief() Settings {
	b := s
	to := reflect.ValueOf(&b).Elem()
	s.each(func(_ string, field reflect.StructField, v reflect.Value) {
		if v = reflect.Indirect(v); v.IsZero() || v.Kind() == reflect.Map && v.Len() == 0 {
			to.FieldByIndex(field.Index).SetZero()
		}
	})
	return b
}

func sameSettings(a, b Settings) bool { return reflect.DeepEqual(a.brief(), b.brief()) }

// checkKind completes the kind, and refuses what does not go with it.
func (r *Rule) checkKind(at string, faults *Faults) {
	choose(at+".kind", &r.Kind, faults, RuleKinds...)
	r.Settings = r.Settings.brief()
	if !slices.Contains(RuleKinds, r.Kind) {
		return
	}
	r.each(func(name string, field reflect.StructField, _ reflect.Value) {
		if !slices.Contains(strings.Split(field.Tag.Get("kinds"), ","), string(r.Kind)) {
			faults.add(at+"."+name, r.notWith())
		}
	})
}

func (r *Rule) notWith() string { return fmt.Sprintf("does not go with kind %s", r.Kind) }

// checkSlots is check for what a rule of kind Concurrency is made of.
func (r *Rule) checkSlots(at string, faults *Faults) {
	if r.Capacity < 1 || r.Capacity > MaxSlots {
		faults.add(at+".capacity", fmt.Sprintf("must be from 1 to %d slots", MaxSlots))
	}
	r.bare(at, faults, "refill", "counts", "refund")
	for route, n := range r.Routes {
		if n != 0 && n != 1 {
			faults.add(at+".routes["+route+"]", "a request holds one slot (1) or none (0)")
		}
	}
	if r.TTL == nil {
		return
	}
	if d, err := time.ParseDuration(*r.TTL); err != nil || d < MinTTL || d > MaxTTL {
		faults.add(at+".ttl", fmt.Sprintf("must be a time from %s to %s, not %q", MinTTL, MaxTTL, *r.TTL))
	}
}

// bare refuses what does not go with the kind, of what every rule has.
func (r *Rule) bare(at string, faults *Faults, fields ...string) {
	given := map[string]bool{"refill": r.Refill != "", "counts": r.Counts != "" && r.Counts != CountsCost, "refund": r.Refund != "" && r.Refund != RefundServer}
	for _, f := range fields {
		if given[f] {
			faults.add(at+"."+f, r.notWith())
		}
	}
}

// MaxSlots bounds a concurrency cap: its set is one value of the store.
const MaxSlots = 100_000
