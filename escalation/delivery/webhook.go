package delivery

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/escalation"
)

// hookTimeout bounds one request, from dialling to the end of the answer.
// Standard Webhooks recommends 15 to 30 s.
const hookTimeout = 15 * time.Second

// mostRead is how much of an answer is read, only so that the connection can be
// used again.
const mostRead = 4 << 10

// webhook posts messages to the application, signed as Standard Webhooks
// version 1.0.0 has it. It keeps no state between messages.
type webhook struct {
	url    string
	keys   [][]byte // each signs, so that receivers can change theirs one by one
	client *http.Client
	retry
}

func newWebhook(c *Config, keys [][]byte, allow gate) *webhook {
	d := &net.Dialer{Timeout: hookTimeout, Control: allow.control}
	return &webhook{url: c.URL, keys: keys, retry: newRetry(), client: &http.Client{
		Timeout: hookTimeout,
		// A redirect would be a second destination that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// No proxy: behind one, the address that the gate judges is the proxy's.
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        c.tls(""),
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns:           4,
			IdleConnTimeout:        90 * time.Second,
		},
	}}
}

// codeBody and noticeBody are what is posted; receivers tell them apart by the
// key code or notice.
type codeBody struct {
	Account   string    `json:"account"`
	Realm     string    `json:"realm"`
	Flow      string    `json:"flow"`
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
}

type noticeBody struct {
	Account string    `json:"account"`
	Realm   string    `json:"realm"`
	Flow    string    `json:"flow"`
	Notice  string    `json:"notice"`
	At      time.Time `json:"at"`
	// Suppressed is how many more notices there would have been since the last.
	Suppressed int64 `json:"suppressed"`
}

// Deliver posts m until it is taken (2xx), refused for good (any other answer
// below 500 but 408 and 429), or too late.
func (w *webhook) Deliver(ctx context.Context, m *escalation.Message) error {
	var v any = codeBody{m.Account, m.Realm, m.Flow, m.Code, m.ExpiresAt.UTC()}
	if m.Kind != escalation.MessageCode {
		v = noticeBody{m.Account, m.Realm, m.Flow, m.Notice, m.At.UTC(), m.Suppressed}
	}
	body, err := json.Marshal(v)
	if err != nil {
		return undeliverable(err, false)
	}
	return w.do(ctx, m, func(ctx context.Context) *failure { return w.post(ctx, messageID(m), body) })
}

// messageID is the same on every repetition, and has no dots, which part the
// signed content.
func messageID(m *escalation.Message) string {
	sum := sha256.Sum256([]byte(m.Kind + "\x00" + m.Realm + "\x00" + m.ID))
	return "msg_" + hex.EncodeToString(sum[:16])
}

func (w *webhook) post(ctx context.Context, id string, body []byte) *failure {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return &failure{err: errors.New("url cannot be used"), final: true}
	}
	now := w.now().Unix() // of this try: receivers refuse what is older than minutes
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "guardd")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now, 10))
	req.Header.Set("webhook-signature", w.sign(id, now, body))
	res, err := w.client.Do(req)
	if err != nil {
		return &failure{err: withoutURL(err), final: isRefused(err), unsure: connected.Load()}
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, mostRead))
	return w.judge(res)
}

func (w *webhook) judge(res *http.Response) *failure {
	code := res.StatusCode
	if code/100 == 2 {
		return nil
	}
	again := code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests
	return &failure{
		err:   fmt.Errorf("the webhook answered %d", code),
		final: !again,
		after: retryAfter(res.Header.Get("Retry-After"), w.now()),
	}
}

func (w *webhook) sign(id string, unix int64, body []byte) string {
	var all []string
	for _, key := range w.keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.%s", id, unix, body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// retryAfter reads seconds or a date; what is neither, or past, is 0.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

func isRefused(err error) bool {
	var r *refusedError
	return errors.As(err, &r)
}

// withoutURL drops the URL from a client's error: its path may be a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
