package keys

import (
	"encoding/binary"
	"math"
)

// Records are short strings of little-endian doubles, which Redis scripts
// unpack in one call and which hold every integer up to 2^53 exactly. One of
// a wrong length counts as missing. Every record carries its own end of life,
// because time is an argument; a key's TTL is only housekeeping.

// State is what a realm's posture and global baseline are. The zero value is
// Normal with nothing learned.
type State struct {
	Posture  Posture // the aggregator's
	Until    int64   // when it lapses to Normal
	Pin      Posture // an operator's; wins while it lasts
	PinUntil int64
	Baseline Limit // learned global limit; zero: none
	// Epoch is the Control that posture and baseline are of. It only grows.
	Epoch int64
}

// Effective is the posture in force at now.
func (s State) Effective(now int64) Posture {
	switch {
	case now < s.PinUntil:
		return s.Pin
	case now < s.Until:
		return s.Posture
	}
	return Normal
}

const stateDoubles = 8

// MaxBaseline is the largest learned baseline, in units and in Count: whatever
// a posture divides it by, it stays in the exact range. A larger one counts as
// not learned.
const MaxBaseline = MaxExact / MaxDivisor / 2

// Encode returns the record of s.
func (s State) Encode() []byte {
	return doubles(int64(s.Posture), s.Until, int64(s.Pin), s.PinUntil,
		s.Baseline.Capacity, s.Baseline.Count, s.Baseline.Period, s.Epoch)
}

// DecodeState is the inverse of Encode; anything else is the zero State.
func DecodeState(b []byte) State {
	var n [stateDoubles]int64
	if !readDoubles(b, n[:]) || n[0] < 0 || n[0] > int64(Critical) || n[2] < 0 || n[2] > int64(Critical) {
		return State{}
	}
	s := State{Posture: Posture(n[0]), Until: n[1], Pin: Posture(n[2]), PinUntil: n[3],
		Baseline: Limit{Capacity: n[4], Count: n[5], Period: n[6]}, Epoch: n[7]}
	if !s.Baseline.Exact() || s.Baseline.Units() > MaxBaseline || s.Baseline.Count > MaxBaseline {
		s.Baseline = Limit{}
	}
	return s
}

// EncodeUntil returns the record of a fact that lasts until then (a suspect
// network).
func EncodeUntil(until int64) []byte { return doubles(until) }

// EncodeK returns the record of a learned k that lasts until then.
func EncodeK(k, until int64) []byte { return doubles(k, until) }

func decodeUntil(b []byte, now int64) bool {
	var n [1]int64
	return readDoubles(b, n[:]) && now < n[0]
}

// K reads a record of EncodeK: the k in force at now, 1 where there is none.
func K(b []byte, now int64) int64 { return decodeK(b, now) }

func decodeK(b []byte, now int64) int64 {
	var n [2]int64
	if !readDoubles(b, n[:]) || now >= n[1] {
		return 1
	}
	return min(max(n[0], 1), MaxK)
}

func doubles(n ...int64) []byte {
	b := make([]byte, 0, 8*len(n))
	for _, v := range n {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
	}
	return b
}

// readDoubles fills n from b and reports whether b is exactly that many whole
// doubles within the exact range.
func readDoubles(b []byte, n []int64) bool {
	if len(b) != 8*len(n) {
		return false
	}
	for i := range n {
		f := math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if f != math.Trunc(f) || math.Abs(f) > float64(MaxExact) {
			return false
		}
		n[i] = int64(f)
	}
	return true
}
