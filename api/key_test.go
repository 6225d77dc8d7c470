package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

func TestKeysOpenTheService(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Keys: []api.Key{key("shop", "correct horse"), key("app", "battery staple")}})
	for _, row := range []struct {
		name, header string
		ok           bool
	}{
		{"first", "Bearer correct horse", true},
		{"second", "Bearer battery staple", true},
		{"scheme in any case", "bearer battery staple", true},
		{"none", "", false},
		{"empty", "Bearer ", false},
		{"wrong", "Bearer correct hors", false},
		{"longer", "Bearer correct horsex", false},
		{"other scheme", "Basic Y29ycmVjdCBob3JzZQ==", false},
		{"no scheme", "correct horse", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, path := range []string{api.RouteAttempts, api.RouteOutcomes, api.RouteRevoke} {
				body := map[string]string{
					api.RouteAttempts: `{"account":"a","ip":"192.0.2.1"}`,
					api.RouteOutcomes: `{"attempt":"x","account":"a","outcome":"failure"}`,
					api.RouteRevoke:   `{"account":"a"}`,
				}[path]
				a := s.post(path, body, func(r *http.Request) {
					if row.header != "" {
						r.Header.Set("Authorization", row.header)
					}
				})
				if row.ok {
					if a.StatusCode != http.StatusOK {
						t.Errorf("%s answered %d %s", path, a.StatusCode, a.body)
					}
					continue
				}
				a.problem(t, http.StatusUnauthorized, client.ProblemUnauthorized)
				if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s: no WWW-Authenticate", path)
				}
			}
		})
	}
}

func TestWithoutAKeyTheBodyIsNotRead(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Keys: []api.Key{key("shop", "s")}})
	s.post(api.RouteAttempts, `{`).problem(t, http.StatusUnauthorized, client.ProblemUnauthorized)
}

func TestAKeyIsForItsRealmsOnly(t *testing.T) {
	asked := 0
	g := allowing()
	g.check = func(a *escalation.Attempt) (*escalation.Verdict, error) {
		asked++
		return &escalation.Verdict{Action: escalation.ActionAllow, Would: escalation.ActionAllow, Proceed: true, Attempt: "x"}, nil
	}
	var revoked string
	g.revoke = func(realm, _ string) error { revoked = realm; asked++; return nil }
	g.report = func(r *escalation.Report, may func(string) bool) (*escalation.Recorded, error) {
		if !may(r.Attempt) { // the scripted attempt's realm is its text
			return nil, escalation.ErrRealm
		}
		asked++
		return &escalation.Recorded{Recorded: true}, nil
	}
	s := start(t, api.Config{Guard: g, Keys: []api.Key{key("all", "all"), key("shop", "shop", "shop"), key("default", "default", "default", "shop")}})
	for _, row := range []struct {
		key, realm string
		ok         bool
	}{
		{"all", "shop", true}, {"all", "default", true}, {"all", "elsewhere", true},
		{"shop", "shop", true}, {"shop", "default", false}, {"shop", "SHOP", false}, {"shop", "elsewhere", false},
		{"default", "default", true}, {"default", "shop", true},
	} {
		s.key, asked = row.key, 0
		answers := []answer{
			s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1","realm":"`+row.realm+`"}`),
			s.post(api.RouteOutcomes, `{"attempt":"`+row.realm+`","account":"a","outcome":"failure"}`),
			s.post(api.RouteRevoke, `{"account":"a","realm":"`+row.realm+`"}`),
		}
		for _, a := range answers {
			if row.ok {
				if a.StatusCode != http.StatusOK {
					t.Errorf("%+v: answered %d", row, a.StatusCode)
				}
				continue
			}
			if f := a.problem(t, http.StatusForbidden, client.ProblemForbidden); !slices.Equal(f, []string{"realm: forbidden"}) {
				t.Errorf("%+v: fields %q", row, f)
			}
		}
		if want := map[bool]int{true: 3, false: 0}[row.ok]; asked != want {
			t.Errorf("%+v: the guard was asked %d times, want %d", row, asked, want)
		}
	}
	s.key = "shop" // where no realm is named, it is "default"
	s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`).problem(t, http.StatusForbidden, client.ProblemForbidden)
	s.post(api.RouteRevoke, `{"account":"a"}`).problem(t, http.StatusForbidden, client.ProblemForbidden)
	s.key = "default"
	if s.post(api.RouteRevoke, `{"account":"a"}`); revoked != escalation.DefaultRealm {
		t.Errorf("revoked in realm %q", revoked)
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	s := start(t, api.Config{Guard: allowing()})
	a := s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`, func(r *http.Request) {
		r.Header.Del("Content-Type") // fetch of an untyped Blob: no preflight
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	a.problem(t, http.StatusForbidden, client.ProblemBrowser)
}
