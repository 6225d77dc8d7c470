package keystest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// streams holds a Subject that keeps keys.Streams to their contract.
func streams(t *testing.T, s Subject, names keys.Space) {
	st, ok := s.(keys.Streams)
	if !ok {
		t.Skip("keeps no streams")
	}
	ctx, key := t.Context(), names.Tally("stream", "a")
	add := func(keep int, ttl int64, values ...string) {
		t.Helper()
		var b [][]byte
		for _, v := range values {
			b = append(b, []byte(v))
		}
		if err := st.Append(ctx, key, b, keep, ttl); err != nil {
			t.Fatal(err)
		}
		for _, v := range b { // it is the store's own from then on
			clear(v)
		}
	}
	read := func(most int) (pages [][]string) {
		t.Helper()
		for before := ""; ; {
			values, next, err := st.Page(ctx, key, before, most)
			if err != nil {
				t.Fatal(err)
			}
			var page []string
			for _, v := range values {
				page = append(page, string(v))
			}
			pages = append(pages, page)
			if next == "" {
				return pages
			}
			before = next
		}
	}
	want := func(what string, pages [][]string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range pages {
			got = append(got, strings.Join(p, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", what, got, want)
		}
	}
	want("nothing", read(3), "")
	add(100, keys.Day)
	want("still nothing", read(3), "")
	add(100, keys.Day, "a", "b\x00\xff", "c")
	add(100, keys.Day, "d", "e")
	want("pages of 2", read(2), "e d", "c b\x00\xff", "a")
	want("pages of 5", read(5), "e d c b\x00\xff a")
	want("pages of 1", read(1), "e", "d", "c", "b\x00\xff", "a")

	// What is appended meanwhile moves no page.
	first, next, err := st.Page(ctx, key, "", 2)
	add(100, keys.Day, "f")
	second, _, err2 := st.Page(ctx, key, next, 2)
	if len(first) != 2 || len(second) != 2 || string(second[0]) != "c" || err != nil || err2 != nil {
		t.Errorf("%q, and then %q (%v, %v)", first, second, err, err2)
	}

	// Of many the last stay, and few others.
	for i := range 30 {
		var many []string
		for n := range 100 {
			many = append(many, fmt.Sprint(100*i+n))
		}
		add(500, keys.Day, many...)
	}
	all := slices.Concat(read(keys.MaxPage)...)
	if len(all) < 500 || len(all) > 500+200 || all[0] != "2999" || all[499] != "2500" {
		t.Errorf("%d are kept of 3000, 500 were to be: from %v to %v", len(all), all[0], all[len(all)-1])
	}

	// What is older than its time goes with the next, and with none by itself.
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: did not happen", what)
			}
		}
	}
	add(1000, keys.Day, "old")
	until("an old one goes with the next", func() bool {
		add(1<<20, keys.Second, "new") // which keeps the stream, so it is not gone whole
		return !slices.Contains(slices.Concat(read(keys.MaxPage)...), "old")
	})
	add(1000, 1, "last")
	until("the last go by themselves", func() bool { return len(slices.Concat(read(1)...)) == 0 })
	add(1000, keys.Day, "anew")
	want("after all had gone", read(2), "anew")
	for name, err := range map[string]error{
		"no key":       st.Append(ctx, "", nil, 1, 1),
		"no lifetime":  st.Append(ctx, key, nil, 1, 0),
		"nothing kept": st.Append(ctx, key, nil, 0, 1),
		"too many":     st.Append(ctx, key, make([][]byte, keys.MaxAppend+1), 1, 1),
		"too large":    st.Append(ctx, key, [][]byte{make([]byte, keys.MaxAppendBytes+1)}, 1, 1),
		"page without": third(st.Page(ctx, "", "", 1)),
		"page of none": third(st.Page(ctx, key, "", 0)),
	} {
		if !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := third(st.Page(ctx, key, "nowhere", 1)); !errors.Is(err, keys.ErrPlace) {
		t.Errorf("a place that is none: %v", err)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

// streamTyped: whatever else is under a stream's key counts as nothing, and goes.
func streamTyped(t *testing.T, s Subject, names keys.Space) {
	st, ok := s.(keys.Streams)
	w, typed := s.(WrongTyper)
	if !ok || !typed {
		t.Skip("has no types")
	}
	ctx, key := t.Context(), names.Tally("stream", "b")
	if err := w.SetWrongType(key); err != nil {
		t.Fatal(err)
	}
	if values, next, err := st.Page(ctx, key, "", 1); len(values) != 0 || next != "" || err != nil {
		t.Errorf("another type reads as %q, %q, %v", values, next, err)
	}
	for { // the first may be refused
		if err := st.Append(ctx, key, [][]byte{[]byte("a")}, 9, keys.Day); err == nil {
			break
		}
	}
	if values, _, err := st.Page(ctx, key, "", 9); len(values) != 1 || err != nil {
		t.Errorf("then %q, %v", values, err)
	}
}
