package main

import (
	"bytes"
	"testing"
	"time"
)

// A long build says how far it is, how fast, and how long it will take.
func TestProgressOfABuild(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out, func() time.Time { return now })
	p.begin("building", 0)
	p.part(0.1, 1000)
	if out.Len() > 0 {
		t.Errorf("a short build shows %q", &out)
	}
	now = now.Add(20 * time.Second)
	p.part(0.25, 220_000_000)
	p.part(0.26, 220_000_001) // too soon
	if want := "\rbuilding   25 %  220,000,000 rows  11,000,000/s  1m0s left"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
	p.end()
	(*progress)(nil).part(1, 1)
}
