package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// soak is GUARDD_SOAK, by which the tests here do what `make test` has no time
// for, else 0.
func soak(t *testing.T) int {
	t.Helper()
	text := os.Getenv("GUARDD_SOAK")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GUARDD_SOAK=%s is not a whole number above 0", text)
	}
	return n
}

// herd is a fleet behind a balancer whose instances come and go under load. Every
// instance that is not condemned has to answer every request, and by Redis where
// alone is false.
type herd struct {
	t      *testing.T
	client *http.Client
	alone  bool

	mu      sync.Mutex
	members []*member
	let     map[string]int // guesses let through, by account
	lost    map[string]int // that nobody heard the answer of, because their instance was killed

	answered, unheard, retried, decidedAlone atomic.Int64
}

type member struct {
	*process
	condemned atomic.Bool // from before it is killed
	alone     atomic.Int64
}

func newHerd(t *testing.T, alone bool) *herd {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &herd{t: t, client: &http.Client{Transport: transport, Timeout: 2 * patience}, alone: alone,
		let: map[string]int{}, lost: map[string]int{}}
}

// join starts an instance and has it take its part of the load.
func (h *herd) join(args ...string) *member {
	h.t.Helper()
	m := &member{process: startGuardd(h.t, args...)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members = append(h.members, m)
	return m
}

// leave has the balancer send no more requests to m.
func (h *herd) leave(m *member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members = slices.DeleteFunc(h.members, func(o *member) bool { return o == m })
}

func (h *herd) any() *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[rand.IntN(len(h.members))]
}

// guess makes one guess through any instance. As balancers do, it tries another
// one where nobody listens: that request has not begun.
func (h *herd) guess(account, ip string) (a answer, ok bool) {
	for range 100 {
		m := h.any()
		a, err := m.ask(h.client, account, ip)
		var dial *net.OpError
		switch {
		case err == nil:
			h.count(m, account, &a)
			return a, true
		case errors.As(err, &dial) && dial.Op == "dial":
			h.retried.Add(1)
		case m.condemned.Load():
			h.unheard.Add(1)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.lost[account]++
			return a, false
		default:
			h.t.Errorf("an instance that lives did not answer: %v", err)
			return a, false
		}
	}
	h.t.Error("nobody listens")
	return a, false
}

func (h *herd) count(m *member, account string, a *answer) {
	h.answered.Add(1)
	if a.Degraded {
		h.decidedAlone.Add(1)
		m.alone.Add(1)
		if !h.alone {
			h.t.Errorf("decided alone: %+v", *a)
		}
	}
	if a.Proceed {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.let[account]++
	}
}

// ask makes one guess through m.
func (m *member) ask(client *http.Client, account, ip string) (a answer, err error) {
	return a, m.call(client, "/v1/attempts", fmt.Sprintf(`{"account":%q,"ip":%q}`, account, ip), &a)
}

func (m *member) call(client *http.Client, path, body string, out any) error {
	resp, err := client.Post(m.service+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != 200 {
		return fmt.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
	return json.Unmarshal(text, out)
}

// victims are accounts that everybody guesses at.
const victims = 20

func victim(i int) string { return fmt.Sprint("victim", i%victims) }

// load guesses with so many visitors at once, half of them at victims and half as
// people who sign in and say so, until stop is closed.
func (h *herd) load(visitors int, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range visitors {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				ip := fmt.Sprintf("198.51.%d.%d", rand.IntN(256), rand.IntN(256))
				if i%2 == 0 {
					h.guess(victim(rand.IntN(victims)), ip)
					continue
				}
				account := fmt.Sprint("person", rand.IntN(5000))
				if a, ok := h.guess(account, ip); ok && a.Proceed {
					h.report(account, a.Attempt)
				}
			}
		})
	}
	return &wg
}

// report says to any instance that the attempt succeeded.
func (h *herd) report(account, attempt string) {
	m := h.any()
	var said answer
	err := m.call(h.client, "/v1/outcomes", fmt.Sprintf(`{"account":%q,"attempt":%q,"outcome":"success"}`, account, attempt), &said)
	var dial *net.OpError
	if err != nil && !m.condemned.Load() && !(errors.As(err, &dial) && dial.Op == "dial") {
		h.t.Errorf("an instance that lives did not book an outcome: %v", err)
	}
}

// until waits for so many more answers.
func (h *herd) until(more int64) {
	h.t.Helper()
	goal, began := h.answered.Load()+more, time.Now()
	for h.answered.Load() < goal && !h.t.Failed() {
		if time.Since(began) > 10*patience {
			h.t.Fatalf("%d answers of %d have come", h.answered.Load(), goal)
		}
		time.Sleep(time.Millisecond)
	}
}

// drained guesses at each victim until it is refused, and holds what was let
// through in all to exactly the capacity: less only by guesses of which nobody
// heard the answer.
func (h *herd) drained(capacity int) {
	h.t.Helper()
	for i := range victims {
		name := victim(i)
		for {
			if a, ok := h.guess(name, "192.0.2.1"); !ok || !a.Proceed {
				break
			}
		}
		h.mu.Lock()
		let, lost := h.let[name], h.lost[name]
		h.mu.Unlock()
		if let > capacity || let+lost < capacity {
			h.t.Errorf("%s: %d guesses were let through, and of %d the answer was lost; the capacity is %d", name, let, lost, capacity)
		}
	}
}
