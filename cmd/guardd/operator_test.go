package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whoever sits at the address of a guardd must not send key and name elsewhere.
func TestAnOperatorFollowsNoRedirect(t *testing.T) {
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Method+" "+r.Header.Get("Authorization"))
	}))
	defer other.Close()
	there := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer there.Close()
	for _, args := range [][]string{{"posture"}, {"explain", "alice"}} {
		var out, errOut bytes.Buffer
		code := run(context.Background(), append(args, "--admin", there.URL), getenv(map[string]string{"GUARDD_ADMIN_KEY": "secret"}), nil, &out, &errOut)
		if code != exitFailed || !strings.Contains(errOut.String(), "answers 307, and not as guardd's admin listener does") {
			t.Errorf("%q: exit code %d, %s", args, code, errOut.String())
		}
	}
	if len(elsewhere) > 0 {
		t.Errorf("asked elsewhere: %q", elsewhere)
	}
}
