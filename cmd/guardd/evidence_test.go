package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/plans"
)

// explainLimits runs guardd limits explain against p.
func (p *process) explainLimits(t *testing.T, key string) (a plans.Explanation) {
	t.Helper()
	out, err := exec.Command("guardd", "limits", "explain", key, "--admin", p.admin, "--since", "1h", "--json").Output()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// What three instances decided is known at each, also when one of them was
// killed, and what they decided while Redis was gone when it is back.
func TestEvidenceIsOneAtThreeInstancesThroughAnOutage(t *testing.T) {
	redis := redistest.Start(t)
	limits := writeFile(t, "limits.yaml", `rules: [{name: r, capacity: 60, refill: 1/1000h}]
`)
	secret := writeFile(t, "secret", longLine)
	f := &limitsFleet{t: t}
	for range 3 {
		f.all = append(f.all, startGuardd(t, "--redis", redis.URL(), "--redis-deadline", "1s", "--instances", "3", "--secret-file", secret, "--limits", limits))
	}
	if n := f.spend(90, "the-callers-key", "r"); n != 60 {
		t.Fatalf("%d of 60", n)
	}
	know := func(p *process, key string, asked, allowed, refused, degraded int64) {
		t.Helper()
		var a plans.Explanation
		p.until(t, fmt.Sprintf("it to know of %d requests by %s", asked, key), func() bool {
			a = p.explainLimits(t, key)
			return a.Complete && a.Asked >= asked
		})
		if a.Asked != asked || a.Allowed != allowed || a.Refused != refused || a.Degraded != degraded || int64(len(a.Refusals)) != refused {
			t.Errorf("%s: %+v with %d refusals, want %d asked, %d allowed, %d refused, %d degraded", key, a.Decided, len(a.Refusals), asked, allowed, refused, degraded)
		}
		instances := map[string]bool{}
		for _, r := range a.Refusals {
			instances[r.Instance] = true
			if r.Rule != "r" || r.Remaining != 0 || r.Cost != 1 || r.Version == "" || r.Degraded != (degraded > 0) {
				t.Errorf("%s: refusal %+v", key, r)
			}
		}
		if len(instances) != 3 {
			t.Errorf("%s: refusals of %d instances", key, len(instances))
		}
		if len(a.Rules) != 1 || a.Rules[0].Taken != allowed || degraded == 0 && (a.Rules[0].Had != 60 || a.Rules[0].Capacity != 60) || degraded > 0 && (a.Rules[0].Capacity != 20 || !a.Rules[0].Degraded) {
			t.Errorf("%s: rules %+v", key, a.Rules)
		}
	}
	for _, p := range f.all {
		know(p, "the-callers-key", 90, 60, 30, 0)
	}

	redis.Pause() // it hangs: an instance may not wait, and cannot know
	for _, p := range f.all {
		var wg sync.WaitGroup // each call waits for its deadline, until enough have
		for range 10 {
			wg.Go(func() {
				resp, err := http.Post(p.service+"/v1/limits/take", "application/json", strings.NewReader(`{"key":"nobody","rule":"r","cost":0}`))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			})
		}
		wg.Wait()
		p.until(t, "it to be noticed", func() bool { return p.metric(t, "guardd_degraded") == "1" })
	}
	if n := f.spend(90, "in-the-outage", "r"); n != 60 {
		t.Errorf("3 shares of 20 let %d through", n)
	}
	if a := f.all[0].explainLimits(t, "in-the-outage"); a.Complete || a.Asked != 30 || a.Degraded != 30 || a.Refused != 10 {
		t.Errorf("while Redis is gone: %+v", a)
	}
	redis.Resume()
	for _, p := range f.all {
		p.until(t, "Redis to be found", func() bool { a, _ := p.take(t, "nobody", "r", 0); return !a.Degraded })
	}
	for _, p := range f.all {
		know(p, "in-the-outage", 90, 60, 30, 90)
	}

	f.all[2].kill()
	for _, p := range f.all[:2] {
		know(p, "the-callers-key", 90, 60, 30, 0)
	}
	client := redis.Client()
	lists := 0
	for keys := client.Scan(t.Context(), 0, "gd:{plan/*", 500).Iterator(); keys.Next(t.Context()); {
		rows, err := client.LRange(t.Context(), keys.Val(), 0, -1).Result()
		if err != nil {
			continue // no list
		}
		lists++
		if all := keys.Val() + strings.Join(rows, " "); strings.Contains(all, "the-callers-key") {
			t.Errorf("%q names a caller", all)
		}
	}
	if lists < 4 {
		t.Errorf("only %d lists of evidence found", lists)
	}
	redistest.EveryKeyDies(t, redis, 5)
}

// A process that ends in good order leaves nothing unsaid.
func TestEvidenceIsHandedOverAtTheEnd(t *testing.T) {
	redis := redistest.Start(t)
	limits := writeFile(t, "limits.yaml", `rules: [{name: r, capacity: 5, refill: 1/1000h}]
`)
	args := []string{"--redis", redis.URL(), "--redis-deadline", "1s", "--secret-file", writeFile(t, "secret", longLine), "--limits", limits}
	first := startGuardd(t, args...)
	for range 7 {
		first.take(t, "k", "r", 1)
	}
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := first.wait(); code != 0 || err != nil {
		t.Fatalf("ended with %d, %v", code, err)
	}
	if a := startGuardd(t, args...).explainLimits(t, "k"); a.Asked != 7 || a.Refused != 2 || len(a.Refusals) != 2 {
		t.Errorf("%+v", a)
	}
}

func TestNoEvidenceIsKeptWhereNoneIsWanted(t *testing.T) {
	p := startGuardd(t, "--limits", writeFile(t, "limits.yaml", tenAnHour), "--limits-evidence", "0")
	p.take(t, "k", "ten_hour", 1)
	if a := p.explainLimits(t, "k"); a.Complete || a.Missing == "" || a.Asked != 0 {
		t.Errorf("%+v", a)
	}
}

// What a rule says of an outage is what happens in a real one, and what evidence
// and headers say then.
func TestEachRuleFailsAsItSaysInARealOutage(t *testing.T) {
	redis := redistest.Start(t)
	p := startGuardd(t, "--redis", redis.URL(), "--redis-deadline", "1s", "--instances", "2", "--secret-file", writeFile(t, "secret", longLine), "--limits", writeFile(t, "limits.yaml", `rules:
  - {name: local, capacity: 12, refill: 1/1000h}
  - {name: open, capacity: 6, refill: 1/1000h, failure: open}
  - {name: closed, capacity: 12, refill: 1/1000h, failure: closed}
`))
	redis.Stop()
	p.until(t, "it to be noticed", func() bool { a, _ := p.take(t, "nobody", "local", 0); return a.Degraded })
	for rule, want := range map[string]int64{"local": 6, "open": 20, "closed": 0} {
		let := int64(0)
		for range 20 {
			a, status := p.take(t, "k-"+rule, rule, 1)
			if status != 200 || !a.Degraded || a.Allowed != (a.Headers["Retry-After"] == "") || a.Allowed != (a.RetryAfterMS == 0) {
				t.Errorf("%s: %d %+v", rule, status, a)
			}
			if a.Allowed {
				let++
			}
		}
		if let != want {
			t.Errorf("%s: %d of 20 were let through, not %d", rule, let, want)
		}
		a := p.explainLimits(t, "k-"+rule)
		if a.Complete || a.Allowed != want || a.Refused != 20-want || a.Degraded != 20 || int64(len(a.Refusals)) != 20-want {
			t.Errorf("%s: %+v, %d refusals", rule, a.Decided, len(a.Refusals))
		}
		for _, x := range a.Refusals {
			if !x.Degraded || x.Rule != rule || x.RetryAfterMS == 0 {
				t.Errorf("%s: %+v", rule, x)
			}
		}
	}
}
