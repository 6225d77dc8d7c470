package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/aggregate/sim"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/browsertest"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/redisstore"
)

// status is what the status page of this instance asks for.
func (p *process) status(t *testing.T) (a api.StatusAnswer) {
	t.Helper()
	code, body := get(t, p.admin+api.RouteStatus)
	if err := json.Unmarshal([]byte(body), &a); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	return a
}

// dependency is how one of them fares.
func (p *process) dependency(t *testing.T, name string) api.Dependency {
	t.Helper()
	for _, d := range p.status(t).Dependencies {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("no dependency %q", name)
	return api.Dependency{}
}

// played has somebody stuff credentials at p, beside honest people who bring no known
// device, as fast as said, until the test ends. Nobody solves what he is asked. It
// returns how many logins were asked about so far.
func (p *process) played(t *testing.T, everyMS int, seed int64) *atomic.Int64 {
	t.Helper()
	s, err := sim.ScenarioNamed("stuffing-8000x4")
	if err != nil {
		t.Fatal(err)
	}
	logins := s.Play(sim.Config{Seed: seed, PerDay: sim.DefaultPerDay, Before: 10e6, During: 1200e6, After: 1e6})
	var asked atomic.Int64
	stop, next := make(chan struct{}), make(chan int)
	var workers sync.WaitGroup
	client := &http.Client{Timeout: 10 * time.Second}
	post := func(path, body string, out any) bool {
		resp, err := client.Post(p.service+path, "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(out) == nil
	}
	for range 6 {
		workers.Go(func() {
			for i := range next {
				l := logins[i%len(logins)]
				var a struct {
					Proceed bool
					Attempt string
				}
				body := fmt.Sprintf(`{"account":%q,"ip":%q,"user_agent":%q,"password_tag":%q,"password_breached":%t}`, l.Account, l.IP, l.UserAgent, l.Tag, l.Breached)
				if post("/v1/attempts", body, &a) && a.Proceed {
					outcome := "failure"
					if l.Right {
						outcome = "success"
					} else if l.Unknown {
						outcome = "unknown_account"
					}
					var told struct{}
					post("/v1/outcomes", fmt.Sprintf(`{"attempt":%q,"account":%q,"outcome":%q}`, a.Attempt, l.Account, outcome), &told)
				}
				asked.Add(1)
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		pace := time.NewTicker(time.Duration(everyMS) * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-pace.C:
			case <-stop:
				return
			}
			select {
			case next <- i:
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		workers.Wait()
		client.CloseIdleConnections()
	})
	return &asked
}

// learnedByNow is what detection knows of a site of so many logins a day after four
// weeks that end now, at what is a Wednesday's noon there, whatever it is here.
func learnedByNow(perDay float64) []byte {
	const noon = sim.Start + (2*24+12)*3600*keys.Second
	now := time.Now().UnixMicro()
	shift := now - now%detect.Width - noon
	bins, d := sim.NewBins(perDay, 3, noon-sim.WarmUp, false), detect.New(1)
	for range sim.WarmUp / detect.Width {
		b := bins.Next()
		b.Start += shift
		d.Watch.Step(&b, false)
	}
	return d.Save()
}

// TestStatusOfARealRun: a guardd that knows what its realm usually looks like is
// attacked, and the page says so: at the instance that reads the realm and at another.
// With GUARDD_SCREENSHOTS the pictures of the documents are taken (make pictures).
func TestStatusOfARealRun(t *testing.T) {
	redis := redistest.Start(t)
	client, err := redisstore.Open(redis.URL(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	docs := redisstore.New(redisstore.Config{Client: client, Deadline: 5 * time.Second})
	// What is played is as many honest logins as guesses, and 20 of each a second.
	if done, err := docs.Swap(t.Context(), keys.Learned("default", "watch"), nil, learnedByNow(1_100_000), keys.Day); err != nil || !done {
		t.Fatal(done, err)
	}
	args := []string{"--redis", redis.URL(), "--redis-deadline", "1s", "--instances", "1", "--secret-file", writeFile(t, "secret", longLine)}
	p, other := startGuardd(t, args...), startGuardd(t, append(args, "--aggregate=false")...)
	asked := p.played(t, 25, 5)
	late := time.Now().Add(4 * time.Minute)
	for {
		if s := p.status(t); s.Posture != nil && s.Posture.Posture != "normal" && len(s.Campaigns) > 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d logins, and nothing is found: %+v", asked.Load(), p.status(t).Detection)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if os.Getenv("GUARDD_SCREENSHOTS") != "" {
		time.Sleep(5 * time.Minute)
	}
	s := p.status(t)
	if !s.ReadHere || s.Mode != "on" || s.Detection.Learning || s.Detection.Excess <= s.Detection.Expected || len(s.Networks) == 0 || len(s.Accounts) == 0 || s.AsOf.IsZero() || s.Instances != 1 {
		t.Errorf("%+v", s)
	}
	let, wrong := uint64(0), uint64(0)
	for _, m := range s.Minutes {
		let, wrong = let+m.Allow, wrong+m.Failures
	}
	if let == 0 || wrong == 0 {
		t.Errorf("nobody was let in, or nobody was wrong: %+v", s.Minutes)
	}
	found := func(q *process) bool {
		o := q.status(t)
		return !o.ReadHere && len(o.Campaigns) > 0 && o.Posture != nil && o.Posture.Posture != "normal" && len(o.Networks) > 0
	}
	other.until(t, "what the reader has written", func() bool { return found(other) })
	if d := other.dependency(t, "reader"); d.State != api.DependencyOff {
		t.Errorf("one that reads nothing says %+v", d)
	}
	p.until(t, "one of the two says that the posture has changed", func() bool {
		return regexp.MustCompile(`"msg":"the posture has changed".*"reason":"detection"`).MatchString(p.logged() + other.logged())
	})

	b := browsertest.Open(t)
	b.Sized(1200, 800)
	b.Visit(p.admin + api.RouteStatusPage)
	b.Reads("distributed guessing")
	b.Reads("Detection has set")
	b.Reads("Redis")
	b.Fits()
	b.Tab("#accounts button")
	b.Press(kb.Enter)
	b.Fill("#ip", s.Networks[0].Network[:strings.IndexByte(s.Networks[0].Network, '/')])
	b.Reads("An attempt now would be answered")
	b.Dark(false)
	b.Shoot("status")
	b.Sized(390, 844)
	b.Dark(true)
	b.Fits()
	b.Shoot("phone")
	b.Sized(320, 640)
	b.Fits()

	redis.Stop()
	p.until(t, "the store is gone", func() bool { return p.dependency(t, "store").State == api.DependencyDown })
	b.Reads("Redis does not answer")
	b.Await("document.querySelector('#chip').textContent == 'degraded'")
}

// TestStatusOfAFreshStart: what a laptop shows, with nothing configured.
func TestStatusOfAFreshStart(t *testing.T) {
	p := startGuardd(t)
	s := p.status(t)
	if s.Posture == nil || s.Posture.Posture != "normal" || s.Status != "ok" || s.Mode != "on" || len(s.Minutes) != 0 && len(s.Minutes) != 30 {
		t.Errorf("%+v", s)
	}
	want := map[string]string{"store": "ok", "events": "ok", "reader": "ok", "operators": "ok", "breached": "off", "limits_db": "off"}
	for name, state := range want {
		if d := p.dependency(t, name); d.State != state {
			t.Errorf("%+v, not %s", d, state)
		}
	}
	p.attempt(t, "alice", "203.0.113.7")
	p.until(t, "the attempt is seen", func() bool {
		s := p.status(t)
		n := len(s.Minutes)
		return n == 30 && s.Minutes[n-1].Allow+s.Minutes[n-2].Allow == 1
	})
	if code, body := get(t, p.admin+"/admin"); code != http.StatusOK || !strings.Contains(body, "<title>guardd: status</title>") {
		t.Errorf("%d %.80s", code, body)
	}
}
