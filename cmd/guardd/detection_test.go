package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/guardd/guardd/aggregate/detect"
)

// TestTheLogSaysWhetherAnAttackIsActedUpon: once when it opens, with the mode.
func TestTheLogSaysWhetherAnAttackIsActedUpon(t *testing.T) {
	for _, mode := range []detectionMode{detectionOn, detectionDry} {
		var log bytes.Buffer
		s := &server{log: slog.New(slog.NewTextHandler(&log, nil))}
		found := s.found("default", mode)
		for range 2 {
			found(&detect.Campaign{ID: "spray-1", What: "spray"})
		}
		if text := log.String(); strings.Count(text, `msg="an attack"`) != 1 || !strings.Contains(text, " detection="+string(mode)+"\n") {
			t.Errorf("%s: %s", mode, text)
		}
	}
}
