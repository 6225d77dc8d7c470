package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate/sim"
	"github.com/guardd/guardd/api/client"
)

// traffic plays a site's logins, an attack among them, to running guardds, over
// HTTP and by the client that login handlers use. Its callers of a general API
// ask for plan limits meanwhile.
type traffic struct {
	t         *testing.T
	instances []*guarddProcess
	asked     []*client.Client

	mu      sync.Mutex
	devices map[string]string // of accounts
	codes   map[string]string // of accounts: those that were delivered last
	failed  error             // the first
}

// startTraffic plays until the test ends.
func startTraffic(t *testing.T, instances ...*guarddProcess) {
	t.Helper()
	s, err := sim.ScenarioNamed("stuffing-8000x4")
	if err != nil {
		t.Fatal(err)
	}
	// Half a minute of calm, then the attack, at twice the volume of everybody else.
	logins := s.Play(sim.Config{Seed: 9, Volume: 2, Before: 30e6, During: 1200e6, After: 1e6})
	tr := &traffic{t: t, instances: instances, devices: map[string]string{}, codes: map[string]string{}}
	for _, p := range instances {
		c, err := client.New(client.Config{URL: "http://" + p.service, Timeout: 2 * time.Second, WaitOut: 1500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		tr.asked = append(tr.asked, c)
	}
	ctx, stop := context.WithCancel(t.Context())
	next := make(chan int)
	var workers sync.WaitGroup
	for range 16 { // most of them wait as they were told
		workers.Go(func() {
			for i := range next {
				tr.login(ctx, i, &logins[i%len(logins)])
				tr.api(i)
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		pace := time.NewTicker(15 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		stop()
		workers.Wait()
		for _, c := range tr.asked {
			c.Close()
		}
		if tr.failed != nil {
			t.Logf("traffic: %v", tr.failed)
		}
	})
}

// denied is on an operator's list.
const denied = "203.0.113.66"

// login is one visitor.
func (tr *traffic) login(ctx context.Context, i int, l *sim.Login) {
	c, p := tr.asked[i%len(tr.asked)], tr.instances[i%len(tr.instances)]
	q := client.AttemptRequest{Account: l.Account, IP: l.IP.String(), UserAgent: l.UserAgent, PasswordTag: l.Tag, PasswordBreached: l.Breached}
	if l.Home {
		tr.mu.Lock()
		q.Device = tr.devices[l.Account]
		tr.mu.Unlock()
	}
	if i%40 == 0 {
		q.Proof = "forged" // somebody tries
	}
	if i%7 == 0 {
		q.Account, q.IP = "victim", "203.0.113.7" // one guesses at one account, and climbs
	}
	if i%20 == 1 {
		q.IP = denied
	}
	may, err := c.Attempt(ctx, q)
	if tr.note(err) {
		return
	}
	if !may.Proceed && may.Challenge != nil && may.Challenge.Page != "" {
		if q.Proof = tr.solve(ctx, p, q.Account, may.Challenge.Token, i); q.Proof == "" {
			return
		}
		if may, err = c.Attempt(ctx, q); tr.note(err) {
			return
		}
	}
	if !may.Proceed {
		return
	}
	word := client.OutcomeFailure
	switch {
	case l.Unknown:
		word = client.OutcomeUnknownAccount
	case l.Right:
		word = client.OutcomeSuccess
	}
	told, err := c.Outcome(ctx, client.OutcomeRequest{Attempt: may.Attempt, Account: q.Account, Outcome: word, PasswordBreached: l.Breached})
	if !tr.note(err) && l.Home && told.Device != "" {
		tr.mu.Lock()
		tr.devices[l.Account] = told.Device
		tr.mu.Unlock()
	}
}

// solve goes the way of a challenge's page: looks at it, has a code sent, tries a
// wrong answer now and then, and types the code. "": gives up.
func (tr *traffic) solve(ctx context.Context, p *guarddProcess, account, token string, i int) (proof string) {
	page := "http://" + p.service + "/challenges/" + token
	for _, part := range []string{"", "/image.png", "/audio.wav?lang=en"}[:1+i%3] {
		get(page + part)
	}
	if i%3 == 0 {
		tr.post(page+"/answer", `{"answer":"000000"}`, nil)
		return ""
	}
	var sent client.SendResponse
	tr.post(page+"/send", `{}`, &sent)
	code := tr.code(ctx, p, account, token, sent.Sent)
	if code == "" {
		return ""
	}
	var a client.AnswerResponse
	tr.post(page+"/answer", `{"answer":"`+code+`"}`, &a)
	return a.Proof
}

// code is what the account's owner finds in the mail: the one that was just sent,
// which takes its time, or one that was sent for an earlier challenge.
func (tr *traffic) code(ctx context.Context, p *guarddProcess, account, token string, sent bool) string {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; sent && n < 100; n++ {
		if code := p.code(token); code != "" {
			tr.mu.Lock()
			tr.codes[account] = code
			tr.mu.Unlock()
			return code
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ""
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.codes[account]
}

// api is a caller of a general API.
func (tr *traffic) api(i int) {
	base := "http://" + tr.instances[i%len(tr.instances)].service
	var took client.TakeResponse
	tr.post(base+"/v1/limits/take", `{"key":"key-of-acme","route":"GET /search","reserve":true}`, &took)
	if took.Reservation != "" {
		tr.post(base+"/v1/limits/settle", `{"reservation":"`+took.Reservation+`","cost":0}`, nil)
	}
	tr.post(base+"/v1/limits/take", `{"key":"another","rule":"hot"}`, nil)
	var held client.AcquireResponse
	if tr.post(base+"/v1/limits/acquire", `{"key":"another","rule":"jobs"}`, &held); held.Slot != "" {
		tr.post(base+"/v1/limits/release", `{"slot":"`+held.Slot+`"}`, nil)
	}
	if i%10 == 0 {
		tr.post(base+"/v1/limits/take", `{"key":"key-of-acme","rule":"burst","cost":1000}`, nil) // never possible
		tr.post(base+"/v1/breached/check", `{"sha1":"5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8"}`, nil)
		get(base + "/v1/breached/range/5BAA6")
	}
}

// post sends JSON, and reads the answer into a where it is one.
func (tr *traffic) post(url, body string, a any) {
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if tr.note(err) {
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if !tr.note(err) && a != nil && resp.StatusCode < 300 {
		tr.note(json.Unmarshal(text, a))
	}
}

// note keeps the first error for the log: instances are killed under it, so that
// some are part of the game.
func (tr *traffic) note(err error) bool {
	if err == nil {
		return false
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.failed == nil {
		tr.failed = err
	}
	return true
}
