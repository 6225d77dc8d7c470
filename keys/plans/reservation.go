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
	stamp    int64
	cost     int64
	route    string
	held     []held
}

// held is what was taken of one rule.
type held struct {
	rule   string
	tokens int64
	in     keys.Limit
}

// encode packs v: at most 16 rules make some 2 KB.
func (v *reservation) encode() []byte {
	b := make([]byte, 0, 256)
	b = append(append(append(b, v.id[:]...), v.digest[:]...), v.instance[:]...)
	flag := byte(0)
	if v.degraded {
		flag = 1
	}
	b = append(b, flag)
	b = binary.AppendUvarint(b, uint64(v.stamp))
	b = binary.AppendUvarint(b, uint64(v.cost))
	b = appendText(b, v.route)
	for _, h := range v.held {
		b = appendText(b, h.rule)
		for _, n := range []int64{h.tokens, h.in.Capacity, h.in.Count, h.in.Period} {
			b = binary.AppendUvarint(b, uint64(n))
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
	v = &reservation{id: [16]byte(b), digest: Digest(b[16:]), instance: [8]byte(b[48:]), degraded: b[56] == 1}
	r := reader{b: b[head:]}
	v.stamp, v.cost, v.route = r.number(), r.number(), r.text()
	for len(r.b) > 0 && !r.bad {
		v.held = append(v.held, held{r.text(), r.number(), keys.Limit{Capacity: r.number(), Count: r.number(), Period: r.number()}})
	}
	return v, !r.bad && len(v.held) > 0 && len(v.held) <= MaxRules
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
