package aggregate

import "github.com/guardd/guardd/aggregate/detect"

const (
	// Lateness is how long after its end a bin still takes what comes late, in
	// microseconds of event time.
	Lateness = 10_000_000
	// longestSilence is how long a realm without events counts as one in which
	// nothing happened. A longer time is one of which nothing is known.
	longestSilence = 24 * 3600 * 1_000_000
)

// bins counts by event time: a bin is closed once an event has come that is later
// by Lateness than its end. Without events none is closed, because from here a
// silence cannot be told from a bus that has stopped.
type bins struct {
	mark int64         // the latest time that has come
	open []*detect.Bin // by start, without gaps; the first has not been closed
	from int64         // start of the first bin of all
}

// at returns the bin of a time and moves the mark; nil where there is none, because
// the time comes late or lies before all bins. closed is told of each bin that is
// complete now, in order.
func (b *bins) at(at int64, closed func(*detect.Bin)) (bin *detect.Bin, late bool) {
	if b.open == nil {
		// The bin of the first event is seen in part only.
		b.from = detect.BinStart(at) + detect.Width
		b.mark, b.open = at, []*detect.Bin{{Start: b.from}}
	}
	b.mark = max(b.mark, at)
	for b.open[0].Start+detect.Width+Lateness <= b.mark {
		if len(b.open) == 1 {
			next := b.open[0].Start + detect.Width
			if now := detect.BinStart(b.mark - Lateness); now-next > longestSilence {
				next = now
			}
			b.open = append(b.open, &detect.Bin{Start: next})
		}
		done := b.open[0]
		b.open = b.open[1:]
		closed(done)
	}
	start := detect.BinStart(at)
	if start < b.open[0].Start {
		return nil, start >= b.from
	}
	for b.open[len(b.open)-1].Start < start {
		b.open = append(b.open, &detect.Bin{Start: b.open[len(b.open)-1].Start + detect.Width})
	}
	return b.open[(start-b.open[0].Start)/detect.Width], false
}
