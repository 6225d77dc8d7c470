package detect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWhatAllHaveSaysNothing: at a site of one application, or one that is told of
// neither user agents nor names that do not exist, a property that every failure
// has, or nearly every one, adds up to nothing, however long.
func TestWhatAllHaveSaysNothing(t *testing.T) {
	for _, share := range []float64{1, 0.99, 0.97, 0.94, 0.91, 0.89, 0.85} {
		r := rand.New(rand.NewPCG(21, 22))
		w := NewWatch()
		for i := range int64(12 * day / Width) {
			b := Bin{Start: monday + i*Width}
			by := 20 - 15*math.Cos(2*math.Pi*float64(b.Start%day)/day)
			b.Count[Success], b.Count[Cold] = count(r, by), count(r, 3+0.3*by)
			for range b.Count[Cold] {
				has := r.Float64() < share
				b.NewNetwork += one(has)
				b.UA[one(!has)]++
			}
			w.Step(&b, false)
			if list := w.structure.over(); len(list) > 0 && !w.base.Learning() {
				t.Errorf("share %v: %v after %d bins", share, list, i)
				break
			}
		}
	}
}
