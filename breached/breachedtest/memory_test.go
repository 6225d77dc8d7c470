package breachedtest

import (
	"bytes"
	"testing"

	"github.com/guardd/guardd/breached"
)

func TestMemoryHoldsToTheContract(t *testing.T) {
	Run(t, func(_ *testing.T, c Corpus) Subject {
		return Subject{Source: NewMemory(c), Ranges: true, OnlyKind: true}
	})
}

func TestRealRangesAreServedByteForByte(t *testing.T) {
	for _, kind := range breached.Kinds {
		m := NewMemory(Real(kind).With(map[string]uint64{"password": 10_434_004}))
		for _, p := range RealPrefixes {
			if r, err := m.Range(t.Context(), kind, p); err != nil || !bytes.Equal(r.Body, RealBody(kind, p)) {
				t.Errorf("%v %s: %v", kind, p, err)
			}
		}
	}
}
