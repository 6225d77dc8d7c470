package detect

import "net/netip"

// Class is what an attempt counts as.
type Class uint8

// The classes.
const (
	// Success is a sign-in. An account counts once an hour, so that an attacker
	// cannot make failures look honest with accounts of his own.
	Success Class = iota
	// Warm is a failure on a known device or in a familiar place: the owner's, as
	// far as anybody can tell.
	Warm
	// Cold is any other failure.
	Cold
	// Repeat is a failure with a password with which the account has failed within
	// a day: an application that has kept an old one, not a guess.
	Repeat
	// Unsolved is an attempt from an unknown device in an unfamiliar place that
	// was asked for something and not let through. It becomes Solved if the same
	// account's challenge is solved from there.
	Unsolved

	Classes = 5
)

var classNames = [Classes]string{"success", "warm", "cold", "repeat", "unsolved"}

// String returns the class's name in metrics and findings.
func (c Class) String() string { return classNames[c%Classes] }

// Failed reports whether the class is a cold failure.
func (c Class) Failed() bool { return c == Cold || c == Unsolved }

// Sight is one attempt as the detectors see it. It holds no name: Account is
// the keyed hash that events carry.
type Sight struct {
	At      int64 // of the attempt's outcome, or of its refusal
	Class   Class
	Account string
	// Source is what counts as one visitor, an IPv4 address or an IPv6 /64; Wide
	// is the /24 or /48 around it, which is what a rented range has.
	Source, Wide netip.Prefix
	ASN          uint32 // 0: not known
	UA           uint8  // place in escalation.UAClasses

	// Tag is the password's tag under the key of At's UTC day, TagBefore under
	// that of the day before; "" for none.
	Tag, TagBefore string

	Stranger bool // an unknown device in an unfamiliar place
	Unknown  bool // there is no such account
	Breached bool // the password is known to have leaked

	// NewNetwork and NewAccount are set by Novelty: Wide was not seen in 14 days,
	// and, of a Cold one, the account has not failed for a day.
	NewNetwork, NewAccount bool
}
