package main

import (
	"errors"
	"os"
	"slices"
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

// TestAllFaultsOfALimitsFileAreToldAtOnce: what cannot be read, what is wrong, and not
// what only follows.
func TestAllFaultsOfALimitsFileAreToldAtOnce(t *testing.T) {
	for _, c := range []struct {
		yaml string
		want []string // with FILE for its path
	}{
		{`
rules:
  - {name: burst, capacity: many, refill: 10/1s, lease: {above: 200, most: x}}
  - {name: daily, capcity: 50, refill: 10}
  - {nmae: hourly, capacity: 50, refill: 10/1h}
  - {name: "x y", capacity: 10, refill: 10/1s, counts: what, routes: {"GET /": five}}
plans:
  - {name: free, rules: [burst, daily, hourly]}
  - {name: dear, rules: []}
keys:
  - {sha256: zz, name: acme, plan: free}
  - {sha256: "6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e", plan: free, overrides: [{rule: burst, capacity: -1}]}
`, []string{
			`rules[0].capacity: must be a whole number, not "many" (line 3)`,
			`rules[0].lease.most: must be a whole number, not "x" (line 3)`,
			`rules[1].capcity: unknown key (line 4)`,
			`rules[2].nmae: unknown key (line 5)`,
			`rules[3].routes.GET /: must be a whole number, not "five" (line 6)`,
			`keys[0].sha256: must be 64 hex digits: printf %s KEY | sha256sum (line 11)`,
			`rules[1].refill: must be a number of tokens, a slash and a duration, such as 20/1h (in FILE)`,
			`rules[3].name: must be up to 64 letters, digits, '_', '.' and '-', not "x y" (in FILE)`,
			`rules[3].counts: must be one of ["cost" "requests"], not "what" (in FILE)`,
			`plans[1].rules: between 1 and 16 rules are needed, not 0 (in FILE)`,
			`keys[1].overrides[0].capacity: must be a whole number of tokens, at least 1 (in FILE)`,
		}},
		{`
rules: 5
plans:
  - {name: free, rules: [burst]}
`, []string{`rules: must be a list (line 2)`}},
		{`
rule:
  - {name: burst, capacity: 50, refill: 10/1s}
plans:
  - {name: free, rules: [burst]}
`, []string{`rule: unknown key (line 2)`}},
		{`
rules:
  - {name: burst, capacity: 50, refill: 10/1s}
plans:
  - {name: free, rules: [burst, hourly]}
`, []string{`plans[0].rules[1]: there is no rule "hourly" (in FILE)`}},
	} {
		file := writeFile(t, "limits.yaml", c.yaml)
		_, err := loadWith(t, "", nil, "--limits", file)
		var bad faults
		if !errors.As(err, &bad) {
			t.Fatalf("%s: %v", c.yaml, err)
		}
		for i := range bad {
			bad[i] = strings.ReplaceAll(bad[i], file, "FILE")
		}
		if !slices.Equal(bad, c.want) {
			t.Errorf("%s\n%s\nnot\n%s", c.yaml, strings.Join(bad, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
