package detect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWhoGrowsByALittleIsSeen: guesses of which nothing can be told but that there
// are more each day. What grows by 8 % a day is not learnt for normal before it is
// twice what is; slower growth is (README), unless it is made of something else.
func TestWhoGrowsByALittleIsSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	w := NewWatch()
	for i := range int64(100 * day / Width) {
		at := float64(i) * Width / day
		b := Bin{Start: monday + i*Width}
		by := 40 - 20*math.Cos(2*math.Pi*at)
		honest := 2 + 0.25*by
		extra := 0.0
		if at > 28 {
			extra = math.Pow(1.08, at-28)
		}
		b.Count[Success], b.Count[Cold] = count(r, by), count(r, honest+extra)
		if reading := w.Step(&b, false); at > 28 && reading.Attack() {
			t.Logf("seen on day %.0f, at %.1f guesses for 12 usual failures", at-28, extra)
			if extra > 24 {
				t.Errorf("seen at %.1f guesses a bin, want at most 24", extra)
			}
			return
		}
	}
	t.Error("never seen")
}
