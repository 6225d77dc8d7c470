package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/redistest"
)

// outage is one thing that befalls Redis, or the way to it.
type outage struct {
	name  string
	begin func(*redistest.Server, []*redistest.Proxy)
	end   func(*redistest.Server, []*redistest.Proxy)
	// forgets says that Redis comes back empty: nobody knows any more what was
	// guessed before.
	forgets bool
}

var outages = []outage{
	{name: "SIGSTOP", begin: func(s *redistest.Server, _ []*redistest.Proxy) { s.Pause() }, end: func(s *redistest.Server, _ []*redistest.Proxy) { s.Resume() }},
	{name: "killed", forgets: true, begin: func(s *redistest.Server, _ []*redistest.Proxy) { s.Stop() }, end: func(s *redistest.Server, _ []*redistest.Proxy) { s.Restart() }},
	{name: "restarted", forgets: true, begin: func(s *redistest.Server, _ []*redistest.Proxy) { s.Restart() }, end: func(*redistest.Server, []*redistest.Proxy) {}},
	{name: "two of three cut off", begin: func(_ *redistest.Server, p []*redistest.Proxy) {
		p[0].Set(redistest.Hang, redistest.Requests)
		p[1].Set(redistest.Hang, redistest.Replies)
	}, end: func(_ *redistest.Server, p []*redistest.Proxy) {
		for _, one := range p[:2] {
			one.Refuse() // what was swallowed never comes
			one.Set(redistest.Healthy, redistest.Requests)
			one.Listen()
		}
	}},
}

// Redis is frozen, killed, restarted, or cut off from some, at the deadline that
// users have and 200 requests a second: each is answered, none waits for Redis
// twice, and guesses at one victim stay under the bound. How much longer the
// answers take, and how soon all is as before, is printed and not judged: it is
// the machine's as well.
func TestFrictionOnlyWhileRedisIsGone(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) { throughAnOutage(t, o) })
	}
}

func throughAnOutage(t *testing.T, o outage) {
	healthy, gone := 100, 200 // requests
	if soak(t) > 0 {
		healthy, gone = 1000, 3000
	}
	server := redistest.Start(t)
	secret, policy := writeFile(t, "guardd.secret", longLine+"\n"), writeFile(t, "policy.yaml", oneRung)
	h := newHerd(t, true)
	var ways []*redistest.Proxy
	for range 3 {
		way := redistest.StartProxy(t, server.Addr())
		ways = append(ways, way)
		h.join("--redis", way.URL(), "--instances", "3", "--secret-file", secret, "--policy", policy)
	}
	seen, unseen := victim(0), victim(1) // one that all know of, and one that nobody has asked for before
	before := h.pace(healthy, seen)
	o.begin(server, ways)
	meanwhile := h.pace(gone, seen, unseen)
	o.end(server, ways)
	took := h.recovered()
	after := h.pace(healthy, seen, unseen)

	bounds := map[string]int{seen: 20 + 20, unseen: 20 + 20} // the capacity, and the outage's max(limit, 3 x instances)
	if o.forgets {
		bounds[seen] += 20
	}
	for name, bound := range bounds {
		h.drainVictim(name)
		if let := h.let[name]; let < 1 || let > bound { // a guess whose reply was lost may have been counted twice
			t.Errorf("%d guesses at %s were let through, of at most %d", let, name, bound)
		}
	}
	for _, m := range h.members {
		// Each call to Redis that failed is of one request, which waited for it once.
		if failed := m.metric(t, `guardd_store_errors_total{`, `operation="take"`); failed > m.alone.Load() {
			t.Errorf("%d calls failed for %d requests", failed, m.alone.Load())
		}
	}
	t.Logf("%s: %d requests at 200/s, %d decided alone; answered within (p99, worst) %s before, %s meanwhile, %s after; added: p99 %s, worst %s; recovered in %s; %d guesses at a victim, of at most %d, and %d at one of the outage, of at most %d",
		o.name, h.answered.Load(), h.decidedAlone.Load(), before, meanwhile, after,
		(meanwhile.p99 - before.p99).Round(10*time.Microsecond), (meanwhile.worst - before.worst).Round(10*time.Microsecond),
		took.Round(time.Millisecond), h.let[seen], bounds[seen], h.let[unseen], bounds[unseen])
}

// waits is how long answers took.
type waits struct{ p99, worst time.Duration }

func (w waits) String() string {
	return fmt.Sprintf("(%s, %s)", w.p99.Round(10*time.Microsecond), w.worst.Round(10*time.Microsecond))
}

