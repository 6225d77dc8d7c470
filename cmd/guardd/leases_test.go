package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// Three guardd on one Redis, killed under load and started again: what they lease of
// a busy key is let through once at most, and a kill loses at most one lease.
func TestLeasesOfGuarddsThatAreKilled(t *testing.T) {
	const capacity, most, clients = 6000, 300, 4
	redis := redistest.Start(t)
	args := []string{"--redis", redis.URL(), "--redis-deadline", "10s", "--instances", "3", "--secret-file", writeFile(t, "secret", longLine),
		"--limits", writeFile(t, "limits.yaml", "rules: [{name: hot, capacity: 6000, refill: 1/24h, lease: {above: 50, most: 300}}]")}
	var let, lost atomic.Int64
	// load asks until the process is gone, or has refused a while.
	load := func(p *process) {
		refused := 0
		for refused < 100 {
			resp, err := http.Post(p.service+"/v1/limits/take", "application/json", strings.NewReader(`{"key":"k","rule":"hot"}`))
			if err != nil {
				lost.Add(1) // it may have been let through
				return
			}
			var a client.TakeResponse
			err = json.NewDecoder(resp.Body).Decode(&a)
			resp.Body.Close()
			switch {
			case err != nil:
				lost.Add(1)
				return
			case a.Degraded:
				t.Errorf("degraded: %+v", a)
				return
			case a.Allowed:
				let.Add(1)
			default:
				refused++
			}
		}
	}
	var loads sync.WaitGroup
	start := func() *process {
		p := startGuardd(t, args...)
		for range clients {
			loads.Go(func() { load(p) })
		}
		return p
	}
	all := []*process{start(), start(), start()}
	const kills = 3
	for i := range kills {
		all[i].until(t, "it to lease", func() bool { return all[i].metric(t, `guardd_limit_lease_takes_total{result="allowed"}`) != "0" })
		all[i].kill()
		all[i] = start()
	}
	loads.Wait()
	for _, p := range all { // ends well: what it holds comes back
		p.cmd.Process.Signal(syscall.SIGTERM)
		if code, err := p.wait(); code != 0 || err != nil {
			t.Fatal(code, err)
		}
	}
	last := startGuardd(t, args...)
	load(last)
	least := int64(capacity - kills*most - kills*clients)
	if n := let.Load(); n > capacity || n < least {
		t.Errorf("%d of %d were let through, and %d answers lost, by %d kills of at most %d each", n, capacity, lost.Load(), kills, most)
	} else {
		t.Logf("%d of %d were let through, and %d answers lost, by %d kills of at most %d each", n, capacity, lost.Load(), kills, most)
	}
}
