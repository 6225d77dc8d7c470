package keys

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// This file holds the promises about counting as properties: over random
// interleavings, with the figures of the promise asserted exactly.

// scene is a twin with an owned clock and one limit that asks for a code once
// it is empty.
type scene struct {
	*Memory
	now   int64
	rules *Rules
	limit Limit
}

func drawScene(t *rapid.T) *scene {
	l, err := NewLimit(rapid.Int64Range(1, 12).Draw(t, "capacity"), rapid.Int64Range(1, 5).Draw(t, "count"),
		time.Duration(rapid.Int64Range(1, 300).Draw(t, "period"))*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{now: 1_800_000_000 * Second, limit: l}
	s.Memory = NewMemory(MemoryConfig{Now: func() int64 { return s.now }})
	s.rules, err = NewRules([]TierSpec{
		{TierAccount, 0, []LimitSpec{{Name: "burst", Limit: l, Steps: Steps{Never, Never, Empty}}}},
		{TierIP, 0, []LimitSpec{{Name: "burst", Limit: l.Times(2), Steps: NoSteps}}},
	}, [4]Effect{}, Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// on is a second scene under the same limit.
func (s *scene) on() *scene {
	c := &scene{now: s.now, rules: s.rules, limit: s.limit}
	c.Memory = NewMemory(MemoryConfig{Now: func() int64 { return c.now }})
	return c
}

func (s *scene) ask(cost int64) Answer {
	var ans Answer
	if err := s.Take(context.Background(), &Ask{Rules: s.rules, Keys: []string{"account", "ip"}, Cost: cost}, &ans); err != nil {
		panic(err)
	}
	return ans
}

func (s *scene) outcome(id int, ans *Answer, o Outcome) Receipt {
	r := Return{Rules: s.rules, Keys: []string{"account", "ip"}, Outcome: o, Stamp: ans.Now, Expires: ans.Now + AttemptLifetime, OutcomeKey: fmt.Sprint(id)}
	for _, l := range ans.Limits {
		if l.Took {
			r.Took = append(r.Took, Took{s.rules.tiers[l.Tier].Tier, s.rules.tiers[l.Tier].Limits[l.Index].id, l.Limit})
		}
	}
	var rcp Receipt
	if err := s.Give(context.Background(), &r, &rcp); err != nil {
		panic(err)
	}
	return rcp
}

func (s *scene) left() int64 { return s.ask(0).Limits[0].Left }

// wait draws how long nothing happens, in the limit's own measure.
func (s *scene) wait(t *rapid.T) int64 {
	token := max(s.limit.Period/s.limit.Count, 1)
	return rapid.SampledFrom([]int64{0, 0, 1, token / 3, token - 1, token, token + 1, 3 * token, s.limit.TimeToFull()}).Draw(t, "wait")
}

// Promise: no leak. In every interval, what was let through less what was given
// back is at most capacity + refill x time.
func TestNoLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		type event struct{ at, units int64 }
		var events []event
		var open []Answer
		ids := 0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			s.now += s.wait(t)
			if len(open) > 0 && rapid.IntRange(0, 2).Draw(t, "do") == 0 {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				ans := open[i]
				open = append(open[:i], open[i+1:]...)
				ids++
				for range rapid.IntRange(1, 2).Draw(t, "times") { // a repeat changes nothing
					s.outcome(ids, &ans, Success)
				}
				if s.now < ans.Now+AttemptLifetime {
					events = append(events, event{s.now, -max(s.limit.Period-(s.now-ans.Now)*s.limit.Count, 0)})
				}
				continue
			}
			if ans := s.ask(1); ans.Let {
				events = append(events, event{s.now, s.limit.Period})
				open = append(open, ans)
			}
		}
		for from := range events {
			sum := int64(0)
			for _, e := range events[from:] {
				sum += e.units
				if most := s.limit.Units() + (e.at-events[from].at)*s.limit.Count; sum > most {
					t.Fatalf("%d units from %d to %d, of at most %d", sum, events[from].at, e.at, most)
				}
			}
		}
	})
}

