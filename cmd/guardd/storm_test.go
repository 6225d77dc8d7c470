package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/guardd/guardd/keys/keystest/redistest"
)

// patient are the arguments of an instance whose deadline is so long that it
// never decides alone.
func patient(t *testing.T, redisURL, policy string) []string {
	return []string{"--redis", redisURL, "--redis-deadline", "10s", "--secret-file", writeFile(t, "guardd.secret", longLine+"\n"),
		"--policy", writeFile(t, "policy.yaml", policy), "--drain-notice", "2s"}
}

// Instances are killed without a word in the middle of their work, and others
// take their place: those that live answer every request, what Redis holds dies
// by itself, and no guess is granted twice.
func TestKilledInstancesLeaveNothingBehind(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		server := redistest.Start(t)
		underKills(t, server.URL())
		redistest.EveryKeyDies(t, server, 100)
	})
	t.Run("a Cluster, in 8 shards", func(t *testing.T) {
		cluster := redistest.StartCluster(t, redistest.Options{})
		underKills(t, cluster.URL())
		for _, node := range cluster.Nodes {
			redistest.EveryKeyDies(t, node, 20)
		}
	})
}

func underKills(t *testing.T, redisURL string) {
	kills := 3
	if n := soak(t); n > 0 {
		kills = 10 * n
	}
	args := patient(t, redisURL, oneRung)
	h := newHerd(t, false)
	for range 3 {
		h.join(args...)
	}
	stop := make(chan struct{})
	visitors := h.load(12, stop)
	for range kills {
		h.until(100 + rand.Int64N(400))
		m := h.any()
		h.leave(m)
		m.condemned.Store(true)
		m.kill()
		h.until(100 + rand.Int64N(100)) // the survivors' alone
		h.join(args...)
	}
	h.until(200)
	close(stop)
	visitors.Wait()
	h.drained(20)
	t.Logf("%d instances were killed; %d requests were answered, of %d the answer was lost with its instance, %d were sent on",
		kills, h.answered.Load(), h.unheard.Load(), h.retried.Load())
}

// A fleet is updated, instance by instance, under load, to a policy with one more
// limit: no request fails, and nobody is granted a guess more or less.
func TestARollingRestartFailsNoRequestAndLeaksNothing(t *testing.T) {
	rounds := 1
	if n := soak(t); n > 0 {
		rounds = 5
	}
	server := redistest.Start(t)
	h := newHerd(t, false)
	versions := [][]string{patient(t, server.URL(), oneRung), patient(t, server.URL(), counting(`burst, capacity: 20`, `sustained, capacity: 1000`))}
	for range 3 {
		h.join(versions[0]...)
	}
	stop := make(chan struct{})
	visitors := h.load(12, stop)
	for round := range rounds {
		var ended []func()
		for _, old := range append([]*member(nil), h.members...) {
			h.until(100)
			h.join(versions[(round+1)%2]...)
			ended = append(ended, h.drain(old))
		}
		for _, wait := range ended {
			wait()
		}
	}
	h.until(200)
	close(stop)
	visitors.Wait()
	h.drained(20)
	if h.unheard.Load() > 0 {
		t.Errorf("%d requests failed", h.unheard.Load())
	}
	redistest.EveryKeyDies(t, server, 100)
	t.Logf("%d instances were replaced; %d requests were answered, %d were sent on", 3*rounds, h.answered.Load(), h.retried.Load())
}

// drain has m end as an orchestrator does, and the balancer look elsewhere once
// it says that it is not ready; requests that it has by then it has time to answer.
func (h *herd) drain(m *member) (ended func()) {
	h.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	for {
		resp, err := h.client.Get(m.admin + "/readyz")
		if err != nil {
			h.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
	}
	h.leave(m)
	return func() {
		if code, err := m.wait(); code != 0 || err != nil {
			h.t.Errorf("an instance that was told to end: exit code %d, %v\n%s", code, err, m.logged())
		}
	}
}

// counting is a policy whose accounts have the limits given, and nobody else any.
func counting(limits ...string) string {
	has := strings.Join(limits, " ")
	rows := "    shards: 8\n    delivery: {driver: log}\n    flows:\n      login:\n        limits:\n"
	for _, l := range limits {
		rows += "          - {tier: account, name: " + l + ", refill: 1/1000h, delay: never, captcha: never, verify: empty}\n"
	}
	for _, off := range []string{"account burst", "account sustained", "pair burst", "pair sustained", "ip burst", "ip sustained",
		"network burst", "network sustained", "flood burst"} {
		tier, name, _ := strings.Cut(off, " ")
		if tier != "account" || !strings.Contains(has, name+",") {
			rows += fmt.Sprintf("          - {tier: %s, name: %s, off: true}\n", tier, name)
		}
	}
	return "realms:\n  default:\n" + rows
}

// Two versions with other policies work side by side on one realm: neither grants
// anew what only the other counts.
func TestTwoVersionsSideBySideKeepEachOthersLimits(t *testing.T) {
	for name, c := range map[string]struct {
		here, there string
		let         [2]int // through here and there
	}{
		"a limit is added":   {counting("burst, capacity: 100"), counting("burst, capacity: 100", "sustained, capacity: 10"), [2]int{25, 10}},
		"a limit is removed": {counting("burst, capacity: 10", "sustained, capacity: 100"), counting("sustained, capacity: 100"), [2]int{10, 25}},
		"a limit is renamed": {counting("burst, capacity: 10"), counting("sustained, capacity: 15"), [2]int{10, 15}},
		// A guess is a twentieth here and a tenth there.
		"a capacity is changed": {counting("burst, capacity: 20"), counting("burst, capacity: 10"), [2]int{8, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			h := newHerd(t, false)
			here, there := h.join(patient(t, server.URL(), c.here)...), h.join(patient(t, server.URL(), c.there)...)
			var let [2]int
			for range 25 {
				for i, m := range []*member{here, there} {
					a, err := m.ask(h.client, "alice", "192.0.2.1")
					if err != nil || a.Degraded {
						t.Fatalf("%+v %v", a, err)
					}
					if a.Proceed {
						let[i]++
					}
				}
			}
			if let != c.let {
				t.Errorf("let through %d here and %d there, not %d and %d", let[0], let[1], c.let[0], c.let[1])
			}
			redistest.EveryKeyDies(t, server, 1)
		})
	}
}
