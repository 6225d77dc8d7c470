package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

func TestEveryFaultOfTheGuardHasItsProblem(t *testing.T) {
	for _, row := range []struct {
		err    error
		status int
		word   string
		fields []string
	}{
		{escalation.Faults{{Field: "account", Reason: "empty"}, {Field: "ip", Reason: "list"}}, 400, client.ProblemInvalid, []string{"account: empty", "ip: list"}},
		{escalation.Faults{{Field: "realm", Reason: "unknown"}}, 400, client.ProblemInvalid, []string{"realm: unknown"}},
		{escalation.ErrConflict, 409, client.ProblemConflict, []string{"request_id: conflict"}},
		{escalation.ErrRealm, 403, client.ProblemForbidden, []string{"realm: forbidden"}},
		{fmt.Errorf("%w: dial tcp: refused", escalation.ErrStore), 503, client.ProblemStore, nil},
		{errors.New("alice@example.com is broken"), 500, client.ProblemInternal, nil},
	} {
		s := start(t, api.Config{Guard: failing(row.err)})
		answers := []answer{s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`)}
		if row.status != http.StatusConflict { // only attempts have a request id
			answers = append(answers,
				s.post(api.RouteOutcomes, `{"attempt":"x","account":"a","outcome":"failure"}`),
				s.post(api.RouteRevoke, `{"account":"a"}`))
		}
		for _, a := range answers {
			if got := a.problem(t, row.status, row.word); !slices.Equal(got, row.fields) {
				t.Errorf("%v: fields %q, want %q", row.err, got, row.fields)
			}
			if (a.Header.Get("Retry-After") != "") != (row.status == 503) {
				t.Errorf("%v: Retry-After %q", row.err, a.Header.Get("Retry-After"))
			}
			if strings.Contains(a.body, "alice") || strings.Contains(a.body, "dial") {
				t.Errorf("the inner error is shown: %s", a.body)
			}
		}
	}
}

func TestPathsAndMethodsThatAreNotServed(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Keys: []api.Key{key("shop", "s")}})
	for _, row := range []struct {
		method, path string
		status       int
		allow        []string
	}{
		{"GET", "/", 404, nil},
		{"POST", "/v1", 404, nil},
		{"POST", "/v1/attempts/", 404, nil},
		{"POST", "/v1//attempts", 404, nil},
		{"POST", "/v1/devices", 404, nil},
		{"GET", "/v1/attempts/alice@example.com", 404, nil},
		{"GET", "/v1/%zz%00", 404, nil},
		{"GET", "/v1/attempts", 405, []string{"POST"}},
		{"PUT", "/v1/outcomes", 405, []string{"POST"}},
		{"OPTIONS", "/v1/attempts", 405, []string{"POST"}},
		{"BREW", "/v1/devices/revoke", 405, []string{"POST"}},
		{"POST", "/v1/openapi.yaml", 405, []string{"GET", "HEAD"}},
	} {
		r, err := http.NewRequest(row.method, s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Path, _ = strings.CutSuffix(strings.ReplaceAll(row.path, "%00", "\x00"), "?")
		a := s.send(r, "")
		word := client.ProblemNotFound
		if row.status == 405 {
			word = client.ProblemMethod
		}
		if f := a.problem(t, row.status, word); f != nil {
			t.Errorf("%s %s: fields %q", row.method, row.path, f)
		}
		if got := a.Header.Values("Allow"); !slices.Equal(got, row.allow) {
			t.Errorf("%s %s: Allow %q, want %q", row.method, row.path, got, row.allow)
		}
	}
}

func TestEveryProblemIsExplained(t *testing.T) {
	page, err := os.ReadFile("problems.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)\n\n(\d+)\. `).FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, m[1])
	}
	source, err := os.ReadFile("client/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^\tProblem\w+ += "([a-z-]+)" +// \d+`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, m[1])
	}
	if len(declared) < 12 || !slices.Equal(explained, declared) {
		t.Errorf("problems.md explains %q\nclient declares     %q", explained, declared)
	}
}

func TestEveryReasonIsExplained(t *testing.T) {
	page, err := os.ReadFile("problems.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`(?:faults\.[aA]dd|bad\.add)\((?:"\w+"|fmt\.Sprintf\([^)]*\)), "(\w+)"\)|Faults\{\{(?:"\w+"|fmt\.Sprintf\([^)]*\)), "(\w+)"\}\}|Reason: +"(\w+)"|reason\w+ += "(\w+)"|Fault\w+ +Fault = "(\w+)"`)
	reasons := 0
	for _, folder := range []string{".", "client", "../escalation", "../escalation/operate", "../keys", "../keys/plans"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range said.FindAllStringSubmatch(string(source), -1) {
				reasons++
				if word := strings.Join(m[1:], ""); !strings.Contains(string(page), "`"+word+"`") {
					t.Errorf("%s: reason %s is not explained", file, word)
				}
			}
		}
	}
	if reasons < 20 {
		t.Errorf("only %d reasons found", reasons)
	}
}
