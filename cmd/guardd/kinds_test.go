package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/redistest"
)

// oneRung is a policy in which an account has 20 guesses, no fewer and no more:
// then comes verify. Nothing refills while a test runs.
const oneRung = `realms:
  default:
    shards: 8
    delivery: {driver: log}
    flows:
      login:
        limits:
          - {tier: account, name: burst, capacity: 20, refill: 1/1000h, delay: never, captcha: never, verify: empty}
          - {tier: account, name: sustained, off: true}
          - {tier: pair, name: burst, off: true}
          - {tier: pair, name: sustained, off: true}
          - {tier: ip, name: burst, off: true}
          - {tier: ip, name: sustained, off: true}
          - {tier: network, name: burst, off: true}
          - {tier: network, name: sustained, off: true}
          - {tier: flood, name: burst, off: true}
`

// TestNoLeakAtFleetSize is the promise where it is hardest to keep: three
// instances, 200 guesses at once through each, on one account. The deadline is
// so long that no instance decides alone.
func TestNoLeakAtFleetSize(t *testing.T) {
	rounds := 4
	if os.Getenv("GUARDD_SOAK") != "" {
		rounds = 100
	}
	for name, url := range map[string]func() string{
		"one server":             func() string { return redistest.Start(t).URL() },
		"a Cluster, in 8 shards": func() string { return redistest.StartCluster(t, redistest.Options{}).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			redisURL, policy, secret := url(), writeFile(t, "policy.yaml", oneRung), writeFile(t, "guardd.secret", longLine+"\n")
			var all []*process
			for range 3 {
				all = append(all, startGuardd(t, "--redis", redisURL, "--redis-deadline", "10s", "--instances", "3", "--secret-file", secret, "--policy", policy))
			}
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200, MaxConnsPerHost: 200}}
			defer client.CloseIdleConnections()
			for round := range rounds {
				if let := guessTogether(t, client, all, 200, fmt.Sprintf("victim%d", round)); let != 20 {
					t.Errorf("round %d: %d of 600 guesses were let through, not 20", round, let)
				}
			}
		})
	}
}

// guessTogether guesses at one account, so often at once through each instance,
// and counts what was let through.
func guessTogether(t *testing.T, client *http.Client, all []*process, each int, account string) (let int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, p := range all {
		for i := range each {
			wg.Go(func() {
				<-start
				body := fmt.Sprintf(`{"account":%q,"ip":"198.51.100.%d"}`, account, i)
				var a answer
				resp, err := client.Post(p.service+"/v1/attempts", "application/json", strings.NewReader(body))
				if err == nil {
					err = json.NewDecoder(resp.Body).Decode(&a)
					resp.Body.Close()
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case a.Degraded || !a.Proceed && a.Action != "verify":
					t.Errorf("%+v", a)
				case a.Proceed:
					let++
				}
			})
		}
	}
	close(start)
	wg.Wait()
	return let
}

// fleetOf is any kind of Redis.
type fleetOf interface {
	URL() string
	Stop()
	Restart()
}

func TestStartWithoutRedisAndFindItOfEachKind(t *testing.T) {
	strict := redistest.Options{TLS: true, ACL: true}
	for name, start := range map[string]func() (fleetOf, string){
		"one server": func() (fleetOf, string) { s := redistest.StartWith(t, strict); return s, s.CA() },
		"Cluster":    func() (fleetOf, string) { s := redistest.StartCluster(t, strict); return s, s.CA() },
		"Sentinel":   func() (fleetOf, string) { s := redistest.StartSentinels(t, strict); return s, s.CA() },
	} {
		t.Run(name, func(t *testing.T) {
			redis, ca := start()
			redis.Stop()
			p := startTrusting(t, ca, "--redis", redis.URL(), "--redis-deadline", "1s", "--secret-file", writeFile(t, "secret", longLine))
			if _, err := p.awaitLog("redis does not answer"); err != nil {
				t.Error(err)
			}
			if a := p.attempt(t, "alice", "192.0.2.1"); !a.Degraded || !a.Proceed {
				t.Errorf("before Redis is there: %+v", a)
			}
			redis.Restart()
			p.awaitShared(t)
			if s, ok := redis.(*redistest.Sentinels); ok {
				s.Primary.Stop()
				if a := p.attempt(t, "bob", "192.0.2.1"); !a.Proceed {
					t.Errorf("while the primary is gone: %+v", a)
				}
				s.AwaitFailover()
				p.awaitShared(t)
			}
		})
	}
}

// startTrusting is startGuardd with a certificate authority of one's own.
func startTrusting(t *testing.T, ca string, args ...string) *process {
	t.Helper()
	p, err := startProcess("", append(os.Environ(), "SSL_CERT_FILE="+ca), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log(p.logged())
		}
	})
	return p
}

// awaitShared asks until an answer is Redis's: a probe has to come first, and
// the client to find who is primary now.
func (p *process) awaitShared(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(2 * patience); p.attempt(t, "alice", "192.0.2.1").Degraded; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			_, said := get(t, p.admin+"/metrics")
			for line := range strings.Lines(said) {
				if strings.Contains(line, "store_errors") {
					t.Log(line)
				}
			}
			t.Fatal("guardd does not find Redis")
		}
	}
}
