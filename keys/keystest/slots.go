package keystest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

// slotKeys are names of sets of one slot of a Cluster.
func slotKeys(names keys.Space, n int) (sets []string) {
	for i := range n {
		sets = append(sets, names.Tally("slots", fmt.Sprint(i)))
	}
	return sets
}

func slotAsk(sets []string, id byte, capacity int64) keys.SlotAsk {
	a := keys.SlotAsk{Keys: sets, TTL: 60 * keys.Second, ID: [16]byte{id, 1}}
	for range sets {
		a.Caps, a.Lives = append(a.Caps, capacity), append(a.Lives, 60*keys.Second)
	}
	return a
}

func slotsOf(t *testing.T, s Subject) keys.Slots {
	t.Helper()
	slots, ok := s.(keys.Slots)
	if !ok {
		t.Skip("keeps no slots")
	}
	return slots
}

func acquire(t *testing.T, s keys.Slots, a keys.SlotAsk) keys.SlotAnswer {
	t.Helper()
	var ans keys.SlotAnswer
	if err := s.Acquire(t.Context(), &a, &ans); err != nil {
		t.Fatal(err)
	}
	return ans
}

// 200 at once get as many places as there are; one that is released is free, once.
func parallelSlots(t *testing.T, subject Subject, names keys.Space) {
	s, sets := slotsOf(t, subject), slotKeys(names, 2)
	let := together(t, 200, func(i int) (bool, error) {
		a, ans := slotAsk(sets, byte(i), 10), keys.SlotAnswer{}
		err := s.Acquire(t.Context(), &a, &ans)
		return ans.Allowed, err
	})
	if let != 10 {
		t.Fatalf("%d of 200 have one of 10 places", let)
	}
	full := acquire(t, s, slotAsk(sets, 201, 10))
	if full.Allowed || !reflect.DeepEqual(full.InUse, []int64{10, 10}) {
		t.Errorf("%+v", full)
	}
	// Everybody releases, each twice at once: those who had a place free it once.
	freed := together(t, 400, func(i int) (bool, error) {
		ok, _, err := s.Release(t.Context(), &keys.SlotReturn{Keys: sets, ID: [16]byte{byte(i / 2), 1}})
		return ok, err
	})
	if freed != 10 {
		t.Errorf("%d places were freed", freed)
	}
	if a := acquire(t, s, slotAsk(sets, 202, 10)); !a.Allowed || a.Renewed || a.InUse[0] != 1 || a.Expires-a.Now != 60*keys.Second {
		t.Errorf("%+v", a)
	}
}

// A set that is not there, or is of another type, has all its places and no more.
func emptySlots(t *testing.T, subject Subject, names keys.Space) {
	s, sets := slotsOf(t, subject), slotKeys(names, 1)
	count := func(what string) {
		t.Helper()
		let := 0
		for i := range 5 {
			if acquire(t, s, slotAsk(sets, byte(i), 3)).Allowed {
				let++
			}
		}
		if let != 3 {
			t.Errorf("%s: %d have one of 3 places", what, let)
		}
	}
	count("nothing there")
	for i := range 5 {
		if _, _, err := s.Release(t.Context(), &keys.SlotReturn{Keys: sets, ID: [16]byte{byte(i), 1}}); err != nil {
			t.Fatal(err)
		}
	}
	count("all released")
	if w, ok := subject.(WrongTyper); ok {
		if err := w.SetWrongType(sets[0]); err != nil {
			t.Fatal(err)
		}
		if ok, _, err := s.Release(t.Context(), &keys.SlotReturn{Keys: sets, ID: [16]byte{1, 1}}); ok || err != nil {
			t.Errorf("of another type: released %t, %v", ok, err)
		}
		count("of another type")
	}
	if p, ok := subject.(Persister); ok {
		if err := p.Persist(sets[0]); err != nil {
			t.Fatal(err)
		}
		if a := acquire(t, s, slotAsk(sets, 9, 3)); a.Allowed || a.InUse[0] != 3 {
			t.Errorf("without a TTL: %+v", a)
		}
		acquire(t, s, slotAsk(sets, 0, 3)) // renews, and heals it
	}
}

func badSlots(t *testing.T, subject Subject, names keys.Space) {
	s, sets := slotsOf(t, subject), slotKeys(names, 2)
	for what, spoil := range map[string]func(*keys.SlotAsk){
		"no sets":        func(a *keys.SlotAsk) { a.Keys, a.Caps, a.Lives = nil, nil, nil },
		"an empty key":   func(a *keys.SlotAsk) { a.Keys = []string{"", sets[1]} },
		"a set twice":    func(a *keys.SlotAsk) { a.Keys = []string{sets[0], sets[0]} },
		"no cap":         func(a *keys.SlotAsk) { a.Caps = a.Caps[:1] },
		"a cap of 0":     func(a *keys.SlotAsk) { a.Caps = []int64{1, 0} },
		"too large":      func(a *keys.SlotAsk) { a.Caps = []int64{1, keys.MaxSlotCap + 1} },
		"no life":        func(a *keys.SlotAsk) { a.Lives = []int64{1, 0} },
		"too long":       func(a *keys.SlotAsk) { a.Lives = []int64{1, keys.MaxSlotLife + 1} },
		"no ttl":         func(a *keys.SlotAsk) { a.TTL = 0 },
		"nobody":         func(a *keys.SlotAsk) { a.ID = [16]byte{} },
		"before time":    func(a *keys.SlotAsk) { a.Now = -1 },
		"after all time": func(a *keys.SlotAsk) { a.Now = keys.MaxExact },
	} {
		a, ans := slotAsk(sets, 1, 3), keys.SlotAnswer{}
		spoil(&a)
		if err := s.Acquire(t.Context(), &a, &ans); !errors.Is(err, keys.ErrAsk) || ans.Allowed {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := s.Release(t.Context(), &keys.SlotReturn{Keys: sets}); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("released nobody: %v", err)
	}
}

// SlotNamed is a keys.Slots and its name in failure messages.
type SlotNamed struct {
	Name    string
	Subject keys.Slots
}

// SlotWalk is the random walk of slots: acquired by many, of one or several sets,
// renewed, released in time, late and twice, left to expire, under caps and lives
// that change, by clocks that step back. Every subject must say what the oracle
// says after every step, and at no time does a newcomer find more occupied than
// the largest cap in force while those were given.
func SlotWalk(t *testing.T, seeds, steps int, subjects ...SlotNamed) {
	seen := map[string]int{}
	for seed := range seeds * soak(t) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := &slotWalker{t: t, d: draw{rand.New(rand.NewPCG(uint64(seed), 99))}, subjects: subjects, seen: seen, now: 1_800_000_000 * keys.Second}
			w.run(steps)
		})
	}
	for _, what := range []string{"let", "refused", "renewed", "released", "released nothing", "expired", "clock back", "caps changed", "over the cap"} {
		if seen[what] < 20 && seeds*steps >= 10_000 && !t.Failed() {
			t.Errorf("the walk met %q %d times: it no longer goes there", what, seen[what])
		}
	}
}

