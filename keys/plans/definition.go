package plans

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// Definition is what an operator writes, in the order and under the names of
// its YAML. It is data: Compile judges it.
type Definition struct {
	Rules []Rule `yaml:"rules,omitempty" json:"rules,omitempty"`
	Plans []Plan `yaml:"plans,omitempty" json:"plans,omitempty"`
	Keys  []Key  `yaml:"keys,omitempty" json:"keys,omitempty"`
	// Unread are rows of a database that could not be read.
	Unread []Unread `yaml:"-" json:"-"`
}

// Plan is the rules that its keys have, by name.
type Plan struct {
	Name  string   `yaml:"name" json:"name"`
	Rules []string `yaml:"rules" json:"rules"`
}

// State is what becomes of a key's takes.
type State string

const (
	// Active is the state of a key in use. The default.
	Active State = "active"
	// Suspended refuses every take of the key (reason "suspended").
	Suspended State = "suspended"
)

// Key is one caller of the API.
type Key struct {
	// SHA256 is of the key's bytes: a definition that leaks opens nothing.
	SHA256 Digest `yaml:"sha256" json:"sha256"`
	// Name is for operators; it is not secret, and need not be given.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	Plan string `yaml:"plan" json:"plan"`
	// Overrides give this key other numbers than its plan's rules have.
	Overrides []Override `yaml:"overrides,omitempty" json:"overrides,omitempty"`
	State     State      `yaml:"state,omitempty" json:"state,omitempty"`
}

// Override is one key's own numbers for a rule of its plan; what is not given
// is the rule's.
type Override struct {
	Rule     string `yaml:"rule" json:"rule"`
	Capacity *int64 `yaml:"capacity,omitempty" json:"capacity,omitempty"`
	Refill   string `yaml:"refill,omitempty" json:"refill,omitempty"`
	// Anchor is the key's own billing day, of a quota.
	Anchor *int64 `yaml:"anchor,omitempty" json:"anchor,omitempty"`
}

// NewKey makes up a key that nobody guesses, of 256 bits. Nobody keeps it but who
// is told.
func NewKey() (key string, sum Digest) {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	key = "gk_" + base64.RawURLEncoding.EncodeToString(b)
	return key, sha256.Sum256([]byte(key))
}

// Digest is a SHA-256, in text 64 hex digits.
type Digest [32]byte

// String returns 64 lower-case hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText is the inverse of UnmarshalText.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("must be 64 hex digits: printf %%s KEY | sha256sum")
	}
	copy(d[:], raw)
	return nil
}
