package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// answer is as much of an attempt's answer as these tests look at.
type answer struct {
	Action   string `json:"action"`
	Proceed  bool   `json:"proceed"`
	Degraded bool   `json:"degraded"`
	Attempt  string `json:"attempt"`
	Device   string `json:"device"`
	Recorded bool   `json:"recorded"`
	Known    bool   `json:"known_device"`
	Tiers    []struct {
		Tier, Limit    string
		Left, Capacity int64
	}
	Challenge struct{ Token string }
}

func (p *process) attempt(t *testing.T, account, ip string, more ...string) (a answer) {
	t.Helper()
	body := fmt.Sprintf(`{"account":%q,"ip":%q%s}`, account, ip, strings.Join(more, ""))
	if status := p.post(t, "/v1/attempts", body, &a); status != 200 {
		t.Fatalf("status %d for %s", status, body)
	}
	return a
}

// left is what the account's burst limit has left.
func (a answer) left(t *testing.T) int64 {
	t.Helper()
	for _, l := range a.Tiers {
		if l.Tier == "account" && l.Limit == "burst" {
			return l.Left
		}
	}
	t.Fatalf("no account tier in %+v", a)
	return 0
}

// healthy asks until the store answers: heartbeats find it.
func (p *process) healthy(t *testing.T, account, ip string) answer {
	t.Helper()
	for range 1000 {
		if a := p.attempt(t, account, ip); !a.Degraded {
			return a
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("guardd does not find Redis again")
	return answer{}
}

// fleet starts n instances over one Redis. Their deadline is a slow test
// machine's; what is tested is that it is kept at all.
func fleet(t *testing.T, n int, redisURL string) (all []*process) {
	secret := writeFile(t, "guardd.secret", longLine+"\n")
	for range n {
		all = append(all, startGuardd(t, "--redis", redisURL, "--redis-deadline", "2s", "--instances", fmt.Sprint(n), "--secret-file", secret))
	}
	return all
}

func TestFleetSharesOneCountAndOpensEachOthersTokens(t *testing.T) {
	all := fleet(t, 2, redistest.Start(t).URL())
	here, there := all[0], all[1]
	first := here.attempt(t, "alice", "192.0.2.1")
	if left := there.attempt(t, "alice", "192.0.2.1").left(t); first.left(t) != 19 || left != 18 {
		t.Errorf("left here %d, then there %d", first.left(t), left)
	}
	var told answer
	there.post(t, "/v1/outcomes", `{"account":"alice","outcome":"success","attempt":"`+first.Attempt+`"}`, &told)
	if !told.Recorded || told.Device == "" {
		t.Fatalf("an attempt from here, reported there: %+v", told)
	}
	if !here.attempt(t, "alice", "198.51.100.1", `,"device":"`+told.Device+`"`).Known {
		t.Error("a device from there is unknown here")
	}
	if status := there.post(t, "/v1/devices/revoke", `{"account":"alice"}`, nil); status != 200 {
		t.Fatalf("revoke: %d", status)
	}
	if here.attempt(t, "alice", "198.51.100.1", `,"device":"`+told.Device+`"`).Known {
		t.Error("a device revoked there is known here")
	}
}

// TestAnOldApplicationCostsAFleetNothing: what one instance was told to be wrong
// takes nothing at another, from wherever it is tried, and the answer says no word of
// it; who explains does. After a change of the password it is a guess.
func TestAnOldApplicationCostsAFleetNothing(t *testing.T) {
	all := fleet(t, 2, redistest.Start(t).URL())
	const tag = `,"password_tag":"00112233445566778899aabbccddeeff"`
	tell := func(p *process, a answer, outcome string) {
		t.Helper()
		var told answer
		p.post(t, "/v1/outcomes", `{"account":"alice","outcome":"`+outcome+`","attempt":"`+a.Attempt+`"}`, &told)
		if !told.Recorded {
			t.Fatalf("%+v", told)
		}
	}
	first := all[0].attempt(t, "alice", "192.0.2.1", tag)
	tell(all[1], first, "failure")
	for i := range 8 { // the fourth guess would be asked for time
		p := all[i%2]
		a := p.attempt(t, "alice", []string{"192.0.2.1", "198.51.100.1"}[i/2%2], tag)
		if !a.Proceed || a.left(t) != 19 {
			t.Fatalf("retry %d: %s, %d left", i, a.Action, a.left(t))
		}
		tell(all[1-i%2], a, "failure")
	}
	var repeat, fresh map[string]any
	all[0].post(t, "/v1/attempts", `{"account":"alice","ip":"192.0.2.1"`+tag+`}`, &repeat)
	all[0].post(t, "/v1/attempts", `{"account":"alice","ip":"192.0.2.1"}`, &fresh)
	if a, b := slices.Sorted(maps.Keys(repeat)), slices.Sorted(maps.Keys(fresh)); !slices.Equal(a, b) || len(repeat["reasons"].([]any)) > 0 {
		t.Errorf("a repeat is answered with %v, reasons %v; another with %v", a, repeat["reasons"], b)
	}
	all[1].until(t, "nine repeated attempts and eight outcomes", func() bool {
		repeats := 0
		for _, d := range all[1].learned(t, "account", "alice").Recent {
			if d.Repeat {
				repeats++
			}
		}
		return repeats == 17
	})
	all[1].post(t, "/v1/devices/revoke", `{"account":"alice"}`, nil)
	if a := all[0].attempt(t, "alice", "192.0.2.1", tag); a.left(t) != 17 {
		t.Errorf("after the password was changed a try costs nothing: %d left", a.left(t))
	}
}

func TestWithoutRedisEachInstanceGrantsItsShareAndSaysSo(t *testing.T) {
	redis := redistest.Start(t)
	p := fleet(t, 2, redis.URL())[0]
	if p.attempt(t, "alice", "192.0.2.1").Degraded {
		t.Fatal("degraded while Redis is there")
	}
	redis.Stop()
	a := p.attempt(t, "alice", "192.0.2.1")
	if !a.Degraded || !a.Proceed || a.left(t) > 9 {
		t.Errorf("without Redis: %+v (the share of 20 is 10)", a)
	}
	if status, body := get(t, p.admin+"/readyz"); status != 200 || !strings.Contains(body, "degraded") {
		t.Errorf("readyz: %d %s", status, body)
	}
	if status := p.post(t, "/v1/devices/revoke", `{"account":"alice"}`, nil); status != 503 {
		t.Errorf("a revocation that reaches nobody is answered %d", status)
	}
	if _, err := p.awaitLog("redis does not answer: deciding alone"); err != nil {
		t.Error(err)
	}
	_, text := get(t, p.admin+"/metrics")
	for _, want := range []string{"\nguardd_degraded 1\n", `guardd_decision_duration_seconds_count{degraded="true"} 1`,
		`guardd_store_errors_total{kind="refused",operation="revoke"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics do not say %q", want)
		}
	}
	redis.Restart()
	if a := p.healthy(t, "bob", "192.0.2.9"); a.left(t) > 19 {
		t.Errorf("with Redis back, and empty: %+v", a)
	}
	if _, text := get(t, p.admin+"/metrics"); !strings.Contains(text, "\nguardd_degraded 0\n") {
		t.Error("still degraded, by the metrics")
	}
	if status, body := get(t, p.admin+"/readyz"); status != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("readyz: %d %s", status, body)
	}
}

func TestAnOutageIsLoggedOnceInAWhile(t *testing.T) {
	var log strings.Builder
	s := &server{log: slog.New(slog.NewTextHandler(&log, nil)), metrics: newMetrics(escalation.DefaultPolicy(), false)}
	said := func(want int) {
		t.Helper()
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d:\n%s", n, want, &log)
		}
	}
	s.storeFailed("take", context.Canceled) // a visitor hung up
	said(0)
	for range 1000 {
		s.storeFailed("take", io.EOF)
	}
	said(1)
	earlier := time.Now().Add(-quiet)
	s.storeLogged.last.Store(&earlier)
	s.storeFailed("take", io.EOF)
	said(2)
}

func TestRedisThatHangsCostsTheDeadlineAndNoAnswer(t *testing.T) {
	redis := redistest.Start(t)
	p := startGuardd(t, "--redis", redis.URL(), "--redis-deadline", "20ms", "--secret-file", writeFile(t, "secret", longLine))
	redis.Pause()
	if a := p.attempt(t, "alice", "192.0.2.1"); !a.Degraded || !a.Proceed {
		t.Errorf("while Redis hangs: %+v", a)
	}
	redis.Resume()
	// The late call wrote nothing: the shared bucket is full but for what is
	// asked from now on. On a busy machine some of that may lose its reply.
	for lost := range int64(1000) {
		if a := p.attempt(t, "alice", "192.0.2.1"); !a.Degraded {
			if a.left(t) < 18-lost { // the guess meanwhile was charged afterwards
				t.Errorf("the late call took a token: %d left after %d lost replies", a.left(t), lost)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("guardd does not find Redis again")
}

func TestStartWithoutRedisAnswersAloneAndFindsItLater(t *testing.T) {
	redis := redistest.Start(t)
	redis.Stop()
	p := startGuardd(t, "--redis", redis.URL(), "--redis-deadline", "2s", "--secret-file", writeFile(t, "secret", longLine))
	if _, err := p.awaitLog("redis does not answer"); err != nil {
		t.Error(err)
	}
	if a := p.attempt(t, "alice", "192.0.2.1"); !a.Degraded || !a.Proceed {
		t.Errorf("before Redis is there: %+v", a)
	}
	redis.Restart()
	p.healthy(t, "alice", "192.0.2.1")
}

// Names, addresses of accounts and tokens must not be readable by whoever
// reads Redis.
func TestNoNameReachesRedis(t *testing.T) {
	redis := redistest.Start(t)
	p := fleet(t, 1, redis.URL())[0]
	a := p.attempt(t, "alice.in.clear@example.com", "192.0.2.1", `,"request_id":"req-in-clear","user_agent":"agent-in-clear","password_tag":"`+hex.EncodeToString([]byte("tag-in-clear-too"))+`"`)
	p.post(t, "/v1/outcomes", `{"account":"alice.in.clear@example.com","outcome":"failure","attempt":"`+a.Attempt+`"}`, nil)
	p.post(t, "/v1/devices/revoke", `{"account":"alice.in.clear@example.com"}`, nil)
	client := redis.Client()
	names, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(names) < 5 {
		t.Fatalf("%d keys, %v", len(names), err)
	}
	for _, name := range names {
		dump, err := client.Dump(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name+dump, "in.clear") || strings.Contains(name+dump, "in-clear") {
			t.Errorf("%s holds a name", name)
		}
		if ttl, err := client.TTL(t.Context(), name).Result(); err != nil || ttl <= 0 {
			t.Errorf("%s has no TTL", name)
		}
	}
}

func TestARedisThatDropsKeysIsWarnedOf(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	line, err := fleet(t, 1, server.URL())[0].awaitLog("maxmemory_policy")
	if err != nil || !strings.Contains(line, `"level":"WARN"`) || !strings.Contains(line, "allkeys-lru") {
		t.Error(line, err)
	}
	server.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
	p := fleet(t, 1, server.URL())[0]
	if _, err := p.awaitLog("listening"); err != nil || strings.Contains(p.logged(), "maxmemory_policy") {
		t.Error(err, p.logged())
	}
}
