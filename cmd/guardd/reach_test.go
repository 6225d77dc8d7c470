package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/delivery"
)

// The log is a developer's mailbox: what tells codes apart there is none of what
// logs hide.
func TestALoggedCodeSaysWhoseItIs(t *testing.T) {
	var out bytes.Buffer
	c := delivery.Config{Realm: "default", Log: newLogger(&out, logConfig{Format: "json"})}
	c.Driver = delivery.DriverLog
	d, err := delivery.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m := &escalation.Message{Kind: escalation.MessageCode, Account: "alice", AccountHash: "h4sh", Realm: "default", Code: "ABCDE12345", Hint: "0123456789abcdef"}
	if err := d.Deliver(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{m.Code, m.AccountHash, m.Hint} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
}

// A mail server that refuses every code, or a third party that knows our key no
// more, is found out by its operator and not by the visitors whom it keeps out.
func TestWhatReachesNobodyIsLoggedAndCounted(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hook" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"success":false,"error-codes":["invalid-input-secret"]}`)
	}))
	defer refuses.Close()
	secret := writeFile(t, "third", longLine)
	p := startGuardd(t, "--policy", writeFile(t, "policy.yaml", `realms:
  default:
    delivery: {driver: webhook, url: "`+refuses.URL+`/hook", secret_file: `+secret+`, allow_networks: [127.0.0.0/8]}
    providers: [{name: turnstile, site_key: site, secret_file: `+secret+`, hosts: [example.com], url: "`+refuses.URL+`/siteverify"}]
    flows:
      login:
        limits: [{tier: account, name: burst, capacity: 2, refill: 1/1000h, delay: never, captcha: 99%, verify: empty}]
`))
	p.attempt(t, "alice", "192.0.2.1")
	token := p.attempt(t, "alice", "192.0.2.1").Challenge.Token
	challenge := func(what string, body map[string]string) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(p.challenges+"/"+token+"/"+what, "application/json", strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	challenge("answer", map[string]string{"way": "turnstile", "answer": "given"})
	challenge("send", nil)
	for _, said := range []string{"a third party refuses our own keys", "a message reached nobody"} {
		line, err := p.awaitLog(said)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "alice") {
			t.Errorf("a name is in the log: %s", line)
		}
	}
	_, text := get(t, p.admin+"/metrics")
	for _, series := range []string{
		`guardd_messages_total{kind="code",realm="default",result="failed"} 1`,
		`guardd_messages_total{kind="code",realm="default",result="delivered"} 0`,
		`guardd_provider_answers_total{provider="turnstile",result="misconfigured"} 1`,
	} {
		if !strings.Contains(text, series+"\n") {
			t.Errorf("%s is not exported", series)
		}
	}
}