// The same while k and posture scale the limit: each guess counts as its
// fraction of the capacity in force, and the fractions of an interval come to at
// most one bucket and its refill. (Times and Tighten keep the time to full. A
// reload that changes it refills by the new one from the last write on.)
func TestNoLeakWhileKAndPostureChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := Limit{Capacity: 4 * rapid.Int64Range(1, 3).Draw(t, "quarter"), Count: rapid.Int64Range(1, 3).Draw(t, "count"), Period: 1000}
		s := &scene{now: 1_800_000_000 * Second, limit: base}
		s.Memory = NewMemory(MemoryConfig{Now: func() int64 { return s.now }})
		type event struct {
			at       int64
			fraction *big.Rat
		}
		var events []event
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l := base.Tighten(rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "posture")).Times(rapid.Int64Range(1, 3).Draw(t, "k"))
			r, err := NewRules([]TierSpec{{TierAccount, 0, []LimitSpec{{Name: "burst", Limit: l, Steps: Steps{Never, Never, Empty}}}}}, [4]Effect{}, Pace{})
			if err != nil {
				t.Fatal(err)
			}
			s.now += s.wait(t)
			var ans Answer
			if err := s.Take(context.Background(), &Ask{Rules: r, Keys: []string{"account"}, Cost: 1}, &ans); err != nil {
				t.Fatal(err)
			}
			if ans.Let {
				events = append(events, event{s.now, big.NewRat(1, l.Capacity)})
			}
		}
		for from := range events {
			sum := new(big.Rat)
			for _, e := range events[from:] {
				sum.Add(sum, e.fraction)
				most := big.NewRat((e.at-events[from].at)*base.Count, base.Units())
				if most.Add(most, big.NewRat(1, 1)); sum.Cmp(most) > 0 {
					t.Fatalf("%v buckets from %d to %d, of at most %v", sum, events[from].at, e.at, most)
				}
			}
		}
	})
}

// Changing a capacity back and forth never gains: the spent fraction never
// falls.
func TestCapacityBackAndForthNeverGains(t *testing.T) {
	limit := rapid.Custom(func(t *rapid.T) Limit {
		for {
			bits := rapid.IntRange(0, 52).Draw(t, "bits")
			p := rapid.Int64Range(1, 1<<bits).Draw(t, "period")
			l := Limit{Capacity: rapid.Int64Range(1, MaxExact/p).Draw(t, "capacity"), Count: 1, Period: p}
			if l.Exact() {
				return l
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Draw(t, "limit")
		spent := rapid.Int64Range(0, l.Units()).Draw(t, "spent")
		fraction := func() *big.Rat { return big.NewRat(spent, l.Units()) }
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			before := fraction()
			next := limit.Draw(t, "next")
			spent = next.Spent(spent, l.Units(), 0)
			l = next
			if spent < 0 || spent > l.Units() || fraction().Cmp(before) < 0 {
				t.Fatalf("%v became %v of %d", before, fraction(), l.Units())
			}
			if above := new(big.Rat).Sub(fraction(), before); above.Cmp(big.NewRat(1, l.Units())) >= 0 {
				t.Fatalf("%v became %v: more than rounding", before, fraction())
			}
		}
	})
}

// Promise: a refusal costs nothing, in any tier: a world in which the refused
// attempts never came is the same.
func TestARefusalCostsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawScene(t)
		b := a.on()
		refused := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w := a.wait(t)
			a.now, b.now = a.now+w, b.now+w
			x := a.ask(1)
			if !x.Let {
				refused++
				continue
			}
			if y := b.ask(1); fmt.Sprint(x.Limits) != fmt.Sprint(y.Limits) {
				t.Fatalf("after %d refusals %v is left, without them %v", refused, x.Limits, y.Limits)
			}
		}
	})
}

// Promise: a success forgives itself only. With it, never more is left than if
// its attempt had never been made; and nothing of what others spent comes back.
func TestASuccessForgivesItselfOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		with := drawScene(t)
		without := with.on()
		var mine []Answer
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			w := with.wait(t)
			with.now, without.now = with.now+w, without.now+w
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0: // an attempt that will succeed
				if ans := with.ask(1); ans.Let {
					mine = append(mine, ans)
				}
			case 1: // it does
				if len(mine) > 0 {
					with.outcome(i, &mine[0], Success)
					mine = mine[1:]
				}
			default: // somebody else's guess
				if with.ask(1).Let && !without.ask(1).Let {
					t.Fatal("others were let through who would not have been")
				}
			}
			if x, y := with.left(), without.left(); x > y {
				t.Fatalf("%d left with the successes, %d without their attempts", x, y)
			}
		}
	})
}

// Hoarding successes gains nothing: whenever they are reported, no more is left
// than if their attempts had never been made, and once refill may have repaid a
// token, its success gives nothing back.
func TestHoardingSuccessesGainsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hoard := drawScene(t)
		without := hoard.on()
		var kept []Answer
		for range rapid.IntRange(1, 12).Draw(t, "hoarded") {
			if ans := hoard.ask(1); ans.Let {
				kept = append(kept, ans)
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			w := hoard.wait(t)
			hoard.now, without.now = hoard.now+w, without.now+w
			if hoard.ask(1).Let {
				without.ask(1)
			}
		}
		for i := range kept {
			rcp := hoard.outcome(i, &kept[i], Success)
			if since := hoard.now - kept[i].Now; rcp.Gave > 0 && since*hoard.limit.Count >= hoard.limit.Period {
				t.Fatalf("a token repaid after %d us was given back after %d", ceilDiv(hoard.limit.Period, hoard.limit.Count), since)
			}
		}
		if x, y := hoard.left(), without.left(); x > y {
			t.Fatalf("%d left with the hoard, %d without", x, y)
		}
	})
}
