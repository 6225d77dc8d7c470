package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/guardd/guardd/api"
)

// Whatever is sent, the answer is a decision or a problem of the caller's,
// never ours, and always JSON.
func FuzzRequestsAreAnsweredOrRefused(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"account":"a","ip":"192.0.2.1"}`, `{"account":"\ud800"}`, "{\"account\":\"\xff\"}", `{"account":"a","account":"b"}`,
		`{"a":{"b":[{"c":1}]}}`, `{"attempt":"x","account":"a","outcome":"success"}`, `{"account":"a","ip":"::ffff:192.0.2.1%eth0"}`,
		`{"account":"a","ip":"192.0.2.1","proof":"x","challenge":"y","answer":"z","device":"d","request_id":"r"}`, `{"":1}`, `{"/~01":{}}`,
	} {
		for route := range 3 {
			f.Add(byte(route), seed, "application/json")
		}
	}
	service := api.Service(api.Config{Guard: realGuard(f)})
	f.Fuzz(func(t *testing.T, route byte, body, media string) {
		r := httptest.NewRequest(http.MethodPost, api.Routes[route%3], strings.NewReader(body))
		r.Header["Content-Type"] = []string{media}
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		if w.Code >= 500 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s answered %d %s", r.URL.Path, w.Code, w.Body)
		}
	})
}
