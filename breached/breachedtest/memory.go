package breachedtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/breached"
)

//go:embed testdata
var files embed.FS

// RealPrefixes are those of Real.
var RealPrefixes = []string{"00000", "00001"}

// RealBody is what the public service answers to one of RealPrefixes.
func RealBody(kind breached.Kind, prefix string) []byte {
	body, err := files.ReadFile("testdata/" + kind.String() + "/" + prefix + ".txt")
	if err != nil {
		panic("breachedtest: " + err.Error())
	}
	return body
}

// Real is a corpus of two whole ranges of the public service.
func Real(kind breached.Kind) Corpus {
	c := Corpus{Kind: kind, Counts: map[breached.Hash]uint64{}}
	for _, prefix := range RealPrefixes {
		for line := range strings.SplitSeq(string(RealBody(kind, prefix)), "\r\n") {
			suffix, count, _ := strings.Cut(line, ":")
			h, err := breached.ParseHash(kind, prefix+suffix)
			n, err2 := strconv.ParseUint(count, 10, 64)
			if err != nil || err2 != nil {
				panic("breachedtest: a range with a row that is none")
			}
			c.Counts[h] = n
		}
	}
	return c
}

// With is the corpus and these passwords, with how often each was seen.
func (c Corpus) With(passwords map[string]uint64) Corpus {
	c.Counts = maps.Clone(c.Counts)
	for p, n := range passwords {
		c.Counts[breached.HashPassword(c.Kind, []byte(p))] = n
	}
	return c
}

// Bodies are all its ranges, by prefix.
func (c Corpus) Bodies() map[string][]byte {
	bodies := map[string][]byte{}
	for _, row := range c.Rows() {
		prefix := row[:breached.PrefixDigits]
		if b := bodies[prefix]; b != nil {
			bodies[prefix] = append(b, "\r\n"...)
		}
		bodies[prefix] = append(bodies[prefix], row[breached.PrefixDigits:]...)
	}
	return bodies
}

// Memory is the plainest source there is: it looks everything up in maps. It is
// immutable.
type Memory struct {
	corpus Corpus
	bodies map[string][]byte
}

// NewMemory returns a source of the corpus, with ranges.
func NewMemory(c Corpus) *Memory { return &Memory{c, c.Bodies()} }

// Check implements breached.Source.
func (m *Memory) Check(_ context.Context, h breached.Hash) (breached.Verdict, error) {
	if h.Kind() != m.corpus.Kind {
		return breached.Verdict{}, breached.ErrKind
	}
	n := m.corpus.Counts[h]
	return breached.Verdict{Breached: n > 0, Count: n, Complete: m.corpus.Complete}, nil
}

// Modified is when the rows of a Memory were last changed.
var Modified = time.Date(2024, 11, 20, 10, 0, 0, 0, time.UTC)

// Range implements breached.Source.
func (m *Memory) Range(_ context.Context, kind breached.Kind, prefix string) (*breached.Range, error) {
	if _, err := breached.ParsePrefix(prefix); err != nil {
		return nil, err
	}
	if kind != m.corpus.Kind {
		return nil, breached.ErrKind
	}
	body, ok := m.bodies[strings.ToUpper(prefix)]
	if !ok {
		return nil, breached.ErrNoRange
	}
	return &breached.Range{Body: bytes.Clone(body), ETag: fmt.Sprintf(`"%x"`, sha256.Sum256(body)), Modified: Modified}, nil
}
