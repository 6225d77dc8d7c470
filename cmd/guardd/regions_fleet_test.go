package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// TestRegionsAdmitTheirShares: an instance in each of two regions, with a Redis each
// and one database of plan limits, admits its share of each kind of rule and no more.
func TestRegionsAdmitTheirShares(t *testing.T) {
	f := &limitsFleet{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "limits.db")}
	const shares = "eu=60%,us=40%"
	f.change("create", "rule", "rate", "--capacity", "20", "--refill", "1/1000h", "--regions", shares)
	f.change("create", "rule", "slots", "--kind", "concurrency", "--capacity", "10", "--regions", shares)
	f.change("create", "rule", "monthly", "--kind", "quota", "--capacity", "50", "--regions", shares)
	f.change("create", "rule", "generous", "--capacity", "20", "--refill", "1/1h", "--regions", "eu=60%,us=50%")
	secret := writeFile(t, "secret", longLine)
	for _, region := range []string{"eu", "us"} {
		f.all = append(f.all, startGuardd(t, "--region", region, "--redis", redistest.Start(t).URL(), "--redis-deadline", "10s", "--secret-file", secret, "--limits-db", f.url))
	}
	f.change("create", "rule", "late", "--capacity", "5", "--refill", "1/1h") // and then all is in force
	policies := []string{`"rate";q=12;`, `"rate";q=8;`}
	for i, p := range f.all {
		share := []int{60, 40}[i]
		let := map[string]int{}
		for range 20 {
			a, status := p.take(t, "k", "rate", 1)
			if status != 200 || !strings.HasPrefix(a.Headers["RateLimit-Policy"], policies[i]) {
				t.Fatalf("%d %+v", status, a)
			}
			if a.Allowed {
				let["rate"]++
			}
		}
		for n := range 10 {
			var a client.AcquireResponse
			if status := p.post(t, "/v1/limits/acquire", fmt.Sprintf(`{"key":"k","rule":"slots","request_id":"%d"}`, n), &a); status != 200 {
				t.Fatalf("acquire: %d", status)
			}
			if a.Allowed {
				let["slots"]++
			}
		}
		for range 50 {
			if a, _ := p.take(t, "k", "monthly", 1); a.Allowed {
				let["monthly"]++
			}
		}
		if let["rate"] != 20*share/100 || let["slots"] != 10*share/100 || let["monthly"] != 50*share/100 {
			t.Errorf("region %d: %v", i, let)
		}
		if logged, rule := p.logged(), "monthly@"+[]string{"eu", "us"}[i]; strings.Count(logged, `"rule":"`+rule+`","percent":80,`) != 1 || strings.Contains(logged, "(hidden)") {
			t.Errorf("80 %% of %s were not told once, of a key that can be found", rule)
		}
		if !strings.Contains(p.logged(), `"rule":"generous","regions":"eu=60%,us=50%","in_all":"110%","capacity":20,"capacity_in_all":22`) {
			t.Error("nothing was said of what the regions admit in all")
		}
	}
	f.change("change", "rule", "rate", "--regions", "eu=100%")
	eu, us := f.all[0], f.all[1]
	if a, b := eu.metric(t, "guardd_limits_db_bad_rows"), us.metric(t, "guardd_limits_db_bad_rows"); a != "0" || b != "1" {
		t.Errorf("bad rows %s and %s", a, b)
	}
	a, _ := eu.take(t, "new", "rate", 0)
	b, _ := us.take(t, "new", "rate", 0)
	if a.Limit != 20 || b.Limit != 8 {
		t.Errorf("%d and %d: a region that a rule forgets keeps what it had", a.Limit, b.Limit)
	}
	if out, err := f.command("list", "rules"); err != nil || !strings.Contains(out, "regions=eu=60%,us=50% in-all=110%,22") {
		t.Errorf("%v\n%s", err, out)
	}
}

// An instance without a region does not start with a file that names regions.
func TestRegionsOfAFile(t *testing.T) {
	file := writeFile(t, "limits.yaml", `rules: [{name: r, capacity: 10, refill: 10/1h, regions: {eu: 60%, us: 40%}}]`+"\n")
	for region, want := range map[string]string{"": "rules[0].regions: this guardd is in no region", "ap": `rules[0].regions: says nothing of region "ap"`, "e u": "region: must be"} {
		if _, err := loadWith(t, fmt.Sprintf("region: %q\nlimits: %q\n", region, file), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", region, err)
		}
	}
	if _, err := loadWith(t, fmt.Sprintf("region: us\nlimits: %q\n", file), nil); err != nil {
		t.Error(err)
	}
}
