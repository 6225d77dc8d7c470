package escalation

import (
	"encoding/binary"
	"net/netip"

	"github.com/guardd/guardd/keys"
)

// writer and reader are the few shapes that tokens are made of. Numbers are
// varints; what has a fixed size has no length.
type writer struct{ b []byte }

func (w *writer) raw(b []byte)  { w.b = append(w.b, b...) }
func (w *writer) byte(b byte)   { w.b = append(w.b, b) }
func (w *writer) num(n int64)   { w.b = binary.AppendUvarint(w.b, uint64(n)) }
func (w *writer) text(s string) { w.num(int64(len(s))); w.b = append(w.b, s...) }
func (w *writer) addr(a netip.Addr) {
	b := a.AsSlice()
	w.byte(byte(len(b)))
	w.raw(b)
}

// reader turns bad on the first thing that does not fit, and then returns
// zeroes.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) raw(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return make([]byte, min(max(n, 0), 16))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte { return r.raw(1)[0] }

func (r *reader) num() int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(keys.MaxExact) {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

func (r *reader) text() string {
	n := int(r.num())
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return ""
	}
	return string(r.raw(n))
}

func (r *reader) addr() netip.Addr {
	switch n := r.byte(); n {
	case 0:
		return netip.Addr{}
	case 4, 16:
		a, _ := netip.AddrFromSlice(r.raw(int(n)))
		return a
	}
	r.b, r.bad = nil, true
	return netip.Addr{}
}

func (r *reader) id() [16]byte { return [16]byte(r.raw(16)) }

// done reports whether everything fitted and nothing is left over.
func (r *reader) done() bool { return !r.bad && len(r.b) == 0 }
