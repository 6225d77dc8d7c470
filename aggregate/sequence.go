package aggregate

// sequenceWindow is how far back a repeat of an instance's event is told: many
// times what a publisher has under way (one batch).
const sequenceWindow = 1 << 14

// sequence is what was read of one instance's events of a realm. They are told
// apart by their numbers, which is what their ids are made of.
type sequence struct {
	high    uint64 // the highest number
	base    uint64 // of those up to it nothing is missed: they were read before
	missing uint64 // numbers above base that have not come
	last    int64  // time of the last event
	seen    [sequenceWindow / 64]uint64
}

// newSequence begins with the event first. What was read before ends with upto;
// where nobody knows, it is the one before first.
func newSequence(first, upto uint64) *sequence {
	return &sequence{high: min(upto, first-1), base: upto}
}

// take reads an event, and returns false for a repeat. Of what is too far back to
// be told it says that it is one.
func (s *sequence) take(n uint64) bool {
	if n <= s.high {
		if s.high-n >= sequenceWindow || s.bit(n) {
			return false
		}
		s.set(n)
		if n > s.base && s.missing > 0 { // late, not lost
			s.missing--
		}
		return true
	}
	if n > s.base+1 {
		s.missing += n - max(s.high, s.base) - 1
	}
	s.forget(s.high+1, n)
	s.high = n
	s.set(n)
	return true
}

func (s *sequence) at(n uint64) (*uint64, uint64) {
	n %= sequenceWindow
	return &s.seen[n/64], 1 << (n % 64)
}

func (s *sequence) bit(n uint64) bool { word, bit := s.at(n); return *word&bit != 0 }
func (s *sequence) set(n uint64)      { word, bit := s.at(n); *word |= bit }

// forget makes room for the numbers from first to last.
func (s *sequence) forget(first, last uint64) {
	if last-first >= sequenceWindow {
		clear(s.seen[:])
		return
	}
	for n := first; n <= last; n++ {
		word, bit := s.at(n)
		*word &^= bit
	}
}
