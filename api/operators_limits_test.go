package api_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// What a refused caller got, an operator is shown: every answer is held against
// openapi.yaml too.
func TestOperatorsAreShownWhyPlanLimitsRefused(t *testing.T) {
	now := 1_800_000_000 * keys.Second
	clock := func() int64 { return now }
	e := plans.NewEvidence(plans.EvidenceConfig{Trail: keys.NewMemoryTrail(1<<20, clock), Now: clock})
	taker := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{Now: clock}), Evidence: e, Now: clock,
		Hash: func(d plans.Digest) keys.Account { return keys.Account(d[:16]) }})
	book, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{{Name: "hour", Capacity: 5, Refill: "5/1h"}},
		Plans: []plans.Plan{{Name: "free", Rules: []string{"hour"}}},
		Keys:  []plans.Key{{SHA256: sha256.Sum256([]byte("secret")), Name: "acme", Plan: "free"}}}, "3", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	taker.Swap(book)
	for range 7 {
		if _, err := taker.Take(t.Context(), &plans.Request{Key: "secret", Route: "GET /", Cost: 1}); err != nil {
			t.Fatal(err)
		}
		now += keys.Second / 2
	}
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, Limits: taker, Loopback: true})
	for _, body := range []string{`{"key":"secret"}`, `{"name":"acme","since":"6h"}`, fmt.Sprintf(`{"sha256":"%x"}`, sha256.Sum256([]byte("secret")))} {
		a := read[plans.Explanation](t, s.do("POST", api.RouteLimitsExplain, body))
		if a.Name != "acme" || a.Asked != 7 || a.Allowed != 5 || a.Refused != 2 || len(a.Refusals) != 2 || len(a.Seconds) != 4 || !a.Complete {
			t.Errorf("%s: %+v", body, a)
		}
		if x := a.Refusals[1]; x.Rule != "hour" || x.Limits[0].Capacity != 5 || x.Version != "3" || x.RetryAfterMS != 720_000-3000 {
			t.Errorf("%s: %+v", body, x)
		}
	}
	for body, field := range map[string]string{
		`{}`: "key: missing", `{"key":"a","name":"b"}`: "name: one_of_key_sha256_name", `{"sha256":"x"}`: "sha256: not_hex",
		`{"name":"nobody"}`: "name: unknown", `{"key":"a","since":"1d"}`: "since: not_duration", `{"key":"a","since":"7h"}`: "since: out_of_range",
	} {
		if got := s.do("POST", api.RouteLimitsExplain, body).problem(t, 400, client.ProblemInvalid); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: %q, want %s", body, got, field)
		}
	}
}
