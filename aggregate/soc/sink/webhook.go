package sink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/escalation/delivery/hook"
)

// webhook posts each record by itself, signed. What is answered with 2xx was taken.
type webhook struct {
	c      *Config
	keys   [][]byte
	client *http.Client
}

// mostRead is how much of an answer is read, only so that the connection can be
// used again.
const mostRead = 4 << 10

func newWebhook(c *Config, keys [][]byte, gate hook.Gate) *webhook {
	return &webhook{c: c, keys: keys, client: hook.Client(gate, c.TLS)}
}

// Deliver is soc.Sink's.
func (w *webhook) Deliver(ctx context.Context, records []*soc.Record) (int, error) {
	for i, r := range records {
		body, err := w.c.line(nil, r)
		if err == nil {
			err = w.post(ctx, r, body[:len(body)-1])
		}
		if err != nil {
			return i, err
		}
	}
	return len(records), nil
}

func (w *webhook) post(ctx context.Context, r *soc.Record, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.c.To, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: the URL cannot be used", soc.ErrRefused)
	}
	req.Header.Set("Content-Type", w.c.Format.ContentType())
	hook.SetHeaders(req.Header, w.keys, "msg_"+r.ID, time.Now().Unix(), body)
	return send(w.client, req)
}

// forGood are the answers that are about what was sent. Any other failure is one of
// who was asked, or of how: a key that has run out, a path that was mistyped. Whoever
// mends that wants what was found meanwhile.
var forGood = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}

// send does a request, and says what its answer means for a sink.
func send(client *http.Client, req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return hook.WithoutURL(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, mostRead))
	if res.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("it answered %d: %.200q", res.StatusCode, text)
	if slices.Contains(forGood, res.StatusCode) {
		return fmt.Errorf("%w: %w", soc.ErrRefused, err)
	}
	return &soc.After{Err: err, Wait: hook.RetryAfter(res.Header.Get("Retry-After"), time.Now())}
}

// Close is soc.Sink's.
func (w *webhook) Close() error { w.client.CloseIdleConnections(); return nil }
