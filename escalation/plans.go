package escalation

import (
	"maps"
	"slices"

	"github.com/guardd/guardd/keys"
)

// Reservations seals what callers of a general API have reserved, under the same
// secrets as all else that is carried. It is safe for concurrent use.
type Reservations struct{ secrets *Secrets }

// Reservations returns the sealer of reservations.
func (s *Secrets) Reservations() Reservations { return Reservations{s} }

// Seal encrypts and authenticates plain.
func (r Reservations) Seal(plain []byte) string { return r.secrets.seal(forReservation, plain) }

// Open is the inverse of Seal; ok is false for everything that Seal did not make.
func (r Reservations) Open(token string) (plain []byte, ok bool) {
	return r.secrets.open(forReservation, token)
}

// Slots seals the slots that callers of a general API hold, as Reservations does.
type Slots struct{ secrets *Secrets }

// Slots returns the sealer of slots.
func (s *Secrets) Slots() Slots { return Slots{s} }

// Seal encrypts and authenticates plain.
func (s Slots) Seal(plain []byte) string { return s.secrets.seal(forSlot, plain) }

// Open is the inverse of Seal; ok is false for everything that Seal did not make.
func (s Slots) Open(token string) (plain []byte, ok bool) { return s.secrets.open(forSlot, token) }

// CallerHash is the keyed hash under which a caller of a general API is counted,
// by the SHA-256 of his key. The pepper is that of the default realm, or of the
// first by name where there is none: it outlives the sealing secrets. No account
// shares a hash with a caller, since no name holds a NUL.
func (g *Guard) CallerHash(sum [32]byte) keys.Account {
	realms := g.live.Load().realms
	r := realms[DefaultRealm]
	if r == nil {
		r = realms[slices.Min(slices.Collect(maps.Keys(realms)))]
	}
	return r.pepper.Account("\x00plan " + string(sum[:]))
}
