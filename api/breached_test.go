package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
)

var leaked = map[string]uint64{"password": 10_434_004, "Grüße aus Köln": 3, "пароль": 1}

// corpora are real ranges and some passwords, of both kinds.
func corpora(complete bool) breached.Chain {
	var chain breached.Chain
	for _, kind := range breached.Kinds {
		c := breachedtest.Real(kind).With(leaked)
		c.Complete = complete
		chain = append(chain, breachedtest.NewMemory(c))
	}
	return chain
}

// looks counts look-ups by kind and result.
type looks struct {
	sync.Mutex
	n map[string]int
}

func (l *looks) looked(kind breached.Kind, result string) {
	l.Lock()
	defer l.Unlock()
	if l.n == nil {
		l.n = map[string]int{}
	}
	l.n[kind.String()+" "+result]++
}

func digits(kind breached.Kind, password string) string {
	return breached.HashPassword(kind, []byte(password)).String()
}

func TestAHashIsChecked(t *testing.T) {
	var l looks
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: corpora(true), MinimumCount: 2, Looked: l.looked}})
	for _, kind := range breached.Kinds {
		for password, want := range map[string]client.BreachedVerdict{
			"password":       {Breached: true, Count: 10_434_004, Complete: true},
			"Grüße aus Köln": {Breached: true, Count: 3, Complete: true},
			"пароль":         {Breached: false, Count: 1, Complete: true}, // seen less often than the minimum
			"correct horse":  {Breached: false, Count: 0, Complete: true},
		} {
			for _, hash := range []string{digits(kind, password), strings.ToLower(digits(kind, password))} {
				a := s.post(api.RouteCheck, fmt.Sprintf(`{"%v":"%s"}`, kind, hash))
				if got := *read[client.BreachedVerdict](t, a); got != want {
					t.Errorf("%v %s: %+v", kind, password, got)
				}
				if !strings.Contains(a.body, `"breached":`) || !strings.Contains(a.body, `"count":`) || strings.Contains(a.body, "results") {
					t.Errorf("a field is left out: %s", a.body)
				}
			}
		}
	}
	if want := map[string]int{"sha1 breached": 4, "sha1 not_breached": 4, "ntlm breached": 4, "ntlm not_breached": 4}; !reflect.DeepEqual(l.n, want) {
		t.Errorf("counted %v", l.n)
	}
}

func TestAListIsCheckedInItsOrder(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: corpora(true)}})
	for _, kind := range breached.Kinds {
		var list []string
		var want []client.BreachedVerdict
		for i := range 1000 {
			password := []string{"password", "correct horse", "пароль"}[i%3]
			list = append(list, digits(kind, password))
			want = append(want, client.BreachedVerdict{Breached: i%3 != 1, Count: leaked[password], Complete: true})
		}
		body, _ := json.Marshal(map[string]any{kind.String(): list})
		got := read[struct {
			Results []client.BreachedVerdict `json:"results"`
		}](t, s.post(api.RouteCheck, string(body)))
		if !slices.Equal(got.Results, want) {
			t.Errorf("%v: %d results, first %+v", kind, len(got.Results), got.Results[:3])
		}
		one := s.post(api.RouteCheck, fmt.Sprintf(`{"%v":["%s"]}`, kind, list[0]))
		if strings.TrimSpace(one.body) != `{"results":[{"breached":true,"count":10434004,"complete":true}]}` {
			t.Errorf("a list of one: %s", one.body)
		}
	}
}

func TestAPartOfACorpusSaysSo(t *testing.T) {
	var l looks
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: corpora(false), Looked: l.looked}})
	for password, want := range map[string]client.BreachedVerdict{"password": {Breached: true, Count: 10_434_004}, "correct horse": {}} {
		if got := *read[client.BreachedVerdict](t, s.post(api.RouteCheck, `{"sha1":"`+digits(breached.SHA1, password)+`"}`)); got != want {
			t.Errorf("%s: %+v", password, got)
		}
	}
	if want := map[string]int{"sha1 breached": 1, "sha1 not_in_part": 1}; !reflect.DeepEqual(l.n, want) {
		t.Errorf("counted %v", l.n)
	}
}

func TestChecksThatCannotBeUnderstood(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: corpora(true)}})
	sha1, ntlm := digits(breached.SHA1, "password"), digits(breached.NTLM, "password")
	many, _ := json.Marshal(map[string]any{"sha1": slices.Repeat([]string{sha1}, 1001)})
	for body, want := range map[string]string{
		`{}`:                                         "sha1: missing",
		`{"sha1":null}`:                              "sha1: missing",
		`{"sha1":""}`:                                "sha1: empty",
		`{"sha1":[]}`:                                "sha1: empty",
		`{"sha1":"` + ntlm + `"}`:                    "sha1: too_short",
		`{"ntlm":"` + sha1 + `"}`:                    "ntlm: too_long",
		`{"ntlm":"` + ntlm[1:] + `G"}`:               "ntlm: not_hex",
		`{"sha1":["` + sha1 + `","x"]}`:              "sha1.1: too_short",
		`{"sha1":["` + sha1 + `",7]}`:                "sha1.1: wrong_type",
		`{"sha1":7}`:                                 "sha1: wrong_type",
		`{"sha1":{"a":1}}`:                           "sha1: wrong_type",
		`{"sha1":"x","ntlm":"x"}`:                    "ntlm: not_with_sha1",
		`{"password":"hunter2"}`:                     "password: unknown_field",
		`{"sha1":"` + sha1 + `","sha1":"x"}`:         "sha1: duplicate",
		string(many):                                 "sha1: too_many",
		`{"sha1":["` + sha1 + `",["` + sha1 + `"]]}`: "sha1.1: wrong_type",
	} {
		a := s.post(api.RouteCheck, body)
		if got := a.problem(t, http.StatusBadRequest, client.ProblemInvalid); !slices.Equal(got, []string{want}) {
			t.Errorf("%.60s: %q, want %s", body, got, want)
		}
		if strings.Contains(strings.ToUpper(a.body), sha1[:8]) {
			t.Errorf("the answer repeats the hash: %s", a.body)
		}
	}
}

