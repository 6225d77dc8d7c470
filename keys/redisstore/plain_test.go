package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// The short way decides, says and stores to the byte what the long one does, over
// random histories of two buckets that are alike: costs from none to above the
// capacity, rules that change, clocks that step back, values of other forms, TTLs
// that are gone, deadlines that have passed.
func TestTheShortWayIsTheLongOne(t *testing.T) {
	s, ctx := open(t, redistest.Start(t)), t.Context()
	r := rand.New(rand.NewPCG(7, 7))
	seen := map[string]int{}
	for history := range 40 {
		short, long := fmt.Sprintf("gd:{plan/%d}:rule:short", history), fmt.Sprintf("gd:{plan/%d}:rule:long", history)
		at, left := now, int64(0) // the latter of the last reply
		var rules *keys.Rules
		for step := range 60 {
			if step%15 == 0 {
				rules = untilEmpty(t, exactLimit(r))
				left = rules.Tiers()[0].Limits[0].Units()
			}
			l := rules.Tiers()[0].Limits[0]
			switch r.IntN(8) {
			case 0:
				at = max(at-r.Int64N(5*keys.Second), 1)
			case 1:
				at = min(at+r.Int64N(l.TimeToFull()%(30*keys.Day)+1), keys.MaxExact/4)
			case 2: // until it is full, or just after
				at = min(at+(l.Units()-left+l.Count-1)/l.Count+r.Int64N(2), keys.MaxExact/4)
			default:
				at += r.Int64N(l.Period%keys.Day/l.Count + 2)
			}
			tamper(t, s, r, short, long)
			a := &keys.Ask{Now: at, Rules: rules, Keys: []string{short}, AttemptID: [16]byte{byte(step), 1, 2, 15: byte(history)}}
			switch r.IntN(6) {
			case 0:
				a.Cost = 0
			case 1:
				a.Cost = l.Capacity + r.Int64N(2)
			case 2:
				a.Cost = 1 + r.Int64N(l.Capacity)
			default:
				a.Cost = 1
			}
			if r.IntN(20) == 0 {
				a.Deadline = at - 1
			}
			c := packAsk(a, a.Deadline)
			baked := bakeTake(rules)
			got, err := s.eval(ctx, s.only(), baked, c.keys, c.head)
			if err != nil {
				t.Fatal(err)
			}
			format, wire := rules.Wire()
			want, err := s.eval(ctx, s.only(), takeScript, []string{long}, c.head, wire, format)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Fatalf("history %d, step %d: cost %d at %d of %+v: %q, want %q", history, step, a.Cost, at, l, got, want)
			}
			values, err := s.raw.MGet(ctx, short, long).Result()
			if err != nil || values[0] != values[1] {
				t.Fatalf("history %d, step %d: stored %q, want %q (%v)", history, step, values[0], values[1], err)
			}
			if a, b := s.raw.PTTL(ctx, short).Val(), s.raw.PTTL(ctx, long).Val(); (a - b).Abs() > 30*time.Second {
				t.Fatalf("history %d, step %d: TTL %s, want %s", history, step, a, b)
			}
			if len(want) > 8 && want[0] == 0 {
				left = int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(want[len(want)-8:]))))
			}
			seen[outcomeOf(want)]++
		}
	}
	for _, what := range []string{"late", "impossible", "let and taken", "let", "refused"} {
		if seen[what] < 20 {
			t.Errorf("%q was met %d times", what, seen[what])
		}
	}
}

