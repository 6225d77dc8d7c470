package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// "create keys --plan free" was answered "--plan: not of a keys", which sent people to the wrong word.
func TestAKindThatIsNoneIsNamedBeforeItsFlags(t *testing.T) {
	var out, errOut strings.Builder
	args := []string{"create", "keys", "--plan", "free", "--reason", "x", "--limits-db", filepath.Join(t.TempDir(), "limits.db")}
	code := limitsCommand(t.Context(), args, func(string) (string, bool) { return "", false }, strings.NewReader(""), &out, &errOut)
	if want := `there are rule, plan and key, not "keys"`; code != exitUsage || !strings.Contains(errOut.String(), want) {
		t.Errorf("exit code %d, %q; want %d and %q", code, errOut.String(), exitUsage, want)
	}
}