// lost is a corpus that cannot be read any more.
type lost struct{}

var errLost = errors.New("the file was cut")

func (lost) Check(context.Context, breached.Hash) (breached.Verdict, error) {
	return breached.Verdict{}, errLost
}

func (lost) Range(context.Context, breached.Kind, string) (*breached.Range, error) {
	return nil, errLost
}

func TestWhatIsUnknownIsNeitherSafeNorBreached(t *testing.T) {
	var l looks
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: lost{}, Looked: l.looked}})
	one, list := `{"sha1":"`+digits(breached.SHA1, "password")+`"}`, `{"sha1":["`+digits(breached.SHA1, "password")+`"]}`
	for _, a := range []answer{s.post(api.RouteCheck, one), s.post(api.RouteCheck, list), s.rangeAt("/v1/breached/range/00000")} {
		a.problem(t, http.StatusServiceUnavailable, client.ProblemCorpus)
		if a.Header.Get("Retry-After") == "" || strings.Contains(a.body, "results") {
			t.Errorf("%v %s", a.Header, a.body)
		}
	}
	if !strings.Contains(s.log.String(), "the file was cut") {
		t.Error("the operator is not told why")
	}
	if want := map[string]int{"sha1 unknown": 3}; !reflect.DeepEqual(l.n, want) {
		t.Errorf("counted %v", l.n)
	}
}

func TestWithoutACorpusNothingIsSaid(t *testing.T) {
	for name, source := range map[string]breached.Source{"none": nil, "of the other kind": corpora(true)[1:]} {
		var l looks
		s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: source, Looked: l.looked}})
		s.post(api.RouteCheck, `{"sha1":"`+digits(breached.SHA1, "password")+`"}`).problem(t, http.StatusNotFound, client.ProblemNoCorpus)
		s.rangeAt("/v1/breached/range/00000").problem(t, http.StatusNotFound, client.ProblemNoCorpus)
		if l.n["sha1 no_corpus"] != 2 {
			t.Errorf("%s: counted %v", name, l.n)
		}
	}
}

// TestHashesAreNeverLogged: a hash in a log is a password to whoever has a
// list, and a prefix beside an account is one to whoever has the corpus.
func TestHashesAreNeverLogged(t *testing.T) {
	h := breached.HashPassword(breached.SHA1, []byte("password"))
	for name, source := range map[string]breached.Source{"there": corpora(true), "lost": lost{}, "none": nil} {
		s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: source, Public: true}})
		var all strings.Builder
		say := func(a answer) {
			fmt.Fprintln(&all, a.Header)
			if a.StatusCode != http.StatusOK {
				all.WriteString(a.body)
			}
		}
		for _, path := range []string{"/v1/breached/range/" + h.Prefix(), "/range/" + h.Prefix(), "/range/" + strings.ToLower(h.Prefix()) + "?mode=ntlm",
			"/range/" + h.String(), "/range/" + h.Prefix() + "/x", "/" + h.Prefix()} {
			say(s.rangeAt(path))
		}
		for _, body := range []string{`{"sha1":"` + h.String() + `"}`, `{"sha1":["` + h.String() + `","x"]}`, `{"ntlm":"` + h.String() + `"}`,
			`{"sha1":"` + h.String(), `{"sha1":{"` + h.String() + `":1}}`, `{"sha1":"` + h.String() + `","sha1":"` + h.String() + `"}`} {
			say(s.post(api.RouteCheck, body))
		}
		all.WriteString(s.log.String())
		if text := strings.ToUpper(all.String()); strings.Contains(text, h.Prefix()) || strings.Contains(text, h.Suffix()[:6]) {
			t.Errorf("%s: a hash is told of:\n%s", name, all.String())
		}
		if !strings.Contains(s.log.String(), "answered") {
			t.Error("nothing was logged at all: the test is blind")
		}
	}
}

func TestChecksAndRangesNeedAKey(t *testing.T) {
	s := start(t, api.Config{Guard: allowing(), Keys: []api.Key{key("shop", "s", "shop")}, Breached: api.BreachedConfig{Source: corpora(true)}})
	check := `{"sha1":"` + digits(breached.SHA1, "password") + `"}`
	s.post(api.RouteCheck, check).problem(t, http.StatusUnauthorized, client.ProblemUnauthorized)
	s.rangeAt("/v1/breached/range/00000").problem(t, http.StatusUnauthorized, client.ProblemUnauthorized)
	if a := s.rangeAt("/range/00000"); a.StatusCode != http.StatusNotFound {
		t.Errorf("the public path answers %d though nobody asked for it", a.StatusCode)
	}
	s.key = "s"
	read[client.BreachedVerdict](t, s.post(api.RouteCheck, check))
	if a := s.rangeAt("/v1/breached/range/00000"); a.StatusCode != http.StatusOK {
		t.Errorf("with a key: %d", a.StatusCode)
	}
}
