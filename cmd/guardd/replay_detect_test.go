package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestReplayDetectsInTheRealLog: three weeks of a small public server hold what
// everybody's do, and the one morning on which somebody forgot a password.
func TestReplayDetectsInTheRealLog(t *testing.T) {
	var out, errOut bytes.Buffer
	noEnv := func(string) (string, bool) { return "", false }
	args := []string{"replay", realLog, "--year", "2025", "--zone", "UTC", "--json", "--detect"}
	if code := run(t.Context(), args, noEnv, nil, &out, &errOut); code != exitOK {
		t.Fatalf("exit %d: %s", code, errOut.String())
	}
	var report replayFigures
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	has := func(what string, texts ...string) {
		t.Helper()
	next:
		for _, c := range report.Campaigns {
			for _, text := range texts {
				if !strings.Contains(c.Text, text) {
					continue next
				}
			}
			if c.What == what {
				return
			}
		}
		t.Errorf("no %s %q among %+v", what, texts, report.Campaigns)
	}
	has("slow_guessing", "root: guessed at ", " from 64 addresses over 22 days")
	has("slow_guessing", "admin: guessed at ", " from 23 addresses over ")
	has("hammering", "elastic_user_0: guessed at ", " from 198.18.64.1 within ")
	if report.Attempts != 1185 {
		t.Errorf("%d attempts were judged, want 1185 as without --detect", report.Attempts)
	}
	for _, c := range report.Campaigns {
		if strings.Contains(c.Text, "elastic_user_1:") {
			t.Errorf("an owner was taken for an attacker: %+v", c)
		}
	}

	// The same for people.
	out.Reset()
	if code := run(t.Context(), append(args[:6:6], "--detect"), noEnv, nil, &out, &errOut); code != exitOK {
		t.Fatalf("exit %d: %s", code, errOut.String())
	}
	if text := out.String(); !strings.Contains(text, "Attacks found") || !strings.Contains(text, "slow_guessing: root: guessed at ") {
		t.Errorf("the report does not name root:\n%s", text)
	}
	// Without --detect nothing of it is there.
	out.Reset()
	if code := run(t.Context(), args[:7], noEnv, nil, &out, &errOut); code != exitOK || strings.Contains(out.String(), "campaigns") {
		t.Errorf("exit %d, and campaigns without --detect", code)
	}
}
