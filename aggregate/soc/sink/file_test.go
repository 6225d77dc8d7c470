package sink

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		t.Errorf("%s ends within a line", path)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestAFileIsRotatedAndNothingOfItIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "soc.jsonl")
	s, all := open(t, Config{To: "file:" + path, RotateBytes: 5000, Keep: 3}), records(40)
	deliver(t, s, all[:1]...)
	deliver(t, s, all[1:]...)
	var lines []string
	for n := 3; n >= 0; n-- {
		name := path
		if n > 0 {
			name = fmt.Sprintf("%s.%d", path, n)
		}
		if _, err := os.Stat(name); err != nil && n == 0 {
			continue // rotated, and nothing came since
		}
		part := linesOf(t, name)
		for _, line := range part {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s has %q", name, line)
			}
		}
		if st, err := os.Stat(name); err != nil || st.Size() > 5000+2000 {
			t.Errorf("%s has %d bytes (%v)", name, st.Size(), err)
		}
		lines = append(lines, part...)
	}
	if _, err := os.Stat(path + ".4"); err == nil {
		t.Error("more old files stay than are kept")
	}
	got := idsIn(lines, all)
	if want := ids(all)[len(all)-len(got):]; len(got) < 10 || !slices.Equal(got, want) {
		t.Errorf("%d records are there, and not the last of 40 in their order", len(got))
	}
}

// Whoever rotates files by another program renames them.
func TestAFileThatWasRenamedIsBegunAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "soc.jsonl")
	s, all := open(t, Config{To: "file:" + path}), records(3)
	deliver(t, s, all[0])
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, all[1])
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, all[2])
	if a, b := linesOf(t, path+".old"), linesOf(t, path); len(idsIn(a, all[:1])) != 1 || len(idsIn(b, all[2:])) != 1 || len(b) != 1 {
		t.Errorf("%q, %q", a, b)
	}
}

// A crash tears the last line; what follows must be a line of its own.
func TestATornLineIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "soc.jsonl")
	if err := os.WriteFile(path, []byte("{\"whole\":1}\n{\"torn\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, all := open(t, Config{To: "file:" + path}), records(1)
	deliver(t, s, all...)
	if lines := linesOf(t, path); len(lines) != 3 || !json.Valid([]byte(lines[2])) {
		t.Errorf("%q", lines)
	}
}

func TestAFullDiskTakesNothing(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_SOC") == "1" {
			t.Fatal("there is no /dev/full here, and this run must not do without")
		}
		t.Skip("SKIPPED: there is no /dev/full here (it is Linux'), so no full disk was tried")
	}
	s := open(t, Config{To: "file:/dev/full"})
	for range 2 {
		if n, err := s.Deliver(t.Context(), records(3)); n != 0 || err == nil {
			t.Errorf("%d are taken, %v", n, err)
		}
	}
}
