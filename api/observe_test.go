package api_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

func TestTheObserverIsToldOncePerRequestInAClosedSet(t *testing.T) {
	o := new(told)
	s := start(t, api.Config{Guard: allowing(), Observer: o})
	s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`)
	s.post(api.RouteAttempts, `{`)
	s.post(api.RouteOutcomes, `{"attempt":"x","account":"a","outcome":"failure"}`)
	s.post(api.RouteRevoke, `{"account":"a"}`)
	s.post("/v1/alice@example.com", `{}`)
	r, _ := http.NewRequest("BREW", s.url+api.RouteAttempts, nil)
	s.send(r, "")
	want := []string{api.RouteAttempts, api.RouteAttempts, api.RouteOutcomes, api.RouteRevoke, api.RouteOther, api.RouteOther}
	if !slices.Equal(o.answered, want) || !slices.Equal(o.statuses, []int{200, 400, 200, 200, 404, 405}) {
		t.Errorf("told %q %d", o.answered, o.statuses)
	}
	if len(o.verdicts) != 1 || len(o.outcomes) != 1 {
		t.Errorf("told %d verdicts and %d outcomes", len(o.verdicts), len(o.outcomes))
	}
}

// Whatever happens, neither an account's name nor a token is written where
// others read: in the log, or in an error document.
func TestNamesAndTokensAppearInNoLogAndNoErrorDocument(t *testing.T) {
	secrets := []string{"s3cret-name", "s3cret-token", "s3cret-key", "s3cret-path"}
	panicking := allowing()
	panicking.check = func(a *escalation.Attempt) (*escalation.Verdict, error) { panic("lost " + a.Account) }
	attempt := `{"account":"s3cret-name","ip":"192.0.2.1","device":"s3cret-token","proof":"s3cret-token"}`
	outcome := `{"attempt":"s3cret-token","account":"s3cret-name","outcome":"failure"}`
	for name, g := range map[string]api.Guard{
		"answering": allowing(), "panicking": panicking, "no store": failing(escalation.ErrStore), "no realm": failing(escalation.ErrRealm),
		"faults": failing(escalation.Faults{{Field: "attempt", Reason: "invalid"}}), "conflict": failing(escalation.ErrConflict), "broken": failing(errors.New("broken")),
	} {
		s := start(t, api.Config{Guard: g, Keys: []api.Key{key("shop", "s3cret-key")}})
		var documents strings.Builder
		for _, k := range []string{"s3cret-key", "s3cret-key-wrong"} {
			s.key = k
			for _, a := range []answer{
				s.post(api.RouteAttempts, attempt),
				s.post(api.RouteAttempts, attempt[:len(attempt)-2]),
				s.post(api.RouteAttempts, strings.Replace(attempt, "device", "unknown", 1)),
				s.post(api.RouteAttempts, attempt+attempt),
				s.post("/v1/s3cret-path?account=s3cret-name", attempt),
			} {
				documents.WriteString(a.body)
			}
			if name != "conflict" {
				documents.WriteString(s.post(api.RouteOutcomes, outcome).body)
			}
		}
		if !strings.Contains(s.log.String(), api.RouteAttempts) {
			t.Fatalf("%s: nothing is logged: %s", name, s.log)
		}
		for _, secret := range secrets {
			if strings.Contains(s.log.String(), secret) {
				t.Errorf("%s: the log holds %s:\n%s", name, secret, s.log)
			}
			if strings.Contains(documents.String(), secret) {
				t.Errorf("%s: a document holds %s:\n%s", name, secret, &documents)
			}
		}
	}
}

func TestAPanicIsA500AndTheServiceGoesOn(t *testing.T) {
	o := new(told)
	g := allowing()
	allow := g.check
	g.check = func(a *escalation.Attempt) (*escalation.Verdict, error) {
		if a.Account == "zero" {
			return &escalation.Verdict{Tiers: make([]escalation.TierLevel, len(a.Device))[:1:1]}, nil
		}
		return allow(a)
	}
	s := start(t, api.Config{Guard: g, Observer: o})
	a := s.post(api.RouteAttempts, `{"account":"zero","ip":"192.0.2.1"}`)
	a.problem(t, http.StatusInternalServerError, client.ProblemInternal)
	if strings.Contains(a.body, "slice") || !strings.Contains(s.log.String(), "slice bounds out of range") || !strings.Contains(s.log.String(), "observe_test.go") {
		t.Errorf("answered %s\nlogged %s", a.body, s.log)
	}
	if !slices.Equal(o.statuses, []int{500}) {
		t.Errorf("told %d", o.statuses)
	}
	read[client.AttemptResponse](t, s.post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`))
}

func TestFaultsOfOursAreLoggedAndTheCallersAreNot(t *testing.T) {
	s := start(t, api.Config{Guard: failing(escalation.ErrStore)})
	s.post(api.RouteRevoke, `{"account":"a"}`)
	if !strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("logged %s", s.log)
	}
	s = start(t, api.Config{Guard: failing(escalation.Faults{{Field: "ip", Reason: "list"}})})
	s.post(api.RouteAttempts, `{"account":"a","ip":"1,2"}`)
	if strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("logged %s", s.log)
	}
}