// untilEmpty are rules of one limit of a plan.
func untilEmpty(t *testing.T, l keys.Limit) *keys.Rules {
	t.Helper()
	r, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierPlan, Limits: []keys.LimitSpec{
		{Name: "r", Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	if bakePlain(r) == "" {
		t.Fatal("there is no short way")
	}
	return r
}

// tamper does something to both buckets now and then.
func tamper(t *testing.T, s subject, r *rand.Rand, names ...string) {
	t.Helper()
	ctx, what, cut := t.Context(), r.IntN(60), r.IntN(30)
	for _, name := range names {
		value, _ := s.raw.Get(ctx, name).Bytes() // none is none
		var err error
		switch {
		case what == 0:
			err = s.SetWrongType(name)
		case what == 1:
			err = s.Persist(name)
		case what == 2:
			err = s.raw.Set(ctx, name, value[:min(cut, len(value))], time.Hour).Err()
		case what == 3 && len(value) > 0:
			value[0] ^= 1 // distrust
			err = s.raw.Set(ctx, name, value, time.Hour).Err()
		case what == 4 && len(value) > 12:
			value[9] ^= 1 // of another limit
			err = s.raw.Set(ctx, name, value, time.Hour).Err()
		case what == 5 && len(value) == 26:
			copy(value[12:19], value[19:26]) // more is spent than there is
			value[12] |= 1
			value[13]++
			err = s.raw.Set(ctx, name, value, time.Hour).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// outcomeOf says what a reply of take.lua is.
func outcomeOf(r string) string {
	switch {
	case r[0] == 1:
		return "late"
	case r[0] == 3:
		return "impossible"
	case r[57] == 1 && r[58] == 1:
		return "let and taken"
	case r[57] == 1:
		return "let"
	}
	return "refused"
}

// Rules that have more than one bucket, a floor, other rungs or other roles have
// no short way, and nor has a call on which anything else bears.
func TestOnlyWhatIsPlainGoesTheShortWay(t *testing.T) {
	plain := untilEmpty(t, limit(t, 10, 1, time.Hour)).Tiers()[0]
	tier := func(change func(*keys.TierSpec)) []keys.TierSpec {
		c := plain
		c.Limits = append([]keys.LimitSpec(nil), plain.Limits...)
		change(&c)
		return []keys.TierSpec{c}
	}
	for name, tiers := range map[string][]keys.TierSpec{
		"two limits":  tier(func(c *keys.TierSpec) { c.Limits = append(c.Limits, c.Limits[0]); c.Limits[1].Name = "other" }),
		"two tiers":   append(tier(func(c *keys.TierSpec) { c.Tier = keys.TierAccount }), plain),
		"a device":    tier(func(c *keys.TierSpec) { c.Role = keys.DeviceOwn }),
		"a posture's": tier(func(c *keys.TierSpec) { c.Role = keys.ScalePosture }),
		"captcha":     tier(func(c *keys.TierSpec) { c.Limits[0].Captcha = 5000 }),
		"no verify":   tier(func(c *keys.TierSpec) { c.Limits[0].Verify = keys.Never }),
	} {
		r, err := keys.NewRules(tiers, [4]keys.Effect{}, keys.Pace{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if bakePlain(r) != "" {
			t.Errorf("%s: it has a short way", name)
		}
	}
	r, err := keys.NewRules([]keys.TierSpec{plain}, [4]keys.Effect{{Floor: keys.Delay}}, keys.Pace{Base: keys.Second, Max: keys.Second})
	if err != nil || bakePlain(r) != "" {
		t.Errorf("a floor: it has a short way (%v)", err)
	}

	short := func(a keys.Ask) bool {
		head := packAsk(&a, 5).head
		return string(head[plainFrom:plainFrom+len(plainAsk)]) == plainAsk
	}
	for name, c := range map[string]struct {
		change func(*keys.Ask)
		want   bool
	}{
		"plain":     {func(*keys.Ask) {}, true},
		"any cost":  {func(a *keys.Ask) { a.Cost, a.Now = 7, 9 }, true},
		"a floor":   {func(a *keys.Ask) { a.Floor = keys.Delay }, false},
		"shadow":    {func(a *keys.Ask) { a.Shadow = true }, false},
		"a state":   {func(a *keys.Ask) { a.StateKey = "x" }, false},
		"a suspect": {func(a *keys.Ask) { a.SuspectKeys[1] = "x" }, false},
		"a size":    {func(a *keys.Ask) { a.KKeys[0] = "x" }, false},
		"revoked":   {func(a *keys.Ask) { a.RevokedKey = "x" }, false},
		"a place":   {func(a *keys.Ask) { a.PlaceKey = "x" }, false},
		"a proof":   {func(a *keys.Ask) { a.Proof.Key = "x" }, false},
		"a request": {func(a *keys.Ask) { a.Request.Key = "x" }, false},
		"a life":    {func(a *keys.Ask) { a.Request.Life = 1 }, false},
		"costs":     {func(a *keys.Ask) { a.Costs = []int64{1} }, false},
		"a device":  {func(a *keys.Ask) { a.Device.Issued = 1 }, false},
	} {
		a := keys.Ask{Keys: []string{"k"}, Cost: 1}
		c.change(&a)
		if short(a) != c.want {
			t.Errorf("%s: the short way %v", name, !c.want)
		}
	}
}
