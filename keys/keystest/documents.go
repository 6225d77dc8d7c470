package keystest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/guardd/guardd/keys"
)

// documents holds a Subject that keeps keys.Documents to their contract.
func documents(t *testing.T, s Subject, names keys.Space) {
	d, ok := s.(keys.Documents)
	if !ok {
		t.Skip("keeps no documents")
	}
	ctx, key := t.Context(), names.State()
	get := func() []byte {
		t.Helper()
		v, err := d.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for i, step := range []struct {
		was, value string
		swapped    bool
		then       string
	}{
		{"a", "b", false, ""}, // nothing is there
		{"", "a", true, "a"},
		{"", "b", false, "a"},
		{"b", "c", false, "a"},
		{"a", "a\x00\xff", true, "a\x00\xff"},
		{"a\x00\xff", "", true, ""},
		{"a\x00\xff", "b", false, ""},
		{"", "c", true, "c"},
	} {
		swapped, err := d.Swap(ctx, key, []byte(step.was), []byte(step.value), keys.Day)
		if err != nil || swapped != step.swapped || string(get()) != step.then {
			t.Errorf("step %d: swapped %v (%v), then %q", i, swapped, err, get())
		}
	}
	if err := s.Put(ctx, key, []byte("put"), keys.Day); err != nil || string(get()) != "put" {
		t.Errorf("what was put reads as %q (%v)", get(), err)
	}
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	if ok, err := d.Swap(ctx, key, []byte("put"), large, keys.Day); !ok || err != nil || !bytes.Equal(get(), large) {
		t.Errorf("a large document: %v, %v", ok, err)
	}
	for name, err := range map[string]error{
		"no key":      second(d.Swap(ctx, "", nil, []byte("x"), keys.Day)),
		"no lifetime": second(d.Swap(ctx, key, nil, []byte("x"), 0)),
		"too large":   second(d.Swap(ctx, key, nil, make([]byte, keys.MaxDocument+1), keys.Day)),
	} {
		if !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// changes has many writers change one document: none of their changes is lost.
func changes(t *testing.T, s Subject, names keys.Space) {
	d, ok := s.(keys.Documents)
	if !ok {
		t.Skip("keeps no documents")
	}
	const writers, each = 8, 10
	together(t, writers, func(int) (bool, error) {
		for n := 0; n < each; {
			changed, err := keys.Change(t.Context(), d, names.State(), func(was []byte) ([]byte, int64, bool, error) {
				return append(bytes.Clone(was), 'x'), keys.Day, true, nil
			})
			if err != nil && !errors.Is(err, keys.ErrBusy) {
				return false, err
			}
			if changed {
				n++
			}
		}
		return true, nil
	})
	if v, err := d.Get(t.Context(), names.State()); len(v) != writers*each || err != nil {
		t.Errorf("%d changes are left of %d (%v)", len(v), writers*each, err)
	}
	no := errors.New("no")
	for name, change := range map[string]func([]byte) ([]byte, int64, bool, error){
		"nothing to change": func([]byte) ([]byte, int64, bool, error) { return nil, 0, false, nil },
		"its own error":     func([]byte) ([]byte, int64, bool, error) { return []byte("x"), 1, true, no },
	} {
		changed, err := keys.Change(t.Context(), d, names.State(), change)
		if v, _ := d.Get(t.Context(), names.State()); changed || err != nil && err != no || len(v) != writers*each {
			t.Errorf("%s: changed %v (%v), %d bytes", name, changed, err, len(v))
		}
	}
}

// journal has many writers append at once: every entry is there, under a number
// of its own, in one order for all readers.
func journal(t *testing.T, s Subject, _ keys.Space) {
	d, ok := s.(keys.Documents)
	if !ok {
		t.Skip("keeps no documents")
	}
	ctx, name := t.Context(), "journal-"+unique()
	const writers, each = 8, 5
	j := keys.NewJournal(d, name, writers*each, keys.Day)
	if last, err := j.Last(ctx); last != 0 || err != nil {
		t.Errorf("an empty journal ends at %d (%v)", last, err)
	}
	together(t, writers, func(i int) (bool, error) {
		for n := range each {
			for {
				_, err := j.Append(ctx, fmt.Appendf(nil, "%d.%d", i, n))
				if err == nil {
					break
				}
				if !errors.Is(err, keys.ErrBusy) {
					return false, err
				}
			}
		}
		return true, nil
	})
	read := func(from, upto int64) []keys.Entry {
		t.Helper()
		entries, err := j.Read(ctx, from, upto)
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	seen := map[string]bool{}
	entries := read(0, writers*each)
	for i, e := range entries {
		if e.Seq != int64(i+1) || seen[string(e.Value)] {
			t.Errorf("entry %d is number %d, %q", i, e.Seq, e.Value)
		}
		seen[string(e.Value)] = true
	}
	if last, err := j.Last(ctx); len(entries) != writers*each || last != writers*each || err != nil {
		t.Errorf("%d entries, and the last is %d (%v)", len(entries), last, err)
	}

	// A writer that died between its entry and the head loses nothing.
	orphan := binary.LittleEndian.AppendUint64(nil, writers*each+1)
	place := fmt.Sprintf("gd:{%s}:%d", name, (writers*each+1)%(writers*each))
	if err := s.Put(ctx, place, append(orphan, "orphan"...), keys.Day); err != nil {
		t.Fatal(err)
	}
	if seq, err := j.Append(ctx, []byte("next")); seq != writers*each+2 || err != nil {
		t.Errorf("after an orphan comes %d (%v)", seq, err)
	}
	// Of more than it keeps the oldest are gone, and their places other entries'.
	entries = read(0, writers*each+2)
	if n := len(entries); n != writers*each || entries[0].Seq != 3 || string(entries[n-2].Value) != "orphan" || string(entries[n-1].Value) != "next" {
		t.Errorf("%d entries, the first is number %d, the last %q", n, entries[0].Seq, entries[n-1].Value)
	}
	if got := read(writers*each+2, writers*each+9); len(got) != 1 {
		t.Errorf("%d entries from the last one on", len(got))
	}
}

// clears takes buckets away, and nothing else.
func clears(t *testing.T, s Subject, names keys.Space) {
	c, ok := s.(keys.Clearer)
	if !ok {
		t.Skip("clears nothing")
	}
	ctx, r := t.Context(), simple(t, 10, untilEmpty)
	spend := func(key string) int64 {
		t.Helper()
		a, ans := simpleAsk(r, names), keys.Answer{}
		a.Keys[0] = key
		if err := s.Take(ctx, &a, &ans); err != nil {
			t.Fatal(err)
		}
		return ans.Limits[0].Tokens()
	}
	other := keys.NewSpace("clears-"+unique(), 3)
	here, there, kept := names.Account("login", sheetAccount), other.Account("login", sheetAccount), names.Account("otp", sheetAccount)
	for range 3 {
		spend(here)
		spend(there)
		spend(kept)
	}
	if _, err := s.Revoke(ctx, names.Revoked(sheetAccount), 0, keys.Day); err != nil {
		t.Fatal(err)
	}
	both := []string{here, there, names.Account("reset", sheetAccount)}
	count := func(what string, n int, err error, want int) {
		t.Helper()
		if n != want || err != nil {
			t.Errorf("%s: %d (%v), not %d", what, n, err, want)
		}
	}
	n, err := c.Held(ctx, both)
	count("held", n, err, 2)
	n, err = c.Clear(ctx, both)
	count("cleared", n, err, 2)
	n, err = c.Clear(ctx, both)
	count("cleared again", n, err, 0)
	n, err = c.Held(ctx, both)
	count("held then", n, err, 0)
	n, err = c.Held(ctx, nil)
	count("of none", n, err, 0)
	if a, b, k := spend(here), spend(there), spend(kept); a != 9 || b != 9 || k != 6 {
		t.Errorf("left %d, %d of what was cleared and %d of what was not", a, b, k)
	}
	if at, err := s.Revoke(ctx, names.Revoked(sheetAccount), 1, keys.Day); at <= 1 || err != nil {
		t.Errorf("the revocation went back to %d (%v)", at, err)
	}
	many := make([]string, 2_000)
	for i := range many {
		many[i] = names.Account("login", keys.Account{byte(i), byte(i >> 8), 1})
	}
	spend(many[0])
	spend(many[1999])
	n, err = c.Clear(ctx, many)
	count("of many", n, err, 2)
}
