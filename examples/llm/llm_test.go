package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// script is a model that says what a test lets it say.
type script struct{ tokens chan string }

func (s *script) Answer(_ string, most int64, emit func(string) bool) {
	for range most {
		t, ok := <-s.tokens
		if !ok || !emit(t) {
			return
		}
	}
}

// heedful is a store that does nothing for who has gone, as one on a network.
type heedful struct{ *keys.Memory }

func (h heedful) Settle(ctx context.Context, s *keys.Settlement, out *keys.Settled) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return h.Memory.Settle(ctx, s, out)
}

type world struct {
	t      *testing.T
	mu     sync.Mutex
	now    int64
	taker  *plans.Taker
	model  *script
	server *httptest.Server
	// Of each request: who asked is gone, and it is handled.
	gone, done chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: 1_800_000_000 * keys.Second, model: &script{make(chan string)}, gone: make(chan struct{}, 9), done: make(chan struct{}, 9)}
	var err error
	if w.taker, err = newTaker(heedful{keys.NewMemory(keys.MemoryConfig{Now: w.clock})}, w.clock); err != nil {
		t.Fatal(err)
	}
	s := &service{taker: w.taker, model: w.model, now: func() time.Time { return time.UnixMicro(w.clock()) }}
	h := s.handler()
	w.server = httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { w.gone <- struct{}{} })
		h.ServeHTTP(a, r)
		w.done <- struct{}{}
	}))
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) clock() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += d.Microseconds()
}

// left is how many tokens the key has.
func (w *world) left() int64 {
	w.t.Helper()
	d, err := w.taker.Take(context.Background(), &plans.Request{Key: "demo", Rules: []string{tokensRule}})
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Limits[0].Remaining()
}

func (w *world) ask(ctx context.Context, prompt string, most int) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/v1/complete", strings.NewReader(fmt.Sprintf(`{"prompt":%q,"max_tokens":%d}`, prompt, most)))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer demo")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// say has the model of one stream say n tokens.
func (w *world) say(n int) {
	for range n {
		w.model.tokens <- "word"
	}
}

func (w *world) all(a *http.Response) string {
	w.t.Helper()
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// The most is reserved while an answer is made, and what it was is charged.
func TestAnAnswerIsChargedWhatItWas(t *testing.T) {
	w := newWorld(t)
	go func() {
		w.say(40)
		w.model.tokens <- "last"
	}()
	a := w.ask(t.Context(), "ten words of a prompt that is not too long", 1500)
	if got := a.Header.Get("RateLimit"); got != `"tokens";r=490;t=1` {
		t.Errorf("RateLimit while it is made: %s", got)
	}
	in := bufio.NewScanner(a.Body)
	for in.Scan() && in.Text() != "data: last" {
	}
	close(w.model.tokens)
	if text := w.all(a); !strings.Contains(text, "event: done\ndata: stop") && text != "" {
		t.Errorf("the end: %q", text)
	}
	if n := w.left(); n != 2000-10-41 {
		t.Errorf("%d tokens are left of 2000, after 10 of a prompt and 41 of an answer", n)
	}
}

// Who hangs up is charged what was made until then.
func TestWhoHangsUpIsChargedWhatWasMade(t *testing.T) {
	w := newWorld(t)
	ctx, hangUp := context.WithCancel(t.Context())
	go w.say(30)
	a := w.ask(ctx, "five words of a prompt", 1000)
	in := bufio.NewScanner(a.Body)
	for n := 0; n < 30 && in.Scan(); {
		if strings.HasPrefix(in.Text(), "data: ") {
			n++
		}
	}
	hangUp()
	<-w.gone
	w.model.tokens <- "for nobody"
	<-w.done
	if n := w.left(); n != 2000-5-30 {
		t.Errorf("%d tokens are left of 2000, after 5 of a prompt and 30 of an answer", n)
	}
	if d, err := w.taker.Acquire(t.Context(), &plans.SlotRequest{Key: "demo", Rules: []string{streamsRule}}); err != nil || d.Limits[0].InUse != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A third stream waits for one of two, and what cannot be reserved is not begun.
func TestTwoStreamsAtOnceAndNoMoreThanThereIs(t *testing.T) {
	w := newWorld(t)
	one, two := w.ask(t.Context(), "a", 500), w.ask(t.Context(), "b", 500)
	three := w.ask(t.Context(), "c", 500)
	if text := w.all(three); three.StatusCode != 429 || !strings.Contains(text, `"violated-policies":["streams"]`) {
		t.Errorf("%d %s", three.StatusCode, text)
	}
	close(w.model.tokens)
	w.all(one)
	w.all(two)
	before := w.left()
	four := w.ask(t.Context(), "d", 1999)
	if text := w.all(four); four.StatusCode != 429 || !strings.Contains(text, `"violated-policies":["tokens"]`) || four.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s %v", four.StatusCode, text, four.Header)
	}
	if before != 2000-2 || w.left() != before {
		t.Errorf("%d left before a refusal, %d after", before, w.left())
	}
	five := w.ask(t.Context(), "e", 3000)
	if w.all(five); five.StatusCode != 422 || five.Header.Get("Retry-After") != "" {
		t.Errorf("more than there ever is: %d", five.StatusCode)
	}
}

// An answer that takes minutes is charged what it was, though a reservation lives one.
func TestALongAnswerIsSettledMeanwhile(t *testing.T) {
	w := newWorld(t)
	m := &meter{taker: w.taker, now: func() time.Time { return time.UnixMicro(w.clock()) }, key: "demo", rule: tokensRule}
	if d, err := m.reserve(t.Context(), 2000); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	for range 10 {
		w.pass(20 * time.Second)
		if err := m.count(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Never is more missing than was used. That some of it is, although as much has
	// flowed back: what was reserved did not fill the bucket meanwhile.
	if n := w.left(); n < 2000-1000 {
		t.Errorf("%d tokens are left of 2000, after 1000 were used", n)
	}
	// Where another has taken the rest, the answer ends.
	if _, err := m.reserve(t.Context(), w.left()); err != nil {
		t.Fatal(err)
	}
	w.pass(31 * time.Second)
	d, err := w.taker.Take(t.Context(), &plans.Request{Key: "demo", Rules: []string{tokensRule}, Cost: w.left()})
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	if err := m.count(t.Context(), 1); !errors.Is(err, errUsedUp) {
		t.Errorf("%v: others have taken the rest", err)
	}
}
