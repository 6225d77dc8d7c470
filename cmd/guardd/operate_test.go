package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// fewGuesses has a pair that is asked for verify after 3 guesses, and a flood guard
// that asks for captchas after 9 requests at three instances. Nothing refills.
const fewGuesses = `realms:
  default:
    delivery: {driver: log}
    flows:
      login:
        limits:
          - {tier: pair, name: burst, capacity: 9, refill: 9/9000h, delay: never, captcha: never, verify: empty}
          - {tier: account, name: burst, off: true}
          - {tier: ip, name: burst, off: true}
          - {tier: ip, name: sustained, off: true}
          - {tier: flood, name: burst, capacity: 60, refill: 60/1000h}
`

// operated is the output of a command of an operator at one instance.
func (p *process) operated(t *testing.T, args ...string) string {
	t.Helper()
	return p.operatedWith(t, "", args...)
}

// operatedWith is operated with something on standard input.
func (p *process) operatedWith(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("guardd", append(args, "--admin", p.admin)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), "GUARDD_ADMIN_KEY=ops"), strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("guardd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// attemptAs is attempt with a key.
func (p *process) attemptAs(t *testing.T, key, account, ip string) (a answer) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.service+"/v1/attempts", strings.NewReader(fmt.Sprintf(`{"account":%q,"ip":%q}`, account, ip)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if err := json.NewDecoder(w.Body).Decode(&a); err != nil || w.StatusCode != http.StatusOK {
		t.Fatalf("%d: %v", w.StatusCode, err)
	}
	return a
}

// soon waits until is holds at every instance, and says how long the last one took.
func soon(t *testing.T, all []*process, what string, is func(*process) bool) {
	t.Helper()
	begun := time.Now()
	for i, p := range all {
		for !is(p) {
			if time.Since(begun) > patience {
				t.Fatalf("%s: not at instance %d", what, i)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.Logf("%s: everywhere after %s", what, time.Since(begun).Round(time.Millisecond))
}

// TestOperatorsReachEveryInstance has an operator ask one of three instances, and
// looks at all of them: while Redis is there, and when it is gone, when each goes by
// its own memory.
func TestOperatorsReachEveryInstance(t *testing.T) {
	redis := redistest.Start(t)
	policy := writeFile(t, "policy.yaml", fewGuesses)
	config := writeFile(t, "guardd.yaml", fmt.Sprintf(`redis: %s
redis_deadline: 10s
instances: 3
secret_file: %s
policy: %s
api_keys: [{name: ops, sha256: a92c36e66a25ee99ff862faa8e87987be6c7cd13c3ee661c400a45b0f1e3b132, admin: operate}]
`, redis.URL(), writeFile(t, "secret", longLine), policy))
	var all []*process
	for range 3 {
		all = append(all, startGuardd(t, "--config", config))
	}
	here := all[0]
	ask := func(p *process, account, ip string) (a answer) {
		t.Helper()
		return p.attemptAs(t, "ops", account, ip)
	}
	// Each look draws on a flood guard, so what was done is waited for first.
	taken := func(action, times, account, ip, then string) {
		t.Helper()
		soon(t, all, action+" "+times, func(p *process) bool {
			return p.metric(t, `guardd_operator_changes_total{action="`+action+`"}`) == times
		})
		for i, p := range all {
			if a := ask(p, account, ip); a.Action != then {
				t.Errorf("instance %d, after %s %s: %+v, not %s", i, action, times, a, then)
			}
		}
	}

	here.operated(t, "list", "deny", "add", "203.0.113.0/24", "--for", "1h", "--reason", "a scan")
	taken("list.set", "1", "a", "203.0.113.9", "deny")
	here.operated(t, "list", "deny", "remove", "203.0.113.0/24", "--reason", "over")
	taken("list.remove", "1", "a", "203.0.113.9", "allow")

	var feed strings.Builder
	for i := range escalation.MaxListed {
		fmt.Fprintf(&feed, "2001:db8:%x:%x::/64\n", i>>8, i&255)
	}
	here.operatedWith(t, feed.String(), "list", "deny", "add", "-", "--reason", "a feed")
	taken("list.set", "2", "a", "2001:db8:27:f::1", "deny")
	here.operatedWith(t, feed.String(), "list", "deny", "remove", "-", "--reason", "a feed")

	here.operated(t, "posture", "pin", "critical", "--for", "1h", "--reason", "a leak")
	taken("posture.pin", "1", "c", "192.0.2.1", "captcha")
	for i, p := range all {
		if level, pinned := p.metric(t, `guardd_posture{realm="default"}`), p.metric(t, `guardd_posture_pinned{realm="default"}`); level != "3" || pinned != "1" {
			t.Errorf("instance %d, pinned to critical, exports %s, pinned %s", i, level, pinned)
		}
	}
	here.operated(t, "posture", "release", "--reason", "over")
	taken("posture.release", "1", "c", "192.0.2.1", "allow")
	if level := all[1].metric(t, `guardd_posture{realm="default"}`); level != "0" {
		t.Errorf("released, and exports posture %s", level)
	}

	// Spent in the store, in each instance's memory, and in each one's flood guard.
	for _, p := range all {
		for range 30 {
			ask(p, "alice", "198.51.100.7")
		}
		if a := ask(p, "alice", "198.51.100.7"); a.Action != "captcha" || len(a.Tiers) > 0 {
			t.Fatalf("no flood: %+v", a)
		}
	}
	if out := here.operated(t, "clear", "--ip", "198.51.100.7", "--reason", "an office"); !strings.Contains(out, "cleared") {
		t.Error(out)
	}
	taken("clear", "1", "alice", "198.51.100.7", "verify")
	if out := here.operated(t, "clear", "alice", "198.51.100.7", "--reason", "ticket 4711"); !strings.Contains(out, "cleared") {
		t.Error(out)
	}
	taken("clear", "2", "alice", "198.51.100.7", "allow")

	if err := os.WriteFile(policy, bytes.ReplaceAll([]byte(fewGuesses), []byte("capacity: 9, refill: 9/"), []byte("capacity: 8, refill: 8/")), 0o600); err != nil {
		t.Fatal(err)
	}
	here.operated(t, "reload", "--reason", "fewer")
	taken("reload", "1", "d", "192.0.2.4", "allow")
	for i, p := range all {
		if a := ask(p, "d", "192.0.2.4"); len(a.Tiers) == 0 || a.Tiers[0].Capacity != 8 {
			t.Errorf("instance %d, after a reload: %+v", i, a)
		}
	}

	if out := all[2].operated(t, "audit"); strings.Count(out, " ops ") != 9 || strings.Contains(out, "alice") {
		t.Errorf("the audit at another instance:\n%s", out)
	}

	told := func(what string) (n int) {
		for _, p := range all {
			one, _ := strconv.Atoi(p.metric(t, `guardd_findings_total{realm="default",state="once",what="`+what+`"}`))
			n += one
		}
		return n
	}
	soon(t, all[:1], "each is a finding of one of them", func(*process) bool { return told("operator_action") == 9 })

	// In an outage each knows the list, the pin and the clear by itself.
	for range 8 {
		ask(here, "bob", "198.51.100.8")
	}
	for _, p := range all {
		ask(p, "bob", "198.51.100.8") // its twin knows that nothing is left
	}
	here.operated(t, "list", "deny", "add", "203.0.113.0/24", "--reason", "a scan")
	here.operated(t, "posture", "pin", "critical", "--for", "1h", "--reason", "a leak")
	here.operated(t, "clear", "bob", "198.51.100.8", "--reason", "ticket 4712")
	soon(t, all, "three more", func(p *process) bool {
		return p.metric(t, `guardd_operator_changes_total{action="clear"}`) == "3" && p.metric(t, `guardd_operator_changes_total{action="posture.pin"}`) == "2"
	})
	soon(t, all[:1], "three more are, and the posture", func(*process) bool { return told("operator_action") == 12 && told("posture_change")%2 == 1 })
	redis.Stop()
	for i, p := range all {
		if a := ask(p, "a", "203.0.113.9"); a.Action != "deny" {
			t.Errorf("instance %d, alone: listed, and answers %s", i, a.Action)
		}
		if a := ask(p, "bob", "198.51.100.8"); a.Action != "captcha" || !a.Degraded || a.Tiers[0].Left != a.Tiers[0].Capacity {
			t.Errorf("instance %d, alone: pinned to critical and cleared, and answers %+v", i, a)
		}
	}
}
