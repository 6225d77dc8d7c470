package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/guardd/guardd/api"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s may be cached", path)
	}
	return w.Code, w.Body.String()
}

func TestReadinessFollowsTheProcessAndNotTheStore(t *testing.T) {
	for _, row := range []struct {
		status string
		ok     bool
		code   int
	}{
		{"ok", true, 200}, {"degraded", true, 200}, {"starting", false, 503}, {"draining", false, 503},
	} {
		h := api.Admin(api.AdminConfig{Ready: func() (string, bool) { return row.status, row.ok }})
		if code, body := get(t, h, "/readyz"); code != row.code || body != `{"status":"`+row.status+"\"}\n" {
			t.Errorf("%+v: answered %d %s", row, code, body)
		}
		if code, body := get(t, h, "/healthz"); code != 200 || body != "{\"status\":\"ok\"}\n" {
			t.Errorf("%+v: healthz answered %d %s", row, code, body)
		}
	}
	w := httptest.NewRecorder()
	api.Admin(api.AdminConfig{Ready: func() (string, bool) { return "draining", false }}).ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/readyz", nil))
	if w.Code != 503 {
		t.Errorf("HEAD while draining: %d", w.Code)
	}
	if code, _ := get(t, api.Admin(api.AdminConfig{}), "/readyz"); code != 200 {
		t.Errorf("without Ready: %d", code)
	}
}

func TestAdminServesWhatItIsGiven(t *testing.T) {
	bare := api.Admin(api.AdminConfig{})
	full := api.Admin(api.AdminConfig{Pprof: true, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "series") })})
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine", "/debug/pprof/symbol"} {
		if code, _ := get(t, bare, path); code != 404 {
			t.Errorf("%s answered %d where it is not configured", path, code)
		}
		if code, body := get(t, full, path); code != 200 || body == "" {
			t.Errorf("%s answered %d %q", path, code, body)
		}
	}
	if code, _ := get(t, full, "/v1/attempts"); code != 404 {
		t.Errorf("the admin listener serves /v1: %d", code)
	}
}
