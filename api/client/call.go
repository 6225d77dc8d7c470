package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxAnswer bounds what is read of an answer; guardd's are below 4 KiB.
const maxAnswer = 1 << 20

// call posts q and reads the answer into a. A connection that breaks is tried
// once more with the same bytes, so with the same request id: whether the
// first try arrived or not, it counts once. Nothing else is tried again.
func (c *Client) call(ctx context.Context, path string, q, a any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("guardd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	status, media, answer, err := c.post(ctx, path, body)
	if err != nil && ctx.Err() == nil {
		status, media, answer, err = c.post(ctx, path, body)
	}
	switch {
	case err != nil:
		return fmt.Errorf("guardd: %w", err)
	case status != http.StatusOK:
		return problemOf(status, media, answer)
	}
	if err := json.Unmarshal(answer, a); err != nil {
		return errors.New("guardd's answer is not its JSON; is something else at this URL?")
	}
	return nil
}

func (c *Client) post(ctx context.Context, path string, body []byte) (status int, media string, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	w, err := c.http.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer w.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(w.Body, maxAnswer))
	return w.StatusCode, w.Header.Get("Content-Type"), answer, err
}

// problemOf reads a problem document; of anything else, which a proxy in
// between may have answered, only the status is known.
func problemOf(status int, media string, answer []byte) *Problem {
	p := new(Problem)
	t, _, _ := mime.ParseMediaType(media)
	if t != "application/problem+json" || json.Unmarshal(answer, p) != nil {
		p = &Problem{Type: "about:blank", Title: http.StatusText(status)}
	}
	p.Status = status
	return p
}
