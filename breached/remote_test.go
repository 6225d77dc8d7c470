package breached_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
)

// public is a range service as the public one is: padding behind the rows,
// unsorted, and an ETag.
type public struct {
	*httptest.Server
	asked  atomic.Int64
	same   atomic.Int64 // answered 304
	bodies map[breached.Kind]map[string][]byte
}

func startPublic(t *testing.T, corpora ...breachedtest.Corpus) *public {
	p := &public{bodies: map[breached.Kind]map[string][]byte{}}
	for _, c := range corpora {
		p.bodies[c.Kind] = c.Bodies()
	}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *public) serve(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	kind := breached.SHA1
	if r.URL.Query().Get("mode") == "ntlm" {
		kind = breached.NTLM
	}
	body := p.bodies[kind][strings.TrimPrefix(r.URL.Path, "/range/")]
	if r.Header.Get("Add-Padding") != "true" || !strings.Contains(r.UserAgent(), "guardd") || r.Method != http.MethodGet || body == nil {
		http.Error(w, "no", http.StatusNotFound)
		return
	}
	tag := fmt.Sprintf(`W/"%v%s"`, kind, r.URL.Path)
	w.Header().Set("ETag", tag)
	w.Header().Set("Last-Modified", breachedtest.Modified.Format(http.TimeFormat))
	if r.Header.Get("If-None-Match") == tag {
		p.same.Add(1)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(body)
	for i := range 50 {
		fmt.Fprintf(w, "\r\n%0*X:0", kind.SuffixDigits(), (i*7919)%1000)
	}
}

func remote(t *testing.T, c breached.RemoteConfig) *breached.Remote {
	t.Helper()
	r, err := breached.NewRemote(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func complete(kind breached.Kind) breachedtest.Corpus {
	c := breachedtest.Real(kind)
	c.Complete = true
	return c
}

func TestRemoteHoldsToTheContract(t *testing.T) {
	breachedtest.Run(t, func(t *testing.T, c breachedtest.Corpus) breachedtest.Subject {
		p := startPublic(t, c)
		return breachedtest.Subject{Source: remote(t, breached.RemoteConfig{URL: p.URL + "/", Timeout: time.Minute, Cache: 4096}), Ranges: true, Complete: true}
	})
}

var aHash = func() breached.Hash {
	h, err := breached.ParseHash(breached.SHA1, "000000005AD76BD555C1D6D771DE417A4B87E4B4")
	if err != nil {
		panic(err)
	}
	return h
}()

// TestWhatIsNoAnswerIsUnknown is the list of what has been taken for "safe" or
// for "breached" elsewhere.
func TestWhatIsNoAnswerIsUnknown(t *testing.T) {
	row := aHash.Suffix() + ":10"
	for name, answer := range map[string]http.HandlerFunc{
		"a page":              func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>Sign in</html>") },
		"nothing":             func(http.ResponseWriter, *http.Request) {},
		"only padding":        func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, aHash.Suffix()+":0") },
		"NTLM rows":           func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, row[:27]+":10") },
		"cut in a row":        func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, row+"\r\n0000") },
		"202":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); io.WriteString(w, row) },
		"204":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"304 of nothing kept": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) },
		"403":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403); io.WriteString(w, row) },
		"404":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"429":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"500":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"503 with rows":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); io.WriteString(w, row) },
		"a body that is cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10000")
			io.WriteString(w, row)
		},
		"a connection that breaks": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a redirect to rows": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/rows" {
				io.WriteString(w, row)
				return
			}
			http.Redirect(w, r, "/rows", http.StatusFound)
		},
		"too much": func(w http.ResponseWriter, _ *http.Request) {
			for range 40_000 {
				io.WriteString(w, row+"\r\n")
			}
		},
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(answer)
			defer s.Close()
			timeout := time.Minute
			if name == "no answer" {
				timeout = 20 * time.Millisecond
			}
			unknown(t, remote(t, breached.RemoteConfig{URL: s.URL, Timeout: timeout}))
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	unknown(t, remote(t, breached.RemoteConfig{URL: "http://" + l.Addr().String()}))
}

// unknown fails unless nothing is known, and nothing is told.
func unknown(t *testing.T, s breached.Source) {
	t.Helper()
	v, err := s.Check(context.Background(), aHash)
	r, err2 := s.Range(context.Background(), breached.SHA1, aHash.Prefix())
	if v != (breached.Verdict{}) || r != nil || !errors.Is(err, breached.ErrRemote) || !errors.Is(err2, breached.ErrRemote) {
		t.Fatalf("%+v, %v; %v, %v", v, err, r, err2)
	}
	if errors.Is(err2, breached.ErrNoRange) || errors.Is(err, breached.ErrKind) {
		t.Errorf("unknown now is not never: %v, %v", err, err2)
	}
	for _, text := range []string{err.Error(), err2.Error()} {
		if strings.Contains(text, "/range/") || strings.Contains(text, aHash.Prefix()) || strings.Contains(text, aHash.Suffix()[:8]) {
			t.Errorf("the error tells of the hash: %s", text)
		}
	}
}

