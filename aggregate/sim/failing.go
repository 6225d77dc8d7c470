package sim

import "github.com/guardd/guardd/aggregate/detect"

// failing are honest strangers who are at it: each with one browser, from one
// network, again within seconds until they are in. Counted as failures that
// have nothing to do with one another they would scatter much less than people
// do, and what is learnt from them would be alarmed by people.
type failing struct {
	at   int
	bins [32]failures // what comes, from at on: tries of them take 21 bins
}

// failures are those of a bin.
type failures struct {
	n, fresh int // all, and from networks that are new
	ua       [detect.Groups]int
}

// begin has n strangers sign in, after odds failures each in the mean, of which
// that share is from a new network.
func (f *failing) begin(r random, n int, odds, fresh float64) {
	fail := chance(odds)
	if fail <= 0 {
		return
	}
	for range r.of(n, fail) {
		class := pick(r, HonestUA)
		at := int64(r.Float64() * detect.Width)
		f.add(at, class, r.Float64() < firstFresh(fresh, odds))
		for k := 1; k < tries && r.Float64() < fail; k++ {
			at += int64(r.between(soon, late) * second)
			f.add(at, class, false)
		}
	}
}

func (f *failing) add(at int64, class int, fresh bool) {
	b := &f.bins[(f.at+int(at/detect.Width))%len(f.bins)]
	b.n++
	b.ua[class]++
	if fresh {
		b.fresh++
	}
}

// next takes those of the next bin.
func (f *failing) next() failures {
	b := f.bins[f.at]
	f.bins[f.at] = failures{}
	f.at = (f.at + 1) % len(f.bins)
	return b
}
