package plans

import (
	"encoding/binary"

	"github.com/guardd/guardd/keys"
)

// reservation is what a sealed one holds: all that is needed to settle it at any
// instance, and nothing that names anybody.
type reservation struct {
	id       [16]byte
	digest   Digest // of the key: its own numbers may have changed meanwhile
	instance [8]byte
	degraded bool
	// leased: each rule's tokens came from a bucket of its own, at most a lease's life
	// before; stamp is when the first of them was leased.
	leased bool
	stamp  int64
	at     int64 // where leased: when it was decided
	cost   int64
	route  string
	held   []held
}

// held is what was taken of one rule.
type held struct {
	rule   string
	tokens int64
	in     keys.Limit
	shard  int // where leased

	from   keys.Spent // at this instance, while the lease lives
	pocket *pocket
}

// encode packs v: at most 16 rules make some 2 KB.
func (v *reservation) encode() []byte {
	b := make([]byte, 0, 256)
	b = append(append(append(b, v.id[:]...), v.digest[:]...), v.instance[:]...)
	b = append(b, flagOf(v.degraded)|flagOf(v.leased)<<1)
	b = binary.AppendUvarint(b, uint64(v.stamp))
	b = binary.AppendUvarint(b, uint64(v.cost))
	b = appendText(b, v.route)
	if v.leased {
		b = binary.AppendUvarint(b, uint64(v.at))
	}
	for _, h := range v.held {
		b = appendText(b, h.rule)
		for _, n := range []int64{h.tokens, h.in.Capacity, h.in.Count, h.in.Period} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		if v.leased {
			b = binary.AppendUvarint(b, uint64(h.shard))
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeReservation is the inverse of encode; ok is false for anything else.
func decodeReservation(b []byte) (v *reservation, ok bool) {
	const head = 16 + 32 + 8 + 1
	if len(b) < head {
		return nil, false
	}
	v = &reservation{id: [16]byte(b), digest: Digest(b[16:]), instance: [8]byte(b[48:]), degraded: b[56]&1 != 0, leased: b[56]&2 != 0}
	r := reader{b: b[head:]}
	v.stamp, v.cost, v.route = r.number(), r.number(), r.text()
	if v.leased {
		v.at = r.number()
	}
	for len(r.b) > 0 && !r.bad {
		h := held{rule: r.text(), tokens: r.number(), in: keys.Limit{Capacity: r.number(), Count: r.number(), Period: r.number()}}
		if v.leased {
			h.shard = int(r.number())
		}
		v.held = append(v.held, h)
	}
	return v, !r.bad && b[56] < 4 && len(v.held) > 0 && len(v.held) <= MaxRules
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(keys.MaxExact) {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return int64(n)
}

func (r *reader) text() string {
	n := r.number()
	if n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
