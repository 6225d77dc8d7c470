package aggregatetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/keys"
)

// Recents holds recent events in a store to what whoever explains relies on.
// Realms of this name must be the test's own.
func Recents(t *testing.T, st keys.Streams, realm string) {
	ctx, noon := t.Context(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := aggregate.NewRecents(aggregate.RecentsConfig{Streams: st, Now: func() time.Time { return noon.Add(time.Hour) }})
	event := func(i int) aggregate.Event {
		return aggregate.Event{V: 1, ID: fmt.Sprint("x-", i), Instance: "x", Seq: uint64(i), Kind: aggregate.KindAttempt, Time: noon.Add(time.Duration(i) * time.Second),
			Realm: realm, Account: fmt.Sprint("account", i%7), IP: fmt.Sprint("192.0.2.", i%11), Network: fmt.Sprint("192.0.", i%2, ".0/24"),
			Device: fmt.Sprint("device", i%13), Attempt: fmt.Sprint("attempt", i/2),
			Tiers: []aggregate.TierLevel{{Tier: "account", Limit: "burst", Left: int64(i), Capacity: 20, Rung: "allow"}}}
	}
	var all []aggregate.Event
	for i := range 500 {
		all = append(all, event(i))
	}
	for part := range slices.Chunk(all, 190) {
		if err := r.Add(ctx, realm, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add(ctx, realm, all[480:]); err != nil { // a writer that was not answered
		t.Fatal(err)
	}
	if err := r.Add(ctx, realm+"2", []aggregate.Event{event(1)}); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(ctx, realm, nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    aggregate.Query
		want func(i int) bool
	}{
		"all":                 {aggregate.Query{}, func(int) bool { return true }},
		"event":               {aggregate.Query{ID: "x-77"}, func(i int) bool { return i == 77 }},
		"attempt":             {aggregate.Query{Attempt: "attempt40"}, func(i int) bool { return i/2 == 40 }},
		"account":             {aggregate.Query{Account: "account3"}, func(i int) bool { return i%7 == 3 }},
		"address":             {aggregate.Query{IP: "192.0.2.5"}, func(i int) bool { return i%11 == 5 }},
		"network":             {aggregate.Query{Network: "192.0.1.0/24"}, func(i int) bool { return i%2 == 1 }},
		"device":              {aggregate.Query{Device: "device12"}, func(i int) bool { return i%13 == 12 }},
		"account and address": {aggregate.Query{Account: "account3", IP: "192.0.2.5"}, func(i int) bool { return i%7 == 3 && i%11 == 5 }},
		"nobody":              {aggregate.Query{Account: "nobody"}, func(int) bool { return false }},
	} {
		var want []string
		for i := 499; i >= 0; i-- {
			if c.want(i) {
				want = append(want, fmt.Sprint("x-", i))
			}
		}
		for _, most := range []int{0, 3, 600} {
			c.q.Most = most
			found, err := r.Find(ctx, realm, c.q)
			if err != nil {
				t.Fatal(err)
			}
			most, got := map[int]int{0: 100}[most]+most, []string{}
			for _, e := range found {
				got = append(got, e.ID)
				if len(e.Tiers) != 1 || e.Tiers[0].Left != int64(e.Seq) {
					t.Errorf("%s: %s came back as %+v", name, e.ID, e)
				}
			}
			if !slices.Equal(got, want[:min(most, len(want))]) {
				t.Errorf("%s, %d at most: %v, not %v", name, most, got, want[:min(most, len(want))])
			}
		}
	}
	// What is too old is not told, though it may still be there.
	late := aggregate.NewRecents(aggregate.RecentsConfig{Streams: st, For: time.Hour, Now: func() time.Time { return noon.Add(time.Hour + 490*time.Second) }})
	if found, err := late.Find(ctx, realm, aggregate.Query{}); len(found) != 10 || err != nil {
		t.Errorf("%d events are not too old, 10 were to be (%v)", len(found), err)
	}
	few := aggregate.NewRecents(aggregate.RecentsConfig{Streams: st, Keep: 100})
	for range 10 {
		if err := few.Add(ctx, realm, all); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for before := ""; ; {
		values, next, err := st.Page(ctx, keys.Recents(realm), before, 100)
		if err != nil {
			t.Fatal(err)
		}
		n += len(values)
		if before = next; before == "" {
			break
		}
	}
	if n < 100 || n > 300 {
		t.Errorf("%d are kept of 5000, 100 were to be", n)
	}
}
