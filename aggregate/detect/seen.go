package detect

import (
	"encoding/binary"
	"net/netip"

	"github.com/cespare/xxhash/v2"
)

// hasher makes 64 bits of anything. The seed is secret, because visitors choose
// what is hashed and could fill one corner of a table.
type hasher struct{ seed uint64 }

func (h hasher) text(a string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(h.seed)
	_, _ = d.WriteString(a)
	return d.Sum64()
}

// pair hashes two texts; ("a", "bc") is not ("ab", "c").
func (h hasher) pair(a, b string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(h.seed)
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(a)))
	_, _ = d.Write(n[:])
	_, _ = d.WriteString(a)
	_, _ = d.WriteString(b)
	return d.Sum64()
}

func (h hasher) prefix(p netip.Prefix) uint64 {
	a := p.Addr().As16()
	var d xxhash.Digest
	d.ResetWithSeed(h.seed)
	_, _ = d.Write(a[:])
	_, _ = d.Write([]byte{byte(p.Bits())})
	return d.Sum64()
}

// seen remembers what it was shown for between one period and two. It may think
// that it has seen what it has not, once in a hundred, and never the other way.
type seen struct {
	period      int64
	turn        int64 // of the current period
	now, before bloom
}

// add shows h at that time and says whether it was seen before. Time that goes
// back is the current period's.
func (s *seen) add(at int64, h uint64) (was bool) {
	if turn := at / s.period; turn > s.turn {
		s.before = bloom{}
		if turn == s.turn+1 {
			s.before = s.now
		}
		s.turn, s.now = turn, bloom{}
	}
	if s.now.has(h) {
		return true
	}
	was = s.before.has(h)
	s.now.add(h)
	return was
}

// setBack has the current period be that of at, where it is a later one.
func (s *seen) setBack(at int64) { s.turn = min(s.turn, at/s.period) }

// has looks without showing.
func (s *seen) has(h uint64) bool { return s.now.has(h) || s.before.has(h) }

// bloom is a Bloom filter that grows by layers, so that a small realm costs a
// kilobyte and a large one 1.4 megabytes.
type bloom struct {
	layers [][]uint64
	room   int // what the last layer still takes
}

const (
	bloomFirst = 13 // bits of the first layer's size
	bloomStep  = 2
	bloomLast  = 23 // a layer of 1 MiB; what does not fit makes the filter say yes more often
	bloomPer   = 16 // bits for each
	bloomTries = 4
	bloomMost  = (bloomLast-bloomFirst)/bloomStep + 1 // layers
)

// bloomWords is how large layer n is.
func bloomWords(n int) int { return 1 << (bloomFirst + bloomStep*n - 6) }

func (b *bloom) add(h uint64) {
	n := len(b.layers)
	if n == 0 || b.room <= 0 && n < bloomMost {
		words := bloomWords(n)
		b.layers = append(b.layers, make([]uint64, words))
		b.room = 64 * words / bloomPer
		n++
	}
	b.room--
	layer := b.layers[n-1]
	step := h>>32 | 1
	for i := range uint64(bloomTries) {
		bit := (h + i*step) & uint64(len(layer)*64-1)
		layer[bit/64] |= 1 << (bit % 64)
	}
}

func (b *bloom) has(h uint64) bool {
	step := h>>32 | 1
layers:
	for _, layer := range b.layers {
		for i := range uint64(bloomTries) {
			bit := (h + i*step) & uint64(len(layer)*64-1)
			if layer[bit/64]&(1<<(bit%64)) == 0 {
				continue layers
			}
		}
		return true
	}
	return false
}
