package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

const sixAtOnce = `rules: [{name: inflight, kind: concurrency, capacity: 6, ttl: 1s}]
`

// callers hold slots of one key at instances that come and go.
type callers struct {
	t     *testing.T
	mu    sync.RWMutex // of all, and held
	all   []*process
	held  []held
	begun time.Time
	got   atomic.Int64
	no    atomic.Int64
	lost  atomic.Int64 // calls without an answer
}

// held is a time for which a caller knows that he has a slot: from the answer
// until he lets it go, or until it may have expired, as seen from his question.
type held struct{ from, to time.Duration }

// most is how many were held at once.
func (c *callers) most() (most int) {
	type edge struct {
		at time.Duration
		by int
	}
	var edges []edge
	for _, h := range c.held {
		if h.to > h.from {
			edges = append(edges, edge{h.from, 1}, edge{h.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, e := range edges {
		n += e.by
		most = max(most, n)
	}
	return most
}

// post asks one of the instances; ok is false without an answer.
func (c *callers) post(path, body string, out any) (ok bool) {
	c.mu.RLock()
	url := c.all[rand.IntN(len(c.all))].service
	c.mu.RUnlock()
	a, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		c.lost.Add(1)
		return false
	}
	defer a.Body.Close()
	if err := json.UnmarshalRead(a.Body, out); err != nil || a.StatusCode != http.StatusOK {
		c.lost.Add(1)
		return false
	}
	return true
}

// work acquires a slot, holds it for some time, and releases it, or is killed and
// does not.
func (c *callers) work(id string) {
	var a client.AcquireResponse
	asked := time.Since(c.begun)
	if !c.post("/v1/limits/acquire", fmt.Sprintf(`{"key":"acme","rule":"inflight","request_id":%q}`, id), &a) {
		return
	}
	answered := time.Since(c.begun)
	if a.InUse > 6 || a.Degraded {
		c.t.Errorf("%+v", a)
	}
	if !a.Allowed {
		c.no.Add(1)
		return
	}
	c.got.Add(1)
	time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // the work that it is held for
	c.mu.Lock()
	c.held = append(c.held, held{answered, min(time.Since(c.begun), asked+time.Second)})
	c.mu.Unlock()
	if rand.IntN(20) == 0 {
		return // killed
	}
	var r client.ReleaseResponse
	c.post("/v1/limits/release", fmt.Sprintf(`{"slot":%q}`, a.Slot), &r)
}

// Three instances, killed and started again while callers hold slots, of whom some
// never release them: at no time do more hold one than there are, and all of them
// come back.
func TestSlotsOfInstancesThatAreKilled(t *testing.T) {
	redis := redistest.Start(t)
	args := []string{"--limits", writeFile(t, "limits.yaml", sixAtOnce), "--redis", redis.URL(), "--redis-deadline", "10s", "--secret-file", writeFile(t, "secret", longLine)}
	c := &callers{t: t, begun: time.Now()}
	for range 3 {
		c.all = append(c.all, startGuardd(t, args...))
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 12 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					c.work(fmt.Sprint(i, " ", n))
				}
			}
		})
	}
	for i := range 4 {
		n := c.got.Load() + 30
		for end := time.Now().Add(patience); c.got.Load() < n && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		c.mu.RLock()
		old := c.all[i%3]
		c.mu.RUnlock()
		old.kill() // with calls under way
		p := startGuardd(t, args...)
		c.mu.Lock()
		c.all[i%3] = p
		c.mu.Unlock()
	}
	close(stop)
	wg.Wait()
	t.Logf("%d got one of 6 slots, %d did not, %d had no answer; at most %d held one at once", c.got.Load(), c.no.Load(), c.lost.Load(), c.most())
	if c.most() > 6 || c.got.Load() < 100 || c.no.Load() == 0 || c.lost.Load() == 0 {
		t.Errorf("held %d at once, %d got one, %d refused, %d unanswered", c.most(), c.got.Load(), c.no.Load(), c.lost.Load())
	}
	// Nobody is left. What was not released expires.
	for i := range 7 {
		var a client.AcquireResponse
		c.all[0].until(t, "a slot to come back", func() bool {
			if !c.post("/v1/limits/acquire", fmt.Sprintf(`{"key":"acme","rule":"inflight","request_id":"last %d"}`, i), &a) {
				t.Fatal("no answer")
			}
			for j := range i { // those that came back stay held
				var renewed client.AcquireResponse
				c.post("/v1/limits/acquire", fmt.Sprintf(`{"key":"acme","rule":"inflight","request_id":"last %d"}`, j), &renewed)
			}
			return a.Allowed || i == 6
		})
		if a.Allowed != (i < 6) {
			t.Errorf("slot %d of 6: %+v", i+1, a)
		}
	}
}