type slotWalker struct {
	t        *testing.T
	d        draw
	subjects []SlotNamed
	truth    *oracle.Slots
	seen     map[string]int
	now      int64
	sets     []string
	caps     []int64
	lives    []int64
	most     []int64 // the largest caps in force so far
}

func (w *slotWalker) run(steps int) {
	for n := range steps {
		if n%300 == 0 {
			w.truth, w.sets, w.most = oracle.NewSlots(), nil, nil
			space := keys.PlanSpace(keys.Account{byte(w.d.Uint32()), byte(n)})
			for i := range 1 + w.d.IntN(3) {
				w.sets, w.most = append(w.sets, space.Slots(fmt.Sprint(unique(), i))), append(w.most, 0)
			}
		}
		if n%300 == 0 || w.d.one(30) {
			w.seen["caps changed"]++
			w.caps, w.lives = nil, nil
			for i := range w.sets {
				w.caps, w.lives = append(w.caps, 1+w.d.Int64N(6)), append(w.lives, keys.Second*(1+w.d.Int64N(60)))
				w.most[i] = max(w.most[i], w.caps[i])
			}
		}
		switch w.d.IntN(8) {
		case 0:
			w.now -= w.d.Int64N(100 * keys.Second)
			w.seen["clock back"]++
		case 1:
			w.now += w.d.Int64N(30 * keys.Second)
		default:
			w.now += w.d.Int64N(keys.Second)
		}
		id := [16]byte{byte(w.d.IntN(12)), 7}
		if w.d.one(3) {
			w.release(id)
		} else {
			w.acquire(id)
		}
		if w.t.Failed() {
			w.t.Fatalf("step %d, caps %v, lives %v", n, w.caps, w.lives)
		}
	}
}

// some is one of the sets, or all of them.
func (w *slotWalker) some() (sets []string, caps, lives []int64) {
	if i := w.d.IntN(len(w.sets) + 1); i < len(w.sets) {
		return w.sets[i : i+1], w.caps[i : i+1], w.lives[i : i+1]
	}
	return w.sets, w.caps, w.lives
}

func (w *slotWalker) acquire(id [16]byte) {
	sets, caps, lives := w.some()
	a := keys.SlotAsk{Now: w.now, Keys: sets, Caps: caps, Lives: lives, ID: id, TTL: 1 + w.d.Int64N(80*keys.Second)}
	want := w.truth.Acquire(oracle.SlotAsk{Now: a.Now, Sets: sets, Caps: caps, Lives: lives, ID: string(id[:]), TTL: a.TTL})
	for _, s := range w.subjects {
		var ans keys.SlotAnswer
		if err := s.Subject.Acquire(w.t.Context(), &a, &ans); err != nil {
			w.t.Errorf("%s: acquire: %v", s.Name, err)
			return
		}
		got := oracle.SlotAnswer{Allowed: ans.Allowed, Renewed: ans.Renewed, InUse: ans.InUse, Expires: ans.Expires, Freed: want.Freed}
		if !reflect.DeepEqual(got, want) {
			w.t.Errorf("%s: acquire %+v\n got  %+v\n want %+v", s.Name, a, got, want)
		}
	}
	for i, set := range sets {
		for j := range w.sets {
			if w.sets[j] == set && want.InUse[i] > w.most[j] {
				w.t.Errorf("%d in use of at most %d", want.InUse[i], w.most[j])
			}
		}
		if want.InUse[i] > caps[i] {
			w.seen["over the cap"]++
		}
	}
	switch {
	case want.Renewed:
		w.seen["renewed"]++
	case want.Allowed:
		w.seen["let"]++
	default:
		w.seen["refused"]++
	}
	w.seen["expired"] += want.Freed
}

func (w *slotWalker) release(id [16]byte) {
	sets, _, _ := w.some()
	want := w.truth.Release(w.now, sets, string(id[:]))
	for _, s := range w.subjects {
		got, _, err := s.Subject.Release(w.t.Context(), &keys.SlotReturn{Now: w.now, Keys: sets, ID: id})
		if err != nil || got != want {
			w.t.Errorf("%s: released %t (%v), not %t", s.Name, got, err, want)
		}
	}
	w.seen[map[bool]string{true: "released", false: "released nothing"}[want]]++
}
