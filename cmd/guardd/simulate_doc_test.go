package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryScenarioIsExplained: names like canary cannot be guessed.
func TestEveryScenarioIsExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/simulate/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := scenarioNames()
	for _, name := range names {
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("docs/simulate/README.md does not say what %s is", name)
		}
	}
	if n := strings.Count(string(text), "\n| `"); n != len(names) {
		t.Errorf("docs/simulate/README.md explains %d scenarios, there are %d", n, len(names))
	}
}
