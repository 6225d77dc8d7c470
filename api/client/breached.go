package client

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/guardd/guardd/breached/rangetext"
)

// BreachedVerdict is what POST /v1/breached/check knows of one hash.
type BreachedVerdict struct {
	// Breached: it was seen at least as often as guardd's breached.minimum_count.
	Breached bool `json:"breached"`
	// Count is how often it was seen, whatever that minimum is.
	Count uint64 `json:"count"`
	// Complete is false when the corpus is known to lack some: then "not
	// breached" is only "not in this corpus".
	Complete bool `json:"complete"`
}

// Leak is what is known of a password.
type Leak struct {
	// Breached goes into an AttemptRequest or OutcomeRequest as PasswordBreached.
	// It is false where nothing is known: a password that cannot be looked up is
	// taken as any other.
	Breached bool
	Count    uint64 // how often it was seen
	// Unknown: nothing is known just now; the error beside it says why.
	Unknown bool
}

// Breached looks a password up, as its UTF-8, nothing trimmed or normalised. It
// asks for the range of its hash, so neither the password nor the hash leaves
// the handler; guardd sees 20 bits that some 2,000 leaked hashes share, and by
// padding who watches the connection sees not even those. Config.MinimumCount
// is from how many sightings it counts as breached.
//
// The Leak is never nil, and is of no use to a visitor whose password is wrong:
// what he learns must not depend on it. Errors hold no part of the hash. They
// are a *Problem where guardd answered one (ProblemNoRange: its corpus has no
// suffixes; ProblemNoCorpus), and Unknown is set beside each.
func (c *Client) Breached(ctx context.Context, password string) (*Leak, error) {
	hash := fmt.Sprintf("%X", sha1.Sum([]byte(password)))
	prefix, suffix := hash[:5], hash[5:]
	body, err := c.breachedRange(ctx, prefix)
	if err != nil {
		return &Leak{Unknown: true}, err
	}
	n, err := rangetext.Find(body, suffix)
	if err != nil {
		return &Leak{Unknown: true}, errors.New("guardd's answer is not a range; is something else at this URL?")
	}
	return &Leak{Breached: n >= max(c.minimum, 1), Count: n}, nil
}

// breachedRange fetches a range, once more on a connection that breaks.
func (c *Client) breachedRange(ctx context.Context, prefix string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	status, media, body, err := c.getRange(ctx, prefix)
	if err != nil && ctx.Err() == nil {
		status, media, body, err = c.getRange(ctx, prefix)
	}
	var at *url.Error
	switch {
	case errors.As(err, &at): // its URL ends with the prefix
		return nil, fmt.Errorf("guardd: asking for a range: %w", at.Err)
	case err != nil:
		return nil, fmt.Errorf("guardd: asking for a range: %w", err)
	case status != http.StatusOK:
		return nil, problemOf(status, media, body)
	}
	return body, nil
}

func (c *Client) getRange(ctx context.Context, prefix string) (status int, media string, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/breached/range/"+prefix, nil)
	if err != nil {
		return 0, "", nil, err
	}
	r.Header.Set("Add-Padding", "true")
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	w, err := c.http.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer w.Body.Close()
	body, err = io.ReadAll(io.LimitReader(w.Body, rangetext.MaxBody+1))
	return w.StatusCode, w.Header.Get("Content-Type"), body, err
}

// Advises reports whether the outcome's advice has the word.
func (r *OutcomeResponse) Advises(advice string) bool {
	return r != nil && slices.Contains(r.Advice, advice)
}
