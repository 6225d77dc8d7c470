package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// realmsOn finds, for each node of a Cluster, a realm that lives on it, and the
// index of the node where heartbeats are counted.
func realmsOn(t *testing.T, c *redistest.Cluster) (names []string, beats int) {
	t.Helper()
	client := c.Client()
	on := func(key string) int {
		node, err := client.MasterForKey(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range c.Nodes {
			if n.Addr() == node.Options().Addr {
				return i
			}
		}
		t.Fatalf("%s is no node", node.Options().Addr)
		return 0
	}
	names = make([]string, len(c.Nodes))
	for i, found := 0, 0; found < len(names); i++ {
		realm := fmt.Sprint("realm", i)
		if at := on(keys.NewSpace(realm, 0).State()); names[at] == "" {
			names[at] = realm
			found++
		}
	}
	return names, on(keys.LiveKey)
}

// A node of a Cluster that hangs, or is killed, has only what lives on it decided
// without it: on the others each of a thousand attempts is counted, and no breaker
// opens; the one before it opens once, is said to be, and closes when it is back.
// Both the node where heartbeats are counted, and another.
func TestANodeThatIsGoneTakesNoRealmOfTheOthersWithIt(t *testing.T) {
	// Without this Redis itself takes the others down.
	cluster := redistest.StartCluster(t, redistest.Options{Args: []string{"--cluster-require-full-coverage", "no"}})
	realms, beats := realmsOn(t, cluster)
	policy := strings.Replace(oneRung, "    shards: 8\n", "", 1)
	one := strings.TrimPrefix(policy, "realms:\n")
	for _, r := range realms {
		policy += strings.Replace(one, "default:", r+":", 1)
	}
	args := []string{"--redis", cluster.URL(), "--redis-deadline", "2s", "--secret-file", writeFile(t, "secret", longLine), "--policy", writeFile(t, "policy.yaml", policy)}
	for name, c := range map[string]struct {
		node  int
		begin func(*redistest.Server)
		end   func(*redistest.Server)
	}{
		"hung, with the heartbeats": {beats, (*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed":                    {(beats + 1) % len(realms), (*redistest.Server).Stop, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			m := &member{process: startGuardd(t, args...)}
			node := cluster.Nodes[c.node]
			ask := func(realm string, i int) answer {
				t.Helper()
				return m.attempt(t, fmt.Sprint(name, i), fmt.Sprint("192.0.2.", 1+i%200), `,"realm":"`+realm+`"`)
			}
			for i, r := range realms {
				if ask(r, 0).Degraded {
					t.Fatalf("degraded at node %d while all is well", i)
				}
			}
			label := `node="` + node.Addr() + `"`
			state := func() string {
				_, ready := get(t, m.admin+"/readyz")
				return fmt.Sprint("degraded ", m.metric(t, "guardd_degraded"), ", open there ", m.metric(t, "guardd_breaker_open{", label),
					", open in all ", m.metric(t, "guardd_breaker_open{"), ", ready ", strings.TrimSpace(ready))
			}
			c.begin(node)
			for i := range 300 {
				for at, r := range realms {
					if a := ask(r, i+1); a.Degraded != (at == c.node) || !a.Proceed {
						t.Fatalf("attempt %d at node %d: %+v", i, at, a)
					}
				}
			}
			if want := `degraded 1, open there 1, open in all 1, ready {"status":"degraded"}`; state() != want {
				t.Errorf("%s, want %s", state(), want)
			}
			if line, err := m.awaitLog("redis has failed again and again"); err != nil || !strings.Contains(line, node.Addr()) {
				t.Error(line, err)
			}
			c.end(node)
			cluster.AwaitWhole()
			want := `degraded 0, open there 0, open in all 0, ready {"status":"ok"}`
			redistest.Until(t, "the node to be asked again", func() bool {
				return !ask(realms[c.node], 0).Degraded && state() == want && m.metric(t, "guardd_debts") == 0
			})
			if line, err := m.awaitLog("redis works again"); err != nil || !strings.Contains(line, node.Addr()) {
				t.Error(line, err)
			}
			if n := m.metric(t, "guardd_breaker_opened_total"); n != 1 {
				t.Errorf("opened %d times", n)
			}
		})
	}
}
