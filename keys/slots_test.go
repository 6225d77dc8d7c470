package keys

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// slotWorld is a shared store that can be gone, and instances with a Fallback each.
type slotWorld struct {
	t      *testing.T
	now    int64
	shared *Memory
	gone   bool
	ids    byte
	fleet  []*Fallback
}

var errGone = errors.New("gone")

func newSlotWorld(t *testing.T, instances int) *slotWorld {
	w := &slotWorld{t: t, now: 1_800_000_000 * Second}
	clock := func() int64 { return w.now }
	w.shared = NewMemory(MemoryConfig{Now: clock})
	for range instances {
		w.fleet = append(w.fleet, NewFallback(FallbackConfig{Primary: &slotPrimary{w.shared, w}, Local: NewMemory(MemoryConfig{Now: clock}), Instances: instances}))
	}
	return w
}

func (w *slotWorld) id() [16]byte {
	w.ids++
	return [16]byte{w.ids, 1}
}

// many asks instance i for n places and returns who got one.
func (w *slotWorld) many(i, n int, set string, capacity int64, closed bool) (ids [][16]byte) {
	w.t.Helper()
	for range n {
		a := SlotAsk{Keys: []string{set}, Caps: []int64{capacity}, Lives: []int64{60 * Second}, TTL: 60 * Second, ID: w.id(), GoneClosed: closed}
		var ans SlotAnswer
		if err := w.fleet[i].Acquire(w.t.Context(), &a, &ans); err != nil {
			w.t.Fatal(err)
		}
		if ans.Degraded != w.gone {
			w.t.Errorf("degraded %t while gone is %t", ans.Degraded, w.gone)
		}
		if ans.Allowed {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

func (w *slotWorld) renew(i int, set string, capacity int64, closed bool, ids [][16]byte) (kept int) {
	w.t.Helper()
	for _, id := range ids {
		a := SlotAsk{Keys: []string{set}, Caps: []int64{capacity}, Lives: []int64{60 * Second}, TTL: 60 * Second, ID: id, GoneClosed: closed}
		var ans SlotAnswer
		if err := w.fleet[i].Acquire(w.t.Context(), &a, &ans); err != nil {
			w.t.Fatal(err)
		}
		if ans.Allowed {
			kept++
		}
	}
	return kept
}

// In an outage an instance gives its share, less what it has given already: over
// all at most max(cap, instances) more than were held when it began.
func TestAnOutageGivesAShareOfTheSlots(t *testing.T) {
	for _, c := range []struct {
		instances     int
		capacity      int64
		before, share []int // held of each instance when the outage begins, and what each then gives in all
	}{
		{3, 6, []int{4, 0, 0}, []int{0, 2, 2}},
		{3, 6, []int{1, 2, 3}, []int{1, 0, 0}},
		{3, 2, []int{2, 0, 0}, []int{0, 1, 1}}, // fewer than instances: one each
		{1, 5, []int{3}, []int{2}},
	} {
		t.Run(fmt.Sprint(c.instances, " instances, cap ", c.capacity), func(t *testing.T) {
			w := newSlotWorld(t, c.instances)
			var held [][][16]byte
			for i, n := range c.before {
				held = append(held, w.many(i, n, "s", c.capacity, false))
			}
			w.gone, w.now = true, w.now+Second
			in := 0
			for i, want := range c.share {
				if got := w.renew(i, "s", c.capacity, false, held[i]); got != c.before[i] {
					t.Errorf("instance %d: %d of %d that are held could be renewed", i, got, c.before[i])
				}
				if got := len(w.many(i, 10, "s", c.capacity, false)); got != want {
					t.Errorf("instance %d gives %d, not %d", i, got, want)
				}
				in += c.before[i] + want
			}
			if most := c.capacity + max(c.capacity, int64(c.instances)); int64(in) > most {
				t.Errorf("%d are held, of at most %d", in, most)
			}
			// It is back. Nobody gets more there than the cap, and all of them end.
			w.gone, w.now = false, w.now+Second
			var ans SlotAnswer
			look := SlotAsk{Keys: []string{"s"}, Caps: []int64{c.capacity}, Lives: []int64{60 * Second}, TTL: 1, ID: [16]byte{99}}
			for i := range w.fleet {
				w.many(i, 10, "s", c.capacity, false)
			}
			if err := w.shared.Acquire(t.Context(), &look, &ans); err != nil || ans.Allowed || ans.InUse[0] != c.capacity {
				t.Errorf("%+v, %v", ans, err)
			}
			w.now += 61 * Second
			if got := len(w.many(0, 20, "s", c.capacity, false)); int64(got) != c.capacity {
				t.Errorf("%d can be had when all have expired", got)
			}
		})
	}
}

// A rule that is closed in an outage gives no place then, and takes none away.
func TestAClosedRuleGivesNoSlotsInAnOutage(t *testing.T) {
	w := newSlotWorld(t, 2)
	held := w.many(0, 2, "s", 10, true)
	if len(held) != 2 {
		t.Fatal("closed while the store is there")
	}
	w.gone = true
	if n := len(w.many(0, 3, "s", 10, true)); n != 0 {
		t.Errorf("%d newcomers have a place", n)
	}
	if n := w.renew(0, "s", 10, true, held); n != 2 {
		t.Errorf("%d of 2 that are held could be renewed", n)
	}
	for _, id := range held {
		ok, degraded, err := w.fleet[0].Release(t.Context(), &SlotReturn{Keys: []string{"s"}, ID: id})
		if !ok || !degraded || err != nil {
			t.Errorf("released %t, degraded %t, %v", ok, degraded, err)
		}
	}
	if n := w.renew(0, "s", 10, true, held); n != 0 {
		t.Errorf("%d of 2 that were released could be renewed", n)
	}
}

// A flood of keys finds no room; who has a place keeps it, and what has expired
// makes room again.
func TestTheTwinsSlotsAreBounded(t *testing.T) {
	now := int64(1_800_000_000) * Second
	m := NewMemory(MemoryConfig{Marks: 8 * 1024, Now: func() int64 { return now }})
	ask := func(key string, id byte) (bool, error) {
		a := SlotAsk{Keys: []string{key}, Caps: []int64{5}, Lives: []int64{60 * Second}, TTL: 60 * Second, ID: [16]byte{id}}
		var ans SlotAnswer
		err := m.Acquire(t.Context(), &a, &ans)
		return ans.Allowed, err
	}
	if ok, err := ask("mine", 1); !ok || err != nil {
		t.Fatal(ok, err)
	}
	refused := 0
	for i := range 20_000 {
		if _, err := ask(fmt.Sprint("flood ", i), 1); errors.Is(err, ErrNoStore) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Stats().Slots; n > 1024 || refused < 18_000 {
		t.Errorf("%d places of at most 1024 are occupied, %d were refused", n, refused)
	}
	if ok, err := ask("mine", 1); !ok || err != nil {
		t.Errorf("a place that is held cannot be renewed: %v", err)
	}
	now += 3 * 60 * Second
	got := 0
	for i := range 2000 {
		if ok, _ := ask(fmt.Sprint("later ", i), 1); ok {
			got++
		}
	}
	if got < 512 {
		t.Errorf("%d of 1024 places can be had again", got)
	}
}

// slotPrimary fails while its world says so.
type slotPrimary struct {
	*Memory
	w *slotWorld
}

func (p *slotPrimary) Acquire(ctx context.Context, a *SlotAsk, ans *SlotAnswer) error {
	if p.w.gone {
		return errGone
	}
	return p.Memory.Acquire(ctx, a, ans)
}

func (p *slotPrimary) Release(ctx context.Context, r *SlotReturn) (bool, bool, error) {
	if p.w.gone {
		return false, false, errGone
	}
	return p.Memory.Release(ctx, r)
}
