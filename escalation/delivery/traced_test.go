package delivery

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/guardd/guardd/keys/trace"
)

// TestAWebhookIsOfTheTraceThatLedToIt, and says nothing where there is none.
func TestAWebhookIsOfTheTraceThatLedToIt(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer srv.Close()
	w, _ := newHook(t, srv, nil)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for state, want := range map[string]string{"vendor=1": "vendor=1", "": ""} {
		c, _ := trace.Parse([]string{parent}, []string{state})
		if err := w.Deliver(trace.With(t.Context(), (*trace.Tracer)(nil).Ask(c)), notice("alice")); err != nil {
			t.Fatal(err)
		}
		if got.Get("traceparent") != parent || got.Get("tracestate") != want {
			t.Errorf("%v", got)
		}
	}
	if err := w.Deliver(t.Context(), notice("alice")); err != nil || got.Get("traceparent") != "" || got.Get("tracestate") != "" {
		t.Errorf("%v %v", got, err)
	}
}
