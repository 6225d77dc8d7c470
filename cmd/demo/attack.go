package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/api/client"
)

// attack is somebody who guesses one account's password from many addresses,
// waits where that is all that is asked of him, may pay people to read
// pictures, and has codes sent to the owner to be a nuisance. He is in this
// process, and so are all his "addresses".
type attack struct {
	guess func(context.Context, guess) *client.AttemptResponse
	hired *readers
	// An attack ends by itself after so many guesses or so long.
	most  int64
	lasts time.Duration

	mu      sync.Mutex
	account string
	cancel  context.CancelFunc
	done    chan struct{}

	made, read, sent atomic.Int64
	answers          [5]atomic.Int64 // by index in answered
}

var answered = []string{client.ActionAllow, client.ActionDelay, client.ActionCaptcha, client.ActionVerify, client.ActionDeny}

const (
	attackGuesses = 3000
	attackLasts   = 30 * time.Second
	attackers     = 4
	// attackPause keeps him from taking the machine that the demo runs on.
	attackPause = 20 * time.Millisecond
)

// begin attacks the account, in place of whoever was attacked before.
func (a *attack) begin(account string, pays bool) {
	a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), a.lasts)
	a.account, a.cancel, a.done = account, cancel, make(chan struct{})
	for _, n := range []*atomic.Int64{&a.made, &a.read, &a.sent} {
		n.Store(0)
	}
	for i := range a.answers {
		a.answers[i].Store(0)
	}
	var all sync.WaitGroup
	for range attackers {
		all.Go(func() { a.work(ctx, account, pays) })
	}
	done := a.done
	go func() { all.Wait(); cancel(); close(done) }()
}

// stop ends the attack, if there is one, and returns when it has ended.
func (a *attack) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel()
		<-a.done
	}
}

func (a *attack) work(ctx context.Context, account string, pays bool) {
	for n := a.made.Add(1); n <= a.most && ctx.Err() == nil; n = a.made.Add(1) {
		g := guess{account: account, password: fmt.Sprintf("letmein%d", n), ip: addressOf(n)}
		if may := a.try(ctx, g); may.Challenge != nil {
			if g.proof = a.solve(ctx, may, pays); g.proof != "" {
				a.try(ctx, g)
			}
		}
		pause(ctx, attackPause)
	}
}

func (a *attack) try(ctx context.Context, g guess) *client.AttemptResponse {
	may := a.guess(ctx, g)
	for i, action := range answered {
		if may.Action == action && !may.Unreachable {
			a.answers[i].Add(1)
		}
	}
	return may
}

// solve returns the proof that may asks for, "" when that is more than he has.
func (a *attack) solve(ctx context.Context, may *client.AttemptResponse, pays bool) string {
	page := may.Challenge.Page
	switch {
	case may.Action == client.ActionDelay && pause(ctx, time.Duration(may.RetryAfterMS)*time.Millisecond):
		return may.Challenge.Token
	case may.Action == client.ActionCaptcha && pays:
		digits := a.hired.read(ask(ctx, http.MethodGet, may.Challenge.Image, nil))
		var solved client.AnswerResponse
		_ = json.Unmarshal(ask(ctx, http.MethodPost, page+"/answer", client.AnswerRequest{Answer: digits}), &solved)
		if solved.Proof != "" {
			a.read.Add(1)
		}
		return solved.Proof
	}
	if ask(ctx, http.MethodPost, page+"/send", client.SendRequest{}) != nil {
		a.sent.Add(1)
	}
	return ""
}

// ask returns the body of guardd's answer to a browser; nil when there is none.
func ask(ctx context.Context, method, url string, body any) []byte {
	b, err := json.Marshal(body)
	if err != nil {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(b))
	if err != nil {
		return nil
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil
	}
	return answer
}

// addressOf makes an address up: of the networks that are set aside for
// documents (RFC 5737, RFC 3849), and so nobody's.
func addressOf(n int64) string {
	if n%2 == 0 {
		return fmt.Sprintf("2001:db8:%x:%x::1", n%0xffff, n)
	}
	net := []string{"192.0.2", "198.51.100", "203.0.113"}[n%3]
	return fmt.Sprintf("%s.%d", net, 1+n/6%254)
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attackView is what the page shows of it.
type attackView struct {
	Account string // "": there was none
	Running bool
	Made    int64
	Read    int64 // pictures
	Sent    int64 // codes asked for
	Answers []tally
}

type tally struct {
	Name string
	N    int64
}

func (a *attack) view() attackView {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := attackView{Account: a.account, Read: a.read.Load(), Sent: a.sent.Load()}
	for i, action := range answered {
		n := a.answers[i].Load()
		v.Answers = append(v.Answers, tally{action, n})
		v.Made += n
	}
	if a.done != nil {
		select {
		case <-a.done:
		default:
			v.Running = true
		}
	}
	return v
}
