package delivery

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/escalation"
)

var (
	rawSecret  = "a secret of more than 24 bytes, as it stands"
	whsecBytes = []byte("0123456789abcdefghijklmnopqrstuv")
	whsec      = "whsec_" + base64.StdEncoding.EncodeToString(whsecBytes)
)

// newHook makes a webhook for srv, on a clock of its own.
func newHook(t *testing.T, srv *httptest.Server, change func(*Config)) (*webhook, *clock) {
	t.Helper()
	c := Config{Realm: "shop", Secrets: [][]byte{[]byte(whsec)}}
	c.Driver, c.URL, c.AllowNetworks = DriverWebhook, srv.URL+"/hook?x=1", []string{"127.0.0.0/8", "::1/128"}
	if change != nil {
		change(&c)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w, clk := d.(*webhook), &clock{at: t0}
	w.retry = clk.retry()
	t.Cleanup(w.client.CloseIdleConnections)
	return w, clk
}

// verify is a receiver's check, written from the Standard Webhooks 1.0.0 text.
func verify(r *http.Request, body, key []byte, now time.Time) error {
	id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	n, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || strings.Contains(id, ".") || err != nil {
		return fmt.Errorf("id %q, timestamp %q", id, stamp)
	}
	if d := now.Sub(time.Unix(n, 0)); d.Abs() > time.Minute {
		return fmt.Errorf("timestamp is %v off", d)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "." + string(body)))
	for _, s := range strings.Split(r.Header.Get("webhook-signature"), " ") {
		version, sig, _ := strings.Cut(s, ",")
		got, err := base64.StdEncoding.DecodeString(sig)
		if version == "v1" && err == nil && hmac.Equal(got, mac.Sum(nil)) {
			return nil
		}
	}
	return fmt.Errorf("no signature of %q fits", r.Header.Get("webhook-signature"))
}

