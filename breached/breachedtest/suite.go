// Package breachedtest holds the suite that every source of leaked passwords
// must pass.
package breachedtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/guardd/guardd/breached"
)

// Corpus is what a source under test shall know.
type Corpus struct {
	Kind     breached.Kind
	Counts   map[breached.Hash]uint64
	Complete bool
}

// Subject is a source that knows a corpus.
type Subject struct {
	breached.Source
	// Ranges is whether it serves them; else each is ErrNoRange.
	Ranges bool
	// OnlyKind is whether it has one kind: the other is ErrKind.
	OnlyKind bool
	// Complete is whether it knows that there is no more than that, whatever the
	// corpus says of itself.
	Complete bool
}

// Run holds a source to the contract. open makes one that knows the corpus.
func Run(t *testing.T, open func(t *testing.T, c Corpus) Subject) {
	for _, kind := range breached.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			c := Passwords(kind)
			s := open(t, c)
			c.Complete = c.Complete || s.Complete
			t.Run("check", func(t *testing.T) { check(t, c, s) })
			t.Run("range", func(t *testing.T) { ranges(t, c, s) })
			t.Run("refusals", func(t *testing.T) { refusals(t, c, s) })
		})
	}
}

// Passwords is a corpus of passwords with counts of every size, in some
// thousand of all prefixes. No two share their first 56 bits, which is what the
// shortest index tells apart.
func Passwords(kind breached.Kind) Corpus {
	c := Corpus{Kind: kind, Counts: map[breached.Hash]uint64{}}
	counts := []uint64{1, 2, 3, 9, 10, 239, 240, 254, 255, 256, 257, 65535, 65536, 10_434_004, 1 << 31, 1 << 40}
	for i := range 3000 {
		c.Counts[breached.HashPassword(kind, fmt.Appendf(nil, "pässword %d", i))] = counts[i%len(counts)]
	}
	sum := breached.HashPassword(kind, []byte("several")).Bytes()
	for i := range byte(5) {
		sum[6] = i
		h, err := breached.HashOf(kind, sum)
		if err != nil {
			panic(err)
		}
		c.Counts[h] = uint64(i) + 1
	}
	return c
}

// Rows is a corpus' rows in order, as whole-hash lines without their ends.
func (c Corpus) Rows() []string {
	rows := make([]string, 0, len(c.Counts))
	for h, n := range c.Counts {
		rows = append(rows, fmt.Sprintf("%s:%d", h, n))
	}
	slices.Sort(rows)
	return rows
}

// Body is a prefix's rows as the public service answers.
func (c Corpus) Body(prefix string) []byte {
	var rows []string
	for _, row := range c.Rows() {
		if suffix, ok := strings.CutPrefix(row, prefix); ok {
			rows = append(rows, suffix)
		}
	}
	return []byte(strings.Join(rows, "\r\n"))
}

func check(t *testing.T, c Corpus, s Subject) {
	ctx := context.Background()
	for h, count := range c.Counts {
		v, err := s.Check(ctx, h)
		if want := (breached.Verdict{Breached: true, Count: count, Complete: c.Complete}); err != nil || v != want {
			t.Fatalf("%v: %+v, %v; want %+v", h, v, err, want)
		}
		// Another hash of the same prefix is not it.
		sum := h.Bytes()
		sum[4] ^= 0x10
		other, _ := breached.HashOf(c.Kind, sum)
		if _, is := c.Counts[other]; is {
			continue
		}
		v, err = s.Check(ctx, other)
		if want := (breached.Verdict{Complete: c.Complete}); err != nil || v != want {
			t.Fatalf("%v, which is not in it: %+v, %v; want %+v", other, v, err, want)
		}
	}
}

func ranges(t *testing.T, c Corpus, s Subject) {
	ctx := context.Background()
	bodies := map[string]string{}
	for _, row := range c.Rows() {
		p := row[:breached.PrefixDigits]
		if bodies[p] != "" {
			bodies[p] += "\r\n"
		}
		bodies[p] += row[breached.PrefixDigits:]
	}
	tags := map[string]bool{}
	for prefix, body := range bodies {
		r, err := s.Range(ctx, c.Kind, prefix)
		if !s.Ranges {
			if !errors.Is(err, breached.ErrNoRange) {
				t.Fatalf("%s: %v, want ErrNoRange", prefix, err)
			}
			continue
		}
		if err != nil || string(r.Body) != body {
			t.Fatalf("%s: %v, want %q, got %+v", prefix, err, body, r)
		}
		again, err := s.Range(ctx, c.Kind, strings.ToLower(prefix))
		if err != nil || again.ETag != r.ETag || !bytes.Equal(again.Body, r.Body) {
			t.Fatalf("%s in lower case: %+v, %v; want %+v", prefix, again, err, r)
		}
		if r.ETag != "" && (len(r.ETag) < 3 || r.ETag[0] != '"' || r.ETag[len(r.ETag)-1] != '"' || tags[r.ETag]) {
			t.Fatalf("%s: the ETag %s is not a strong one of its own", prefix, r.ETag)
		}
		tags[r.ETag] = r.ETag != ""
	}
	for i := range breached.Prefixes {
		prefix := fmt.Sprintf("%05X", i)
		if bodies[prefix] != "" {
			continue
		}
		// An empty answer would call every password of the prefix safe.
		if r, err := s.Range(ctx, c.Kind, prefix); err == nil {
			t.Fatalf("%s, of which it has none: %+v", prefix, r)
		}
		if i > 2000 {
			break
		}
	}
}

func refusals(t *testing.T, c Corpus, s Subject) {
	ctx := context.Background()
	for _, prefix := range []string{"", "0000", "000000", "0000G", "0000\n"} {
		if r, err := s.Range(ctx, c.Kind, prefix); !errors.Is(err, breached.ErrPrefix) {
			t.Errorf("%q: %+v, %v; want ErrPrefix", prefix, r, err)
		}
	}
	if v, err := s.Check(ctx, breached.Hash{}); err == nil || v != (breached.Verdict{}) {
		t.Errorf("no hash: %+v, %v", v, err)
	}
	if !s.OnlyKind {
		return
	}
	other := breached.SHA1 + breached.NTLM - c.Kind
	if v, err := s.Check(ctx, breached.HashPassword(other, []byte("p"))); !errors.Is(err, breached.ErrKind) || v != (breached.Verdict{}) {
		t.Errorf("a hash of the other kind: %+v, %v; want ErrKind", v, err)
	}
	if r, err := s.Range(ctx, other, "00000"); !errors.Is(err, breached.ErrKind) {
		t.Errorf("a range of the other kind: %+v, %v; want ErrKind", r, err)
	}
}
