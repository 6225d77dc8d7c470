package detect

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// atOnce shows a so many sights of one kind; each is half a failure a minute then.
func atOnce(a *Attribution, n int, s Sight) {
	s.At, s.Wide = monday, wide(s.Source)
	for range n {
		a.See(&s)
	}
}

// TestHeavyMakesNoPlaceForSuccesses, so that people who sign in push nobody out, and
// keeps no more than it should.
func TestHeavyMakesNoPlaceForSuccesses(t *testing.T) {
	h := newHeavy[int](2, minute)
	for i := range 10 {
		h.add(monday, i, false, "")
	}
	if len(h.at) != 0 {
		t.Errorf("%d have a place", len(h.at))
	}
	for i := range 10 {
		h.add(monday, i, true, "")
	}
	if len(h.at) != 2 || len(h.heap) != 2 {
		t.Errorf("%d and %d are kept", len(h.at), len(h.heap))
	}
}

// TestHeavyLetsTheHeavyIn where there is no room and light ones keep coming: who
// takes another's place starts from its weight, or would be the first to go again.
func TestHeavyLetsTheHeavyIn(t *testing.T) {
	h := newHeavy[int](64, 2*minute)
	for i := range 3 * 64 {
		h.add(monday, i%64, true, "")
	}
	for i := range 300 {
		h.add(monday, 1000+i, true, "")
		h.add(monday, 999, true, "")
	}
	if top := h.top(monday, 1, 0); len(top) != 1 || top[0].key != 999 || top[0].failed < 140 || top[0].failed > 150 {
		t.Errorf("the heaviest is %+v", top)
	}
}

// TestHeavyForgetsAllAlike: what was two hours ago counts for nothing, neither
// failures nor sign-ins nor what was taken over from another.
func TestHeavyForgetsAllAlike(t *testing.T) {
	h := newHeavy[int](1, 2*minute)
	at := int64(monday)
	for range 50 {
		h.add(at, 0, true, "")
	}
	for range 100 {
		h.add(at, 1, true, "")
		h.add(at, 1, false, "")
	}
	if top := h.top(at, 1, 0); len(top) != 1 || top[0].failed < 49 || top[0].failed > 51 || top[0].in < 49 || top[0].in > 51 {
		t.Errorf("at first %+v", top)
	}
	at += 125 * minute
	for range 40 {
		h.add(at, 1, true, "")
	}
	if top := h.top(at, 1, 0); len(top) != 1 || top[0].failed < 19.9 || top[0].failed > 20.1 || top[0].in > 0.1 {
		t.Errorf("two hours later %+v", top)
	}
}

// TestAttributionIsOfGuesses: refused ones, too. What applications with old
// passwords send neither accuses an address nor excuses it.
func TestAttributionIsOfGuesses(t *testing.T) {
	a := NewAttribution()
	atOnce(a, 600, Sight{Class: Unsolved, Source: from("198.51.100.1"), Account: "victim"})
	atOnce(a, 6000, Sight{Class: Repeat, Source: from("198.51.100.1")})
	got := a.Few(monday, 300, 0.3)
	if len(got) != 1 || got[0].Prefix != from("198.51.100.1") || got[0].Account != "victim" || got[0].Minute < 299 || got[0].Minute > 301 {
		t.Errorf("%+v", got)
	}
	a = NewAttribution()
	atOnce(a, 6000, Sight{Class: Repeat, Source: from("198.51.100.1")})
	if got := a.Few(monday, 300, 0.3); got != nil {
		t.Errorf("an application is %+v", got)
	}
}

// TestAttributionTakesNothingForAGroup: a handler that sends no passwords and a realm
// without providers' networks have nobody suspected for it. Taken for a group it
// would be "the few", and everybody else left alone.
func TestAttributionTakesNothingForAGroup(t *testing.T) {
	a := NewAttribution()
	for i := range 600 {
		atOnce(a, 1, Sight{Class: Cold, Source: from(fmt.Sprintf("10.%d.%d.1", i/200, i%200)), UA: uint8(i % 3)})
	}
	if got := a.Few(monday, 300, 0.3); got != nil {
		t.Errorf("%+v", got)
	}
	if got := a.Common(monday, 300, 0.3); got != nil {
		t.Errorf("in common %+v", got)
	}
	atOnce(a, 600, Sight{Class: Cold, Source: from("10.9.9.9"), UA: 7, ASN: 64500})
	for _, excess := range []float64{0, -1} {
		if a.Few(monday, excess, 0.3) != nil || a.Common(monday, excess, 0.3) != nil {
			t.Errorf("of an excess of %v there are few", excess)
		}
	}
	got := a.Common(monday, 300, 0.3)
	if len(got) != 2 || got[0].Kind != GroupASN || got[0].Key != "64500" || got[1].Kind != GroupUA || got[1].Key != "7" {
		t.Errorf("in common %+v", got)
	}
}

// TestAttributionLeavesTheSmallAlone: seven who make up nearly enough do not need an
// eighth who fails as anybody may.
func TestAttributionLeavesTheSmallAlone(t *testing.T) {
	for _, s := range []struct{ excess, big, small int }{{300, 59, 10}, {25, 5, 5}} {
		a := NewAttribution()
		for i := range groups {
			n := s.big
			if i == groups-1 {
				n = s.small
			}
			ip := from(fmt.Sprintf("198.51.%d.%d", i, i))
			for j := range n {
				atOnce(a, 1, Sight{Class: Cold, Source: ip, Tag: strconv.Itoa(100*i + j)})
			}
		}
		if got := a.Few(monday, float64(s.excess), 0.3); got != nil {
			t.Errorf("of %d: %+v", s.excess, got)
		}
	}
}

// TestAttributionRemembersFewProviders' networks, whoever comes.
func TestAttributionRemembersFewProviders(t *testing.T) {
	a := NewAttribution()
	for i := range 5 * kept {
		atOnce(a, 1, Sight{Class: Cold, Source: from(fmt.Sprintf("10.%d.%d.1", i>>8, i&255)), ASN: uint32(i + 1)})
	}
	if len(a.of) > 2*kept {
		t.Errorf("%d networks are remembered", len(a.of))
	}
}

// TestSuspectsAreNetworks: a password's tag and a user agent are none.
func TestSuspectsAreNetworks(t *testing.T) {
	p := from("10.0.0.1")
	got := prefixes([]Group{{Kind: GroupSource, Prefix: p}, {Kind: GroupNetwork, Prefix: wide(p)}, {Kind: GroupASN, Key: "1"}, {Kind: GroupTag, Key: "t"}})
	if len(got) != 2 || !slices.Contains(got, p) || !slices.Contains(got, wide(p)) {
		t.Errorf("%v", got)
	}
}
