package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

func TestUnclearBodiesAreRefusedNamingTheField(t *testing.T) {
	s := start(t, api.Config{Guard: allowing()})
	const good = `"account":"a","ip":"192.0.2.1"`
	for _, row := range []struct{ name, path, body, want string }{
		{"nothing", api.RouteAttempts, ``, "body: syntax"},
		{"blank", api.RouteAttempts, " \n", "body: syntax"},
		{"no JSON", api.RouteAttempts, `account=a&ip=192.0.2.1`, "body: syntax"},
		{"cut short", api.RouteAttempts, `{"account":"a`, "account: syntax"},
		{"list", api.RouteAttempts, `[{` + good + `}]`, "body: wrong_type"},
		{"string", api.RouteAttempts, `"a"`, "body: wrong_type"},
		{"two values", api.RouteAttempts, `{` + good + `}{` + good + `}`, "body: syntax"},
		{"trailing garbage", api.RouteAttempts, `{` + good + `} x`, "body: syntax"},
		{"comment", api.RouteAttempts, `{` + good + `} // x`, "body: syntax"},
		{"single quotes", api.RouteAttempts, `{'account':'a'}`, "body: syntax"},
		{"byte order mark", api.RouteAttempts, "\ufeff{" + good + "}", "body: syntax"},
		{"unknown", api.RouteAttempts, `{` + good + `,"user":"x"}`, "user: unknown_field"},
		{"other case", api.RouteAttempts, `{"Account":"a","ip":"192.0.2.1"}`, "Account: unknown_field"},
		{"number", api.RouteAttempts, `{"account":1,"ip":"192.0.2.1"}`, "account: wrong_type"},
		{"object", api.RouteAttempts, `{"account":{"$ne":""},"ip":"192.0.2.1"}`, "account: wrong_type"},
		{"list of addresses", api.RouteAttempts, `{"account":"a","ip":["192.0.2.1"]}`, "ip: wrong_type"},
		{"quoted bool", api.RouteAttempts, `{` + good + `,"password_breached":"true"}`, "password_breached: wrong_type"},
		{"twice", api.RouteAttempts, `{"account":"a","account":"b","ip":"192.0.2.1"}`, "account: duplicate"},
		{"twice, escaped", api.RouteAttempts, `{"account":"a","\u0061ccount":"b","ip":"192.0.2.1"}`, "account: duplicate"},
		{"not UTF-8", api.RouteAttempts, "{\"account\":\"a\xff\",\"ip\":\"192.0.2.1\"}", "account: invalid_utf8"},
		{"UTF-8 of a surrogate", api.RouteAttempts, "{\"account\":\"\xed\xa0\x80\",\"ip\":\"192.0.2.1\"}", "account: invalid_utf8"},
		{"half a surrogate pair", api.RouteAttempts, `{"account":"\ud800","ip":"192.0.2.1"}`, "account: syntax"},
		{"raw NUL", api.RouteAttempts, "{\"account\":\"a\x00\",\"ip\":\"192.0.2.1\"}", "account: syntax"},
		{"deep nesting", api.RouteAttempts, `{"account":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`, "account: wrong_type"},
		{"bottomless nesting", api.RouteAttempts, `{"account":` + strings.Repeat("[", 60_000), "account" + strings.Repeat(".0", 28) + "....: syntax"},
		{"deep nesting of the unknown", api.RouteAttempts, `{"x":` + strings.Repeat(`{"x":`, 10_000), "x: unknown_field"},
		{"a name that is long", api.RouteAttempts, `{"` + strings.Repeat("é", 100) + `":1}`, strings.Repeat("é", 32) + "...: unknown_field"},
		{"a nameless name", api.RouteAttempts, `{"":1}`, "body: unknown_field"},
		{"outcome of a number", api.RouteOutcomes, `{"attempt":"x","account":"a","outcome":1}`, "outcome: wrong_type"},
		{"outcome unknown field", api.RouteOutcomes, `{"attempt":"x","result":"success"}`, "result: unknown_field"},
		{"revoke unknown field", api.RouteRevoke, `{"account":"a","device":"x"}`, "device: unknown_field"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.post(row.path, row.body).problem(t, http.StatusBadRequest, client.ProblemInvalid)
			if !slices.Equal(got, []string{row.want}) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestNullIsAsIfAbsent(t *testing.T) {
	var got *escalation.Attempt
	g := allowing()
	allow := g.check
	g.check = func(a *escalation.Attempt) (*escalation.Verdict, error) { got = a; return allow(a) }
	s := start(t, api.Config{Guard: g})
	s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1","realm":null,"flow":null,"device":null,"proof":null,"request_id":null,
		"challenge":null,"answer":null,"return_url":null,"user_agent":null,"channel":null,"password_breached":null,"password_tag":null}`)
	if want := (escalation.Attempt{Account: "a", IP: "192.0.2.1"}); got == nil || *got != want {
		t.Errorf("the guard was asked %+v", got)
	}
}

func TestEveryFieldReachesTheGuard(t *testing.T) {
	var attempt *escalation.Attempt
	var report *escalation.Report
	g := allowing()
	allow, book := g.check, g.report
	g.check = func(a *escalation.Attempt) (*escalation.Verdict, error) { attempt = a; return allow(a) }
	g.report = func(r *escalation.Report, may func(string) bool) (*escalation.Recorded, error) {
		report = r
		return book(r, may)
	}
	s := start(t, api.Config{Guard: g})
	s.post(api.RouteAttempts, `{"account":"1","ip":"2","realm":"3","flow":"otp","device":"5","proof":"6","request_id":"7","challenge":"8",
		"answer":"9","return_url":"10","user_agent":"11","channel":"12","password_breached":true,"password_tag":"0123456789abcdef"}`)
	if want := (escalation.Attempt{Account: "1", IP: "2", Realm: "3", Flow: "otp", Device: "5", Proof: "6", RequestID: "7", Challenge: "8",
		Answer: "9", ReturnURL: "10", UserAgent: "11", Channel: "12", PasswordBreached: true, PasswordTag: "0123456789abcdef"}); *attempt != want {
		t.Errorf("asked %+v\nwant  %+v", *attempt, want)
	}
	s.post(api.RouteOutcomes, `{"attempt":"1","account":"2","outcome":"success","device":"4","password_breached":true}`)
	if want := (escalation.Report{Attempt: "1", Account: "2", Outcome: "success", Device: "4", PasswordBreached: true}); *report != want {
		t.Errorf("reported %+v\nwant     %+v", *report, want)
	}
}

func TestContentTypes(t *testing.T) {
	s := start(t, api.Config{Guard: allowing()})
	for _, row := range []struct {
		types []string
		ok    bool
	}{
		{nil, true},
		{[]string{"application/json"}, true},
		{[]string{"Application/JSON; charset=utf-8"}, true},
		{[]string{"text/plain"}, false},
		{[]string{"application/x-www-form-urlencoded"}, false},
		{[]string{"application/problem+json"}, false},
		{[]string{""}, false},
		{[]string{"application/json", "text/plain"}, false},
	} {
		t.Run(fmt.Sprint(row.types), func(t *testing.T) {
			a := s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`, func(r *http.Request) {
				delete(r.Header, "Content-Type")
				if row.types != nil {
					r.Header["Content-Type"] = row.types
				}
			})
			if row.ok {
				read[client.AttemptResponse](t, a)
				return
			}
			a.problem(t, http.StatusUnsupportedMediaType, client.ProblemMediaType)
			if a.Header.Get("Accept") != "application/json" {
				t.Error("the answer does not say what is accepted")
			}
		})
	}
}

func TestBodiesOver64KiBAreRefused(t *testing.T) {
	s := start(t, api.Config{Guard: allowing()})
	body := func(size int) string {
		head, tail := `{"account":"a","ip":"192.0.2.1"`, `}`
		return head + strings.Repeat(" ", size-len(head)-len(tail)) + tail
	}
	read[client.AttemptResponse](t, s.post(api.RouteAttempts, body(api.MaxBody)))
	s.post(api.RouteAttempts, body(api.MaxBody+1)).problem(t, http.StatusRequestEntityTooLarge, client.ProblemTooLarge)
	a := s.post(api.RouteAttempts, body(4*api.MaxBody), func(r *http.Request) { r.ContentLength = -1 }) // chunked
	a.problem(t, http.StatusRequestEntityTooLarge, client.ProblemTooLarge)
}