func TestWebhookPostsWhatAReceiverCanVerify(t *testing.T) {
	for _, row := range []struct {
		name    string
		secrets []string
		keys    [][]byte // each must verify
		message *escalation.Message
		body    string
	}{
		{"code", []string{whsec}, [][]byte{whsecBytes}, code("alice@example.com"),
			`{"account":"alice@example.com","realm":"shop","flow":"login","code":"ABCDE12345","expires_at":"2026-03-01T12:15:00Z"}`},
		{"raw secret", []string{rawSecret}, [][]byte{[]byte(rawSecret)}, code("bob"),
			`{"account":"bob","realm":"shop","flow":"login","code":"ABCDE12345","expires_at":"2026-03-01T12:15:00Z"}`},
		{"both while changing", []string{rawSecret, whsec}, [][]byte{[]byte(rawSecret), whsecBytes}, notice("bob"),
			`{"account":"bob","realm":"shop","flow":"login","notice":"new_device","at":"2026-03-01T12:00:00Z","suppressed":3}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var problems []string
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				for _, key := range row.keys {
					if err := verify(r, body, key, t0); err != nil {
						problems = append(problems, err.Error())
					}
				}
				if string(body) != row.body || !json.Valid(body) {
					problems = append(problems, "body "+string(body))
				}
				if r.Method != http.MethodPost || r.URL.String() != "/hook?x=1" || r.Header.Get("Content-Type") != "application/json" {
					problems = append(problems, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type"))
				}
			}))
			defer srv.Close()
			w, _ := newHook(t, srv, func(c *Config) {
				c.Secrets = nil
				for _, s := range row.secrets {
					c.Secrets = append(c.Secrets, []byte(s))
				}
			})
			if err := w.Deliver(t.Context(), row.message); err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				t.Error(p)
			}
		})
	}
}

// answer is one thing that a receiver can do to a request.
type answer func(w http.ResponseWriter, r *http.Request)

func status(n int, headers ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(n)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func reset(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
	for b := make([]byte, 64<<10); ; {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

func TestWebhookAnswers(t *testing.T) {
	ok := status(200)
	date := t0.Add(20 * time.Second).Format(http.TimeFormat)
	for _, row := range []struct {
		name    string
		answers []answer
		pauses  []time.Duration
		ending  string
	}{
		{"200", []answer{ok}, nil, arrived},
		{"202", []answer{status(202)}, nil, arrived},
		{"204", []answer{status(204)}, nil, arrived},
		{"an endless 200", []answer{endless}, nil, arrived},
		{"400", []answer{status(400)}, nil, forGood},
		{"401", []answer{status(401)}, nil, forGood},
		{"404", []answer{status(404)}, nil, forGood},
		{"410", []answer{status(410)}, nil, forGood},
		{"404 with Retry-After", []answer{status(404, "Retry-After", "1")}, nil, forGood},
		{"408 then 200", []answer{status(408), ok}, seconds(.5), arrived},
		{"429 then 200", []answer{status(429, "Retry-After", "30"), ok}, seconds(30), arrived},
		{"503 with a date", []answer{status(503, "Retry-After", date), ok}, seconds(20), arrived},
		{"503 with a past date", []answer{status(503, "Retry-After", t0.Add(-time.Hour).Format(http.TimeFormat)), ok}, seconds(.5), arrived},
		{"503 with nonsense", []answer{status(503, "Retry-After", "soon"), ok}, seconds(.5), arrived},
		{"503 with less than nothing", []answer{status(503, "Retry-After", "-5"), ok}, seconds(.5), arrived},
		{"429 for a day", []answer{status(429, "Retry-After", "86400")}, nil, forGood},
		{"500 502 504 then 200", []answer{status(500), status(502), status(504), ok}, seconds(.5, 1, 2), arrived},
		{"a redirect", []answer{status(302, "Location", "/elsewhere")}, nil, forGood},
		{"a redirect that keeps the method", []answer{status(307, "Location", "/elsewhere")}, nil, forGood},
		{"304", []answer{status(304)}, nil, forGood},
		{"reset then 200", []answer{reset, ok}, seconds(.5), arrived},
		{"reset then 400", []answer{reset, status(400)}, seconds(.5), uncertain},
		{"hang then 200", []answer{hang, ok}, seconds(.5), arrived},
		{"hang then 410", []answer{hang, status(410)}, seconds(.5), uncertain},
	} {
		t.Run(row.name, func(t *testing.T) {
			var n atomic.Int32
			var ids, stamps []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				i := int(n.Add(1)) - 1
				ids = append(ids, r.Header.Get("webhook-id"))
				stamps = append(stamps, r.Header.Get("webhook-timestamp"))
				if i >= len(row.answers) || r.URL.Path != "/hook" {
					t.Errorf("request %d to %s was not expected", i+1, r.URL)
					return
				}
				row.answers[i](w, r)
			}))
			defer srv.Close()
			w, clk := newHook(t, srv, nil)
			if strings.HasPrefix(row.name, "hang") {
				w.client.Timeout = 300 * time.Millisecond // a bound, not an assertion
			}
			m := code("alice@example.com")
			checkEnding(t, w.Deliver(t.Context(), m), row.ending, m)
			if !slices.Equal(clk.pauses, row.pauses) {
				t.Errorf("paused %v, want %v", clk.pauses, row.pauses)
			}
			if int(n.Load()) != len(row.answers) {
				t.Errorf("%d requests, want %d", n.Load(), len(row.answers))
			}
			for _, id := range ids {
				if id != ids[0] {
					t.Error("a repetition has another webhook-id")
				}
			}
			if last := len(stamps) - 1; stamps[last] != strconv.FormatInt(clk.at.Unix(), 10) {
				t.Errorf("the last try is stamped %s, at %d", stamps[last], clk.at.Unix())
			}
		})
	}
}

// TestWebhookKnowsThatNothingArrived: where nobody listens, no try can have
// arrived, so the code counts as not sent.
func TestWebhookKnowsThatNothingArrived(t *testing.T) {
	srv := httptest.NewServer(nil)
	w, _ := newHook(t, srv, nil)
	srv.Close()
	m := code("alice@example.com")
	checkEnding(t, w.Deliver(t.Context(), m), forGood, m)
}

func TestWebhookEndsWithItsContext(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(hang))
	defer srv.Close()
	w, clk := newHook(t, srv, nil)
	clk.interrupt = 1
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	m := code("alice@example.com")
	checkEnding(t, w.Deliver(ctx, m), uncertain, m)
}

// TestWebhookJudgesTheDialledAddress: names are judged by what they resolve to
// when they are dialled, over plain HTTP and TLS alike.
func TestWebhookJudgesTheDialledAddress(t *testing.T) {
	var n atomic.Int32
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) })
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	_, port, _ := net.SplitHostPort(secure.Listener.Addr().String())
	for _, row := range []struct {
		name, url string
		allow     []string
		requests  int32
	}{
		{"loopback", secure.URL, nil, 0},
		{"a name for loopback", "https://localhost:" + port, nil, 0},
		{"loopback, allowed", secure.URL, []string{"127.0.0.0/8"}, 1},
		{"plain, allowed", plain.URL, []string{"127.0.0.0/8"}, 1},
		{"plain, another network allowed", plain.URL, []string{"10.0.0.0/8"}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			n.Store(0)
			w, clk := newHook(t, secure, func(c *Config) { c.URL, c.AllowNetworks, c.RootCAs = row.url, row.allow, roots })
			m := code("alice@example.com")
			want := forGood
			if row.requests > 0 {
				want = arrived
			}
			checkEnding(t, w.Deliver(t.Context(), m), want, m)
			if n.Load() != row.requests || len(clk.pauses) > 0 {
				t.Errorf("%d requests, want %d; %d pauses", n.Load(), row.requests, len(clk.pauses))
			}
		})
	}
}
