package keystest

import (
	"os"
	"strconv"
	"testing"
)

// soak is how many times the usual seeds a walk takes: GUARDD_SOAK, which
// `make soak` sets, or 1.
func soak(t *testing.T) int {
	text := os.Getenv("GUARDD_SOAK")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GUARDD_SOAK=%s is not a whole number above 0", text)
	}
	return n
}
