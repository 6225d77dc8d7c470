package keystest

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

// draw draws what the walk needs.
type draw struct{ *rand.Rand }

func pick[T any](d draw, from []T) T { return from[d.IntN(len(from))] }

func (d draw) one(in int) bool { return d.IntN(in) == 0 }

func (d draw) bytes(b []byte) {
	for i := range b {
		b[i] = byte(d.Uint32())
	}
}

var serial atomic.Int64

// unique makes key names that no other test, run or process uses.
func unique() string {
	return strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatInt(serial.Add(1), 36)
}

// limit draws a limit whose units and count stay below most: small ones whose
// edges a walk meets often, usual ones, and ones at the bound of loading.
func (d draw) limit(most int64) oracle.Limit {
	for {
		var l keys.Limit
		var err error
		switch d.IntN(5) {
		case 0:
			l, err = keys.NewLimit(int64(1+d.IntN(10)), int64(1+d.IntN(7)), time.Duration(1+d.IntN(100))*time.Microsecond)
		case 1, 2:
			l, err = keys.NewLimit(int64(1+d.IntN(100)), int64(1+d.IntN(20)), time.Duration(1+d.IntN(7200))*time.Second)
		case 3: // a large capacity
			period := 1 + d.Int64N(1<<d.IntN(30))
			l, err = keys.NewLimit(max(most/period-d.Int64N(3), 1), 1+d.Int64N(3), time.Duration(period)*time.Microsecond)
		case 4: // a long period
			capacity := 1 + d.Int64N(1<<d.IntN(20))
			l, err = keys.NewLimit(capacity, 1+d.Int64N(100), time.Duration(most/capacity/1000*(1+d.Int64N(1000)))*time.Microsecond)
		}
		if err == nil && l.Units() <= most && l.Count <= most {
			return oracle.Limit(l)
		}
	}
}

func (d draw) steps(s *oracle.LimitSpec) {
	share := func() int {
		switch d.IntN(4) {
		case 0:
			return oracle.Never
		case 1:
			return oracle.Empty
		}
		return pick(d, []int{0, 1, 1000, 3333, 5000, 6000, 7000, 9999, 10000})
	}
	s.Delay, s.Captcha, s.Verify = share(), share(), share()
	if d.one(2) { // as a policy would have it
		s.Delay, s.Captcha, s.Verify = 7000, 5000, oracle.Empty
	}
}

// newRules draws tiers with and without a device.
func (w *walker) newRules() {
	plain := []oracle.Tier{
		{Kind: "pair"}, {Kind: "account"}, {Kind: "ip", SkipFamiliar: true, ByIP: true},
		{Kind: "network", SkipFamiliar: true, ByNetwork: true}, {Kind: "global", SkipFamiliar: w.one(2), ByPosture: true},
	}
	device := []oracle.Tier{{Kind: "device", OwnDevice: true}, {Kind: "devices", SharedDevice: true}}
	w.Shuffle(len(plain), func(i, j int) { plain[i], plain[j] = plain[j], plain[i] })
	plain = plain[:2+w.IntN(4)]
	for _, list := range [][]oracle.Tier{plain, device} {
		for i := range list {
			for range 1 + w.IntN(3) {
				w.addLimit(&list[i])
			}
		}
	}
	w.rules[0] = &oracle.Rules{Tiers: plain}
	w.rules[1] = &oracle.Rules{Tiers: append(device, plain...)}
	w.pace()
	w.compile()
}

var limitNames = []string{"burst", "sustained", "daily", "weekly"}

func (w *walker) addLimit(t *oracle.Tier) {
	var free []string
	for _, n := range limitNames {
		used := false
		for _, l := range t.Limits {
			used = used || l.Name == n
		}
		if !used {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return
	}
	s := oracle.LimitSpec{Name: pick(w.draw, free)}
	w.number(t, &s)
	w.steps(&s)
	t.Limits = append(t.Limits, s)
}

// number draws the limit itself: within what k or posture may make of it.
func (w *walker) number(t *oracle.Tier, s *oracle.LimitSpec) {
	most := keys.MaxExact - 1
	if t.ByIP || t.ByNetwork {
		most /= 80
	}
	if t.ByPosture {
		most /= 130
		if w.one(3) {
			s.Limit = oracle.Limit{}
			return
		}
	}
	s.Limit = w.limit(most)
}

func (w *walker) pace() {
	base := pick(w.draw, []int64{0, 1, keys.Second, 3 * keys.Second})
	longest := base + pick(w.draw, []int64{0, 29 * keys.Second, keys.MaxExact / 8})
	effects := [4]oracle.Effect{}
	for i := 1; i < 4; i++ {
		effects[i] = oracle.Effect{Floor: w.IntN(4), Divisor: pick(w.draw, []int64{1, 2, 5, 64}), Uncounted: w.one(4)}
	}
	for i := range w.rules {
		w.rules[i].Base, w.rules[i].Max, w.rules[i].Effects = base, longest, effects
	}
}

// changeRules is a reload: one limit gets other numbers or rungs, or comes or
// goes. Now and then it is changed back.
func (w *walker) changeRules() {
	w.met("rules changed", true)
	if w.one(40) {
		w.newRules()
		w.made = nil
		return
	}
	all := &oracle.Rules{}
	*all = *w.rules[1]
	all.Tiers = append([]oracle.Tier(nil), all.Tiers...)
	t := &all.Tiers[w.IntN(len(all.Tiers))]
	t.Limits = append([]oracle.LimitSpec(nil), t.Limits...)
	l := &t.Limits[w.IntN(len(t.Limits))]
	switch w.IntN(6) {
	case 0:
		w.addLimit(t)
	case 1:
		if len(t.Limits) > 1 {
			t.Limits = t.Limits[1:]
		}
	case 2: // another capacity at the same refill
		if c := 1 + w.Int64N(2*l.Limit.Capacity+1); c < l.Limit.Capacity {
			l.Limit.Capacity = c
		}
	case 3: // the same time to full
		if l.Limit.Capacity%2 == 0 && l.Limit.Count%2 == 0 {
			l.Limit.Capacity, l.Limit.Count = l.Limit.Capacity/2, l.Limit.Count/2
		}
	default:
		w.number(t, l)
		w.steps(l)
	}
	plain := *all
	plain.Tiers = all.Tiers[2:]
	w.rules = [2]*oracle.Rules{&plain, all}
	if w.one(4) {
		w.pace()
	}
	w.compile()
}

func (w *walker) compile() {
	for i, r := range w.rules {
		var err error
		if w.compiled[i], err = compile(r); err != nil {
			w.t.Fatalf("rules that should load: %v\n%+v", err, r)
		}
	}
	w.note("rules %+v", w.rules[1].Tiers)
}
