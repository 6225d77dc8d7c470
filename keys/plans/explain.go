package plans

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/guardd/guardd/keys"
)

// ExplainRequest asks what was decided about one key: exactly one of Key, SHA256
// and Name says which.
type ExplainRequest struct {
	Key    string `json:"key"`    // as its caller sends it; it need not be registered
	SHA256 string `json:"sha256"` // of the key, in hex
	Name   string `json:"name"`   // of a registered one
	// Since is how far back to look, as "10m"; DefaultSince unless given, at most
	// keys.TrailLife.
	Since string `json:"since"`
}

// DefaultSince is how far back an explanation looks.
const DefaultSince = 10 * time.Minute

// Explanation is what there is to say about one key.
type Explanation struct {
	SHA256     Digest `json:"sha256"`
	Registered bool   `json:"registered"`
	Name       string `json:"name,omitempty"`
	Plan       string `json:"plan,omitempty"`
	State      State  `json:"state,omitempty"`
	Version    string `json:"version"` // of the definition in force
	Report
}

// Explain says what was decided about a key, at whichever instance. Errors:
// Faults.
func (t *Taker) Explain(ctx context.Context, q *ExplainRequest) (*Explanation, error) {
	book := t.book.Load()
	var bad Faults
	digest := book.resolve(q, &bad)
	since := DefaultSince
	if q.Since != "" {
		var err error
		since, err = time.ParseDuration(q.Since)
		switch {
		case err != nil:
			bad.add("since", "not_duration")
		case since <= 0 || since > keys.TrailLife:
			bad.add("since", "out_of_range")
		}
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	a := &Explanation{SHA256: digest, Version: book.version}
	if k, ok := book.Registered(digest); ok {
		a.Registered, a.Name, a.Plan, a.State = true, k.Name, k.Plan, k.State
	}
	e := t.c.Evidence
	if e == nil {
		a.Report = *emptyReport(time.Now().UTC(), since)
		a.Missing = "no evidence is kept here"
		return a, nil
	}
	r, err := e.Report(ctx, t.c.Hash(digest), time.UnixMicro(e.c.Now()).Add(-since))
	if err != nil {
		return nil, err
	}
	a.Report = *r
	return a, nil
}

// resolve finds the key that is meant.
func (b *Book) resolve(q *ExplainRequest, bad *Faults) (d Digest) {
	given := map[string]string{"key": q.Key, "sha256": q.SHA256, "name": q.Name}
	n := 0
	for _, v := range given {
		if v != "" {
			n++
		}
	}
	switch {
	case n == 0:
		bad.add("key", "missing")
	case n > 1:
		for field, v := range given {
			if v != "" && field != "key" {
				bad.add(field, "one_of_key_sha256_name")
			}
		}
	case len(q.Key) > MaxKey:
		bad.add("key", "too_long")
	case q.Key != "":
		return sha256.Sum256([]byte(q.Key))
	case q.SHA256 != "":
		if d.UnmarshalText([]byte(q.SHA256)) != nil {
			bad.add("sha256", "not_hex")
		}
	default:
		switch all := b.Named(q.Name); len(all) {
		case 0:
			bad.add("name", "unknown")
		case 1:
			return all[0]
		default:
			bad.add("name", "not_of_one_key")
		}
	}
	return d
}
