package api_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
)

func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestEveryRouteIsDocumentedAndEveryDocumentedRouteServed(t *testing.T) {
	var served, documented []string
	walk := func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if route == "/healthz" || route == "/readyz" { // for balancers: a status and no more
			return nil
		}
		served = append(served, method+" "+route)
		if !slices.Contains(api.Routes, route) {
			t.Errorf("%s is not in Routes, so metrics would call it other", route)
		}
		return nil
	}
	for _, h := range []http.Handler{api.Service(api.Config{Guard: allowing(), Breached: api.BreachedConfig{Public: true}}), api.Challenges(api.Config{Challenger: &stand{}}),
		api.Admin(api.AdminConfig{Operators: &api.OperatorsConfig{Desk: newDesk(t).Desk}})} {
		if err := chi.Walk(h.(chi.Routes), walk); err != nil {
			t.Fatal(err)
		}
	}
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served     %q\ndocumented %q", served, documented)
	}
}

func TestTheDocumentIsServedWithoutAKey(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Keys: []api.Key{key("shop", "s")}})
	want, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodGet, s.url+api.RouteOpenAPI, nil)
	if a := s.send(r, ""); a.StatusCode != http.StatusOK || a.body != string(want) || a.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("answered %d %s, %d bytes", a.StatusCode, a.Header.Get("Content-Type"), len(a.body))
	}
	r, _ = http.NewRequest(http.MethodHead, s.url+api.RouteOpenAPI, nil)
	if a := s.send(r, ""); a.StatusCode != http.StatusOK || a.body != "" {
		t.Errorf("HEAD answered %d with %d bytes", a.StatusCode, len(a.body))
	}
}

// The words that the document enumerates are the code's.
func TestTheDocumentsWordsAreTheCodes(t *testing.T) {
	schemas := document(t).Components.Schemas
	words := func(schema, property string) []string {
		p := schemas[schema].Value
		if property != "" {
			p = p.Properties[property].Value
		}
		if p.Items != nil {
			p = p.Items.Value
		}
		var s []string
		for _, w := range p.Enum {
			s = append(s, w.(string))
		}
		return s
	}
	dependency := func(property string) (s []string) {
		for _, w := range schemas["Status"].Value.Properties["dependencies"].Value.Items.Value.Properties[property].Value.Enum {
			s = append(s, w.(string))
		}
		return s
	}
	for _, row := range []struct {
		name      string
		got, want []string
	}{
		{"Action", words("Action", ""), texts(actions)},
		{"proof_error", words("AttemptResponse", "proof_error"), texts(proofErrors)},
		{"posture", words("AttemptResponse", "posture"), texts(postures)},
		{"rung", words("TierLevel", "rung"), texts(rungs)},
		{"outcome", words("OutcomeRequest", "outcome"), outcomes},
		{"advice", words("OutcomeResponse", "advice"), escalation.Advices},
		{"a dependency's name", dependency("name"), api.Dependencies},
		{"a dependency's state", dependency("state"), api.DependencyStates},
		{"an outcome's proof_error", words("OutcomeResponse", "proof_error"), texts(proofErrors)},
	} {
		if !slices.Equal(row.got, row.want) {
			t.Errorf("%s: documented %q, in code %q", row.name, row.got, row.want)
		}
	}
}
