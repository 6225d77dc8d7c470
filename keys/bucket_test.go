package keys

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMulDivIsExact(t *testing.T) {
	for _, x := range []struct{ a, b, c, down, up int64 }{
		{0, MaxExact, 1, 0, 0},
		{1, MaxExact, MaxExact, 1, 1},
		{MaxExact, MaxExact, MaxExact, MaxExact, MaxExact},
		{MaxExact - 1, MaxExact - 1, MaxExact, MaxExact - 2, MaxExact - 1},
		{MaxExact - 1, MaxExact, MaxExact, MaxExact - 1, MaxExact - 1},
		{1, 1, MaxExact, 0, 1},
		{2, 3, 4, 1, 2},
		{6004799503160661, 4503599627370497, 9007199254740881, 3002399751580368, 3002399751580369},
	} {
		if d, u := mulDiv(x.a, x.b, x.c, false), mulDiv(x.a, x.b, x.c, true); d != x.down || u != x.up {
			t.Errorf("%d x %d / %d is %d or %d, not %d or %d", x.a, x.b, x.c, d, u, x.down, x.up)
		}
	}
}

func TestMulDivIsExactForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.Int64Range(1, MaxExact).Draw(t, "c")
		a, b := rapid.Int64Range(0, c).Draw(t, "a"), rapid.Int64Range(0, MaxExact).Draw(t, "b")
		q, r := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c), new(big.Int))
		if got := mulDiv(a, b, c, false); got != q.Int64() {
			t.Fatalf("down: %d, not %d", got, q)
		}
		if r.Sign() > 0 {
			q.Add(q, big.NewInt(1))
		}
		if got := mulDiv(a, b, c, true); got != q.Int64() {
			t.Fatalf("up: %d, not %d", got, q)
		}
	})
}

func TestThresholdsAreExactShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Int64Range(1, 1<<rapid.IntRange(0, 52).Draw(t, "bits")).Draw(t, "period")
		l := Limit{rapid.Int64Range(1, MaxExact/p).Draw(t, "capacity"), 1, p}
		th := Threshold(rapid.IntRange(0, thresholdScale).Draw(t, "share"))
		want := new(big.Int).Mul(big.NewInt(l.Units()), big.NewInt(int64(th)))
		want.Div(want, big.NewInt(thresholdScale))
		if got := th.Units(l, p); got != want.Int64() {
			t.Fatalf("%d, not %d", got, want)
		}
	})
}

func TestLimitsThatLoad(t *testing.T) {
	for _, x := range []struct {
		capacity, count int64
		per             time.Duration
		want            Limit
		err             error
	}{
		{10, 10, 10 * time.Minute, Limit{10, 1, 60_000_000}, nil},
		{20, 20, time.Hour, Limit{20, 1, 180_000_000}, nil},
		{1, 7, 10 * time.Microsecond, Limit{1, 7, 10}, nil},
		{MaxExact - 1, 1, time.Microsecond, Limit{MaxExact - 1, 1, 1}, nil},
		{1, MaxExact - 1, time.Microsecond, Limit{1, MaxExact - 1, 1}, nil},
		{MaxExact, 1, time.Microsecond, Limit{}, ErrInexact},
		{1, MaxExact, time.Microsecond, Limit{}, ErrInexact},
		{200_000, 1, 24 * time.Hour, Limit{}, ErrInexact},
		{1 << 40, 1, time.Hour, Limit{}, ErrInexact},
		{0, 1, time.Second, Limit{}, ErrCapacity},
		{-1, 1, time.Second, Limit{}, ErrCapacity},
		{1, 0, time.Second, Limit{}, ErrRefill},
		{1, -1, time.Second, Limit{}, ErrRefill},
		{1, 1, 0, Limit{}, ErrRefill},
		{1, 1, -time.Second, Limit{}, ErrRefill},
		{1, 1, 1500 * time.Nanosecond, Limit{}, ErrRefill},
	} {
		if got, err := NewLimit(x.capacity, x.count, x.per); got != x.want || err != x.err {
			t.Errorf("%d, %d per %s is %v (%v)", x.capacity, x.count, x.per, got, err)
		}
	}
}

func TestSharesAndTightenedLimits(t *testing.T) {
	l := Limit{20, 1, 180}
	for _, x := range []struct{ got, want Limit }{
		{l.Share(1), l},
		{l.Share(4), Limit{5, 1, 720}},
		{l.Share(3), Limit{6, 1, 540}},              // rounded down
		{l.Share(100), Limit{3, 1, 18000}},          // never below three
		{Limit{2, 1, 10}.Share(4), Limit{2, 1, 40}}, // nor above the limit itself
		{Limit{3, 1, 1 << 51}.Share(9), Limit{3, 1, 1 << 51}},
		{l.Tighten(2), Limit{10, 1, 360}},
		{Limit{5, 1, 10}.Tighten(2), Limit{3, 1, 20}}, // rounded up
		{l.Times(3), Limit{60, 3, 180}},
	} {
		if x.got != x.want {
			t.Errorf("%v, not %v", x.got, x.want)
		}
	}
}

func TestSharesStayExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Int64Range(1, 1<<rapid.IntRange(0, 51).Draw(t, "bits")).Draw(t, "period")
		l := Limit{rapid.Int64Range(1, (MaxExact-1)/p).Draw(t, "capacity"), 1, p}
		if s := l.Share(rapid.Int64Range(1, 100_000).Draw(t, "instances")); !s.Exact() || s.Capacity > l.Capacity || s.Capacity < min(3, l.Capacity) {
			t.Fatalf("%v has the share %v", l, s)
		}
	})
}

