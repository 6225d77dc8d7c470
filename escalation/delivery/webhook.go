package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/delivery/hook"
	"github.com/guardd/guardd/keys/trace"
)

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

func newWebhook(c *Config, keys [][]byte, allow hook.Gate) *webhook {
	return &webhook{url: c.URL, keys: keys, retry: newRetry(), client: hook.Client(allow, c.tls(""))}
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
	hook.SetHeaders(req.Header, w.keys, id, now, body)
	if sent := trace.From(ctx).Sent(); !sent.IsZero() {
		req.Header.Set(trace.Parent, sent.Traceparent())
		if sent.State != "" {
			req.Header.Set(trace.State, sent.State)
		}
	}
	res, err := w.client.Do(req)
	if err != nil {
		return &failure{err: hook.WithoutURL(err), final: hook.Refused(err), unsure: connected.Load()}
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
	return &failure{
		err:   fmt.Errorf("the webhook answered %d", code),
		final: !hook.Again(code),
		after: hook.RetryAfter(res.Header.Get("Retry-After"), w.now()),
	}
}