// pace makes n requests, one every 5 ms whatever becomes of those before: half are
// guesses at victims.
func (h *herd) pace(n int, victims ...string) waits {
	h.t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i) * 5 * time.Millisecond)
		time.Sleep(time.Until(due))
		wg.Go(func() {
			account := victims[i/2%len(victims)]
			if i%2 != 0 {
				account = fmt.Sprint("person", rand.IntN(1_000_000))
			}
			h.guess(account, fmt.Sprintf("198.51.%d.%d", rand.IntN(256), rand.IntN(256)))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
		})
	}
	wg.Wait()
	slices.Sort(took)
	return waits{took[len(took)*99/100], took[len(took)-1]}
}

// recovered waits until every instance counts in Redis again, and owes nothing.
func (h *herd) recovered() time.Duration {
	h.t.Helper()
	began := time.Now()
	for _, m := range h.members {
		for m.metric(h.t, "guardd_breaker_open{") != 0 || m.metric(h.t, "guardd_debts") != 0 {
			if time.Since(began) > 2*patience {
				h.t.Fatalf("an instance does not find Redis again\n%s", m.logged())
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(began)
}

// drainVictim guesses until Redis refuses, through each instance.
func (h *herd) drainVictim(name string) {
	h.t.Helper()
	for refused := 0; refused < 12; {
		if a, ok := h.guess(name, "192.0.2.1"); !ok {
			return
		} else if !a.Proceed && !a.Degraded {
			refused++
		}
	}
}

// metric adds up the series of a name with all of labels.
func (m *member) metric(t *testing.T, name string, labels ...string) (sum int64) {
	t.Helper()
	_, text := get(t, m.admin+"/metrics")
	found := false
lines:
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || line[0] != ' ' && !strings.HasSuffix(name, "{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(line, l) {
				continue lines
			}
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		found = true
		sum += int64(value)
	}
	if !found {
		t.Fatalf("there is no metric %s with %v", name, labels)
	}
	return sum
}

// Who is cut off while others count on grants its share of a limit once more, as
// far as it does not know what was spent, and so does each that starts
// meanwhile: the bound that README gives, to the guess.
func TestEachInstanceThatIsCutOffOrStartsMeanwhileGrantsOneShare(t *testing.T) {
	server := redistest.Start(t)
	secret, policy := writeFile(t, "guardd.secret", longLine+"\n"), writeFile(t, "policy.yaml", oneRung)
	way := redistest.StartProxy(t, server.Addr())
	h := newHerd(t, true)
	for range 2 {
		h.join("--redis", server.URL(), "--redis-deadline", "10s", "--instances", "3", "--secret-file", secret, "--policy", policy)
	}
	spend := func(account string, through ...*member) (let int) {
		t.Helper()
		for range 25 {
			for _, m := range through {
				a, err := m.ask(h.client, account, "192.0.2.1")
				if err != nil {
					t.Fatal(err)
				}
				if a.Proceed {
					let++
				}
			}
		}
		return let
	}
	third := func(instances string) *member {
		m := &member{process: startGuardd(t, "--redis", way.URL(), "--redis-deadline", "10s", "--instances", instances, "--secret-file", secret, "--policy", policy)}
		t.Cleanup(func() { h.leave(m) })
		return m
	}
	cut := third("3")
	if let := spend("seen", cut); let != 20 {
		t.Errorf("%d guesses at an account of 20", let)
	}
	way.Refuse()
	if let := spend("seen", cut); let != 0 {
		t.Errorf("one that is cut off grants %d guesses more at an account that it has seen spent", let)
	}
	if let := spend("unseen", h.members...); let != 20 {
		t.Errorf("the others let through %d of 20 meanwhile", let)
	}
	if let := spend("unseen", cut); let != 6 {
		t.Errorf("one that is cut off grants %d, its share is 6 of 20", let)
	}
	cut.kill()
	cut = third("3")
	if let := spend("unseen", cut); let != 6 {
		t.Errorf("one that starts meanwhile grants %d, its share is 6 of 20", let)
	}
	cut.kill()
	cut = third("0")
	if let := spend("unseen", cut); let != 3 {
		t.Errorf("one that starts meanwhile and knows of nobody grants %d, not 3", let)
	}
	way.Listen()
	cut.awaitShared(t)
	if let := spend("unseen", cut); let != 0 {
		t.Errorf("back again it grants %d guesses more", let)
	}
}