func TestTheWaitDoublesAndEnds(t *testing.T) {
	for _, x := range []struct {
		p    Pace
		n    int64
		want int64
	}{
		{Pace{1, 30}, 0, 1}, {Pace{1, 30}, 1, 2}, {Pace{1, 30}, 4, 16}, {Pace{1, 30}, 5, 30}, {Pace{1, 30}, MaxExact, 30},
		{Pace{0, 30}, MaxExact, 0}, {Pace{30, 30}, 9, 30}, {Pace{MaxExact / 4, MaxExact / 4}, 9, MaxExact / 4},
	} {
		if got := x.p.Wait(x.n); got != x.want {
			t.Errorf("%v at %d waits %d", x.p, x.n, got)
		}
	}
}

func TestRulesThatDoNotLoad(t *testing.T) {
	ok := LimitSpec{Name: "burst", Limit: Limit{10, 1, 1000}, Steps: NoSteps}
	tier := func(role Role, limits ...LimitSpec) []TierSpec { return []TierSpec{{TierIP, role, limits}} }
	with := func(bend func(*LimitSpec)) LimitSpec { l := ok; bend(&l); return l }
	big := with(func(l *LimitSpec) { l.Limit = Limit{MaxExact / 2, 1, 1} })
	for name, x := range map[string]struct {
		tiers   []TierSpec
		effects [4]Effect
		pace    Pace
		want    string
	}{
		"no tiers":             {nil, [4]Effect{}, Pace{}, "tiers"},
		"no limits":            {tier(0), [4]Effect{}, Pace{}, "ip: between 1"},
		"a zero limit":         {tier(0, LimitSpec{Name: "burst"}), [4]Effect{}, Pace{}, "ip.burst"},
		"twice":                {tier(0, ok, ok), [4]Effect{}, Pace{}, "ip.burst: two limits"},
		"twice in two tiers":   {append(tier(0, ok), tier(0, ok)...), [4]Effect{}, Pace{}, "ip.burst: two limits"},
		"above 100 %":          {tier(0, with(func(l *LimitSpec) { l.Delay = 10001 })), [4]Effect{}, Pace{}, "ip.burst: a threshold"},
		"too large for k":      {tier(ScaleIP, big), [4]Effect{}, Pace{}, "ip.burst: " + ErrInexact.Error()},
		"too large, tightened": {tier(ScalePosture, with(func(l *LimitSpec) { l.Limit = Limit{1, 1, MaxExact / 2} })), [4]Effect{{}, {Divisor: 5}}, Pace{}, "ip.burst"},
		"roles that multiply":  {tier(ScaleIP|ScaleNetwork, ok), [4]Effect{}, Pace{}, "ip: its roles"},
		"posture and k":        {tier(ScaleIP|ScalePosture, ok), [4]Effect{}, Pace{}, "ip: its roles"},
		"a familiar device":    {tier(DeviceOwn|SkipFamiliar, ok), [4]Effect{}, Pace{}, "ip: its roles"},
		"a negative divisor":   {tier(0, ok), [4]Effect{{}, {}, {Divisor: -1}}, Pace{}, "posture high"},
		"a huge divisor":       {tier(0, ok), [4]Effect{{}, {}, {Divisor: 65}}, Pace{}, "posture high"},
		"no such floor":        {tier(0, ok), [4]Effect{{}, {}, {}, {Floor: 4}}, Pace{}, "posture critical"},
		"base above max":       {tier(0, ok), [4]Effect{}, Pace{2, 1}, "delay"},
		"an endless wait":      {tier(0, ok), [4]Effect{}, Pace{1, MaxExact}, "delay"},
	} {
		if _, err := NewRules(x.tiers, x.effects, x.pace); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tiers := range map[string][]TierSpec{
		"large": tier(0, big), "a familiar address": tier(SkipFamiliar|ScaleIP, ok),
		"an unlearned baseline": tier(ScalePosture, LimitSpec{Name: "burst", Steps: NoSteps}),
	} {
		if _, err := NewRules(tiers, [4]Effect{}, Pace{1, 2}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := NewRules(tier(ScaleIP, big, with(func(l *LimitSpec) { l.Name, l.Delay = "sustained", 20000 })), [4]Effect{}, Pace{2, 1})
	for _, want := range []string{"delay", "ip.burst", "ip.sustained"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("all faults at once: %v lacks %s", err, want)
		}
	}
	if !errors.Is(err, ErrInexact) {
		t.Errorf("%v does not say why", err)
	}
}

func TestRecordsThatDoNotDecodeSayNothing(t *testing.T) {
	ok := State{High, 5, Critical, 9, Limit{7, 1, 1000}, 11}
	if got := DecodeState(ok.Encode()); got != ok {
		t.Errorf("%+v came back as %+v", ok, got)
	}
	if got := DecodeState(State{Baseline: Limit{1, MaxExact - 1, 1}}.Encode()); !got.Baseline.Zero() {
		t.Errorf("a baseline that a posture would take out of range: %v", got.Baseline)
	}
	half := append([]byte(nil), ok.Encode()...)
	copy(half[8:], []byte{0, 0, 0, 0, 0, 0, 0xe0, 0x3f}) // 0.5
	nan := append([]byte(nil), ok.Encode()...)
	copy(nan[8:], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
	for name, b := range map[string][]byte{"empty": {}, "short": ok.Encode()[1:], "long": append(ok.Encode(), 0), "a fraction": half, "not a number": nan,
		"no such posture": State{Posture: 4}.Encode()} {
		if got := DecodeState(b); got != (State{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if decodeK(EncodeK(50, 2), 1) != MaxK || decodeK(EncodeK(5, 2), 2) != 1 || decodeK([]byte("x"), 1) != 1 || decodeK(EncodeK(-3, 2), 1) != 1 {
		t.Error("k is out of bounds")
	}
}