func TestARangeIsKeptAndThenAskedForByItsTag(t *testing.T) {
	p := startPublic(t, complete(breached.SHA1))
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	r := remote(t, breached.RemoteConfig{URL: p.URL, Timeout: time.Minute, Fresh: time.Hour, Now: func() time.Time { return now }})
	for _, step := range []struct {
		pass        time.Duration
		asked, same int64
	}{{0, 1, 0}, {59 * time.Minute, 1, 0}, {time.Minute, 2, 1}, {time.Minute, 2, 1}, {time.Hour, 3, 2}} {
		now = now.Add(step.pass)
		if v, err := r.Check(t.Context(), aHash); err != nil || v.Count != 10 || p.asked.Load() != step.asked || p.same.Load() != step.same {
			t.Fatalf("after %s: %+v, %v, asked %d times, unchanged %d; want %d, %d", step.pass, v, err, p.asked.Load(), p.same.Load(), step.asked, step.same)
		}
	}
	// What is kept and no longer fresh is no answer when the service is gone.
	p.Close()
	now = now.Add(2 * time.Hour)
	unknown(t, r)
}

func TestTheRangesThatAreKeptAreFew(t *testing.T) {
	c := complete(breached.SHA1).With(map[string]uint64{"a": 1, "b": 2, "c": 3})
	p := startPublic(t, c)
	r := remote(t, breached.RemoteConfig{URL: p.URL, Timeout: time.Minute, Cache: 2})
	ask := func(password string) {
		t.Helper()
		if v, err := r.Check(t.Context(), breached.HashPassword(breached.SHA1, []byte(password))); err != nil || !v.Breached {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	for i, step := range []struct {
		password string
		asked    int64
	}{{"a", 1}, {"b", 2}, {"a", 2}, {"c", 3}, {"a", 3}, {"c", 3}, {"b", 4}, {"c", 4}, {"a", 5}} {
		if ask(step.password); p.asked.Load() != step.asked {
			t.Errorf("step %d: asked %d times, want %d", i, p.asked.Load(), step.asked)
		}
	}
	none := remote(t, breached.RemoteConfig{URL: p.URL, Timeout: time.Minute, Cache: -1})
	for range 3 {
		if _, err := none.Check(t.Context(), aHash); err != nil {
			t.Fatal(err)
		}
	}
	if p.asked.Load() != 8 {
		t.Errorf("without a cache: asked %d times in all", p.asked.Load())
	}
}

// Many who ask for one range are one question, and the questions at once are
// few, so that a flood of sign-ups is none at the public service.
func TestQuestionsAreFew(t *testing.T) {
	var now, most, asked atomic.Int64
	let := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		for n := now.Add(1); n > most.Load(); {
			most.Store(n)
		}
		<-let
		now.Add(-1)
		io.WriteString(w, aHash.Suffix()+":10")
	}))
	defer s.Close()
	r := remote(t, breached.RemoteConfig{URL: s.URL, Timeout: time.Minute, Parallel: 2})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := r.Range(context.Background(), breached.SHA1, fmt.Sprintf("%05X", i%4)); err != nil {
				t.Error(err)
			}
		})
	}
	for asked.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	// Who waits for a turn longer than he may has no answer.
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Range(impatient, breached.SHA1, "FFFFF"); !errors.Is(err, breached.ErrRemote) {
		t.Errorf("%v", err)
	}
	close(let)
	wg.Wait()
	if most.Load() > 2 || asked.Load() < 4 || asked.Load() > 8 {
		t.Errorf("%d at once, %d in all; want 2, and 4 and few more", most.Load(), asked.Load())
	}
}

func TestBadRemotes(t *testing.T) {
	for want, c := range map[string]breached.RemoteConfig{
		"url: ":      {URL: "api.example.com"},
		"url:":       {URL: "https://user:secret@api.example.com"},
		"url: must":  {URL: "https://api.example.com/?key=1"},
		"timeout: ":  {Timeout: -1},
		"fresh: ":    {Fresh: -1},
		"parallel: ": {Parallel: -1},
	} {
		if _, err := breached.NewRemote(c); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
