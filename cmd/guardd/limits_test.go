package main

import (
	"os"
	"strings"
	"testing"

	"github.com/guardd/guardd/api/client"
)

const tenAnHour = `rules: [{name: ten_hour, capacity: 10, refill: "10/1h"}]
`

// A process serves the limits of a file, and takes over what the file says later;
// a file with a fault changes nothing.
func TestPlanLimitsOfAFile(t *testing.T) {
	file := writeFile(t, "limits.yaml", tenAnHour)
	p := startGuardd(t, "--limits", file)
	take := func(body string) (a client.TakeResponse) {
		if status := p.post(t, "/v1/limits/take", body, &a); status != 200 {
			t.Fatalf("%s: %d", body, status)
		}
		return a
	}
	for n := range int64(12) {
		a := take(`{"key":"caller","rule":"ten_hour"}`)
		if a.Allowed != (n < 10) || a.Remaining != max(9-n, 0) || a.Limit != 10 || (a.RetryAfterMS > 0) != (n >= 10) || a.Headers["RateLimit-Policy"] != `"ten_hour";q=10;w=3600` {
			t.Errorf("take %d: %+v", n+1, a)
		}
	}
	if status := p.post(t, "/v1/limits/take", `{"key":"caller","rule":"none"}`, nil); status != 404 {
		t.Errorf("an unknown rule: %d", status)
	}
	if status := p.post(t, "/v1/limits/take", `{"key":"caller","rule":"ten_hour","cost":11}`, nil); status != 422 {
		t.Errorf("a cost above capacity: %d", status)
	}
	a := take(`{"key":"other","rule":"ten_hour","cost":6,"reserve":true}`)
	var s client.SettleResponse
	if status := p.post(t, "/v1/limits/settle", `{"reservation":"`+a.Reservation+`","cost":1}`, &s); status != 200 || !s.Settled || s.Remaining != 9 {
		t.Errorf("settled: %d %+v", status, s)
	}
	reload := func(text, says string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.hup(t)
		if _, err := p.awaitLog(says); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(tenAnHour, "10/1h", "10", 1), "rules[0].refill")
	if a := take(`{"key":"third","rule":"ten_hour"}`); a.Limit != 10 {
		t.Errorf("after a bad file: %+v", a)
	}
	reload(strings.Replace(tenAnHour, "capacity: 10", "capacity: 20", 1), "policy reloaded")
	if a := take(`{"key":"third","rule":"ten_hour"}`); a.Limit != 20 || a.Remaining != 17 { // one of ten is two of twenty
		t.Errorf("after an upgrade: %+v", a)
	}
	if n := p.metric(t, `guardd_limit_takes_total{degraded="false",result="refused"}`); n != "2" {
		t.Errorf("%s refused", n)
	}
}
