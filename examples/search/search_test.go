package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"testing"
)

// What the README says of the picture, by two series of chances: behind counts of
// requests the backend falls over and stays so; what counts costs and reports
// keeps three callers from the others, and cannot help where workers are lost;
// with shedding what is critical is answered all the while.
func TestWhatEachProtectionIsWorth(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		all := map[string][]Second{}
		for _, p := range Protections {
			s, err := Run(p, seed)
			if err != nil {
				t.Fatal(err)
			}
			all[p.Name] = s
		}
		for _, c := range []struct {
			p           string
			scene       int
			critical    bool
			least, most float64
		}{
			{"requests", 0, false, 99, 100},
			{"requests", 1, false, 0, 5},
			{"requests", 2, false, 0, 5}, // the three are gone, and it is no better
			{"requests", 4, true, 0, 5},
			{"cost + concurrency", 0, false, 99, 100},
			{"cost + concurrency", 1, false, 98, 100},
			{"cost + concurrency", 2, false, 99, 100},
			{"cost + concurrency", 3, false, 0, 20},
			{"cost + concurrency", 4, false, 0, 20},
			{"cost + concurrency + shedding", 0, false, 97, 100},
			{"cost + concurrency + shedding", 1, false, 90, 100},
			{"cost + concurrency + shedding", 2, false, 98, 100},
			{"cost + concurrency + shedding", 3, false, 55, 100},
			{"cost + concurrency + shedding", 3, true, 88, 100},
			{"cost + concurrency + shedding", 4, false, 95, 100},
		} {
			if got := Share(all[c.p], scene*c.scene, scene*(c.scene+1), c.critical); got < c.least || got > c.most {
				t.Errorf("seed %d: %s, scene %d (critical %t): %.1f%% answered in time, want %.0f to %.0f", seed, c.p, c.scene+1, c.critical, got, c.least, c.most)
			}
		}
		if seed == 1 {
			drawn(t, Draw(all))
		}
	}
}

// drawn holds the picture of the README to be the one that is drawn.
func drawn(t *testing.T, svg []byte) {
	kept, err := os.ReadFile("../../docs/search.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(svg, kept) {
		t.Error("docs/search.svg is not what go run ./examples/search -svg docs/search.svg draws")
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("no XML: %v", err)
		}
	}
}
