// Package keys knows who is asking and how much is left: it turns visitors
// into keys, counts guesses under those keys in exact buckets, and decides in
// one atomic step whether one more guess may be made.
//
// # The bucket
//
// A bucket stores what was spent, when, and against which capacity, in integer
// units: with a refill of count tokens per period microseconds one token is
// period units and each elapsed microsecond gives back count units. There are
// no floats, so there is no rounding and no drift, and a Redis script (whose
// numbers are doubles) computes the same numbers as Go as long as everything
// stays below 2^53, which NewLimit enforces.
//
// # One attempt, one call
//
// An Ask names every bucket of one attempt at once, together with the marks
// that bear on it (posture, suspects, familiar place, spent proofs, device
// revocation). A Store answers it in one atomic step: either one token is
// taken from every limit that has one, or nothing is written. The semantics
// are the pure function judge, in judge.go; Memory (the in-process twin) runs
// it, and redisstore's script is the same function in Lua. Package keystest
// holds the suite that every Store must pass.
//
// # Without the shared store
//
// A Fallback puts the twin beside a shared store. While that one is gone each
// instance grants its share of a limit, capacity / instances and at least 3, less
// what it has seen spent: over an outage max(capacity, 3 x instances) at most,
// and as much as its share again for each instance that starts meanwhile and has
// seen nothing. What was granted is charged when the store is back.
//
// "No" is a value in the Answer. An error means that we do not know.
package keys
