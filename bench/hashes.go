package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// hashes writes a corpus of about so many rows, as the official downloader's
// single file, with counts as often as in 256 real ranges of November 2024.
func hashes(out io.Writer, rows uint64) error {
	w := bufio.NewWriterSize(out, 1<<20)
	counts := countTexts()
	var pairs [256][2]byte
	for i := range pairs {
		copy(pairs[i][:], strings.ToUpper(hex.EncodeToString([]byte{byte(i)})))
	}
	line := make([]byte, 0, 64)
	for h := newHashWalk(rows); h.next(); {
		line = line[:40]
		for i := range 8 {
			copy(line[2*i:], pairs[byte(h.hi>>(56-8*i))][:])
			copy(line[16+2*i:], pairs[byte(h.mid>>(56-8*i))][:])
		}
		for i := range 4 {
			copy(line[32+2*i:], pairs[byte(h.lo>>(24-8*i))][:])
		}
		line = append(line, counts[h.mid%uint64(len(counts))]...)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}

// hashWalk makes about so many hashes, ascending and spread evenly, the same
// ones in every run.
type hashWalk struct {
	hi, mid uint64
	lo      uint32
	r       *rand.PCG
	gap     uint64
}

func newHashWalk(rows uint64) *hashWalk {
	return &hashWalk{r: rand.NewPCG(1, 1), gap: math.MaxUint64 / rows}
}

// next is false behind the last.
func (h *hashWalk) next() bool {
	x := h.r.Uint64()
	step := 1 + x>>32*(h.gap>>31) // up to twice the mean
	if h.hi > math.MaxUint64-step {
		return false
	}
	h.hi, h.mid, h.lo = h.hi+step, h.r.Uint64(), uint32(x)
	return true
}

// countTexts is the ends of 4,096 lines, with each count as often as it is
// seen: 43.5% 1, 13.9% 2, 34.7% to 10, 7.7% to 255, 0.2% more.
func countTexts() (texts [4096]string) {
	at := 0
	put := func(share float64, count func(i int) int) {
		for i := range int(share * float64(len(texts))) {
			texts[at] = ":" + strconv.Itoa(count(i)) + "\n"
			at++
		}
	}
	put(0.0020, func(i int) int { return 256 << i })
	put(0.0773, func(i int) int { return 11 + i%245 })
	put(0.3467, func(i int) int { return 3 + i%8 })
	put(0.1390, func(int) int { return 2 })
	for ; at < len(texts); at++ {
		texts[at] = ":1\n"
	}
	return texts
}

// writeHashes is the hidden command that a build is fed by.
func writeHashes(out, errOut io.Writer, rows string) int {
	n, err := strconv.ParseUint(rows, 10, 64)
	if err == nil && n == 0 {
		err = fmt.Errorf("no rows")
	}
	if err == nil {
		err = hashes(out, n)
	}
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}
