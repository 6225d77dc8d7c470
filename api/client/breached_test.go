package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// leaks is a guardd with these leaked passwords, that keeps what it is asked.
func leaks(t *testing.T, passwords map[string]uint64) (url string, asked *[]string) {
	c := breachedtest.Real(breached.SHA1).With(passwords)
	h := api.Service(api.Config{Breached: api.BreachedConfig{Source: breachedtest.NewMemory(c)}, Keys: []api.Key{}})
	asked = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, r.Method+" "+r.URL.String()+" "+string(body)+" "+r.Header.Get("Add-Padding"))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestAPasswordIsLookedUpByItsRangeAlone(t *testing.T) {
	passwords := map[string]uint64{"password": 10_434_004, "Grüße aus Köln": 3, "пароль\n": 1}
	at, asked := leaks(t, passwords)
	c := open(t, client.Config{URL: at, MinimumCount: 3})
	for password, count := range passwords {
		leak, err := c.Breached(t.Context(), password)
		if err != nil || *leak != (client.Leak{Breached: count >= 3, Count: count}) {
			t.Errorf("%q: %+v, %v", password, leak, err)
		}
		h := breached.HashPassword(breached.SHA1, []byte(password))
		last := (*asked)[len(*asked)-1]
		if last != "GET /v1/breached/range/"+h.Prefix()+"  true" {
			t.Errorf("asked %s", last)
		}
	}
	// Beside a leaked one, in its range.
	body := []byte(breachedtest.RealBody(breached.SHA1, "00000"))
	near := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }))
	defer near.Close()
	if leak, err := open(t, client.Config{URL: near.URL}).Breached(t.Context(), "correct horse"); err != nil || *leak != (client.Leak{}) {
		t.Errorf("%+v, %v", leak, err)
	}
}

func TestWhatIsNotKnownIsSaidToBe(t *testing.T) {
	at, _ := leaks(t, nil)
	h := breached.HashPassword(breached.SHA1, []byte("password"))
	for name, row := range map[string]struct {
		url     string
		problem string
	}{
		"no such range":   {at, client.ProblemNoRange},
		"no corpus":       {answering(t, 404, "application/problem+json", `{"type":"`+client.ProblemBase+client.ProblemNoCorpus+`"}`), client.ProblemNoCorpus},
		"no guardd":       {"http://127.0.0.1:1", ""},
		"a page":          {answering(t, 200, "text/html", "<html>"), ""},
		"nothing":         {answering(t, 200, "text/plain", ""), ""},
		"an older guardd": {answering(t, 404, "text/plain", "404 page not found"), "about:blank"},
		"padding of that": {answering(t, 200, "text/plain", h.Suffix()+":0\r\n"+h.Suffix()+":1\r\n"+h.Suffix()+":2"), ""},
		"one that breaks": {answering(t, 200, "text/plain", h.Suffix()+":1\r\n0000"), ""},
	} {
		leak, err := open(t, client.Config{URL: row.url}).Breached(t.Context(), "password")
		if err == nil || *leak != (client.Leak{Unknown: true}) {
			t.Errorf("%s: %+v, %v", name, leak, err)
			continue
		}
		if strings.Contains(err.Error(), h.Prefix()) || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: the error tells of the password: %v", name, err)
		}
		var p *client.Problem
		if errors.As(err, &p) != (row.problem != "") || p != nil && !strings.HasSuffix(p.Type, row.problem) {
			t.Errorf("%s: %v is not a problem of kind %q", name, err, row.problem)
		}
	}
}

// TestALeakedPasswordIsVerifiedByThePageAndBack goes the way of the example's
// handler: signed in by nobody until the code is confirmed.
func TestALeakedPasswordIsVerifiedByThePageAndBack(t *testing.T) {
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	policy := &escalation.Policy{Realms: map[string]*escalation.Realm{"default": {
		Delivery: escalation.Delivery{Driver: "log"}, ReturnOrigins: []string{"https://shop.example"}, Breached: escalation.Breached{Verify: &yes}}}}
	twin := keys.NewMemory(keys.MemoryConfig{})
	g, err := escalation.New(escalation.Config{Store: twin, Records: twin, Policy: policy, Secrets: secrets, PublicURL: "https://guardd.example"})
	if err != nil {
		t.Fatal(err)
	}
	c := breachedtest.Real(breached.SHA1).With(map[string]uint64{"correct horse": 2})
	guardd := httptest.NewServer(api.Service(api.Config{Guard: g, Breached: api.BreachedConfig{Source: breachedtest.NewMemory(c)}}))
	defer guardd.Close()
	if guard, err = client.New(client.Config{URL: guardd.URL, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	fields := url.Values{"account": {"alice"}, "password": {"correct horse"}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	may, err := guard.Attempt(t.Context(), client.AttemptRequest{Account: "alice", IP: "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	checked(w, r, may, "alice")
	_, token, ok := strings.Cut(w.Header().Get("Location"), "https://guardd.example/challenges/")
	if w.Code != http.StatusSeeOther || !ok || w.Header().Get("Set-Cookie") != "" || w.Body.Len() > 200 {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	view, err := g.View(context.Background(), token)
	if err != nil || view.ReturnURL != "https://shop.example/verified" {
		t.Fatalf("%+v, %v", view, err)
	}
	proof, err := g.Solve(context.Background(), token, keys.Verify)
	if err != nil {
		t.Fatal(err)
	}
	back := httptest.NewRequest(http.MethodGet, view.ReturnURL+"?"+url.Values{client.ReturnParameter: {proof}}.Encode(), nil)
	w = httptest.NewRecorder()
	verified(w, back)
	if strings.TrimSpace(w.Body.String()) != client.OutcomeSuccess || !strings.HasPrefix(w.Header().Get("Set-Cookie"), client.DeviceCookie+"=") || !session(back).mustReset {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}
