package api

import (
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/guardd/guardd/api/client"
)

// bodies are buffers that answers are made in: what is written is copied.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// longestKept is the largest buffer that is kept, in bytes.
const longestKept = 16 << 10

// appendJSON writes v as json.Marshal does. The answers to an attempt, which every
// sign-in waits for, and to a take, which every request of an API does, are written
// by hand, at a fifth of the time; a test holds them to what json.Marshal makes of
// them.
func appendJSON(b []byte, v any) ([]byte, error) {
	switch a := v.(type) {
	case *client.AttemptResponse:
		return appendAttempt(b, a)
	case *takeAnswer:
		return appendTake(b, a)
	}
	body, err := json.Marshal(v)
	return append(b, body...), err
}

// object writes one JSON object. The first fault stands, and is told at its end.
type object struct {
	b   []byte
	err error
}

// name begins a member: names are literals of this package, which need no escapes.
func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) quote(s string) {
	b, err := jsontext.AppendQuote(o.b, s)
	if err != nil && o.err == nil {
		o.err = err
	}
	o.b = b
}

func (o *object) text(name, s string) { o.name(name); o.quote(s) }

// some leaves out what is empty.
func (o *object) some(name, s string) {
	if s != "" {
		o.text(name, s)
	}
}

func (o *object) bool(name string, v bool) { o.name(name); o.b = strconv.AppendBool(o.b, v) }

func (o *object) number(name string, v int64) { o.name(name); o.b = strconv.AppendInt(o.b, v, 10) }

func (o *object) time(name string, t time.Time) {
	o.name(name)
	o.b = append(t.AppendFormat(append(o.b, '"'), time.RFC3339Nano), '"')
}

func (o *object) texts(name string, all []string) {
	o.name(name)
	o.b = append(o.b, '[')
	for i, s := range all {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.quote(s)
	}
	o.b = append(o.b, ']')
}

func appendAttempt(b []byte, a *client.AttemptResponse) ([]byte, error) {
	o := object{b: append(b, '{')}
	o.text("action", a.Action)
	o.bool("proceed", a.Proceed)
	o.some("attempt", a.Attempt)
	o.bool("known_device", a.KnownDevice)
	o.text("posture", a.Posture)
	o.bool("degraded", a.Degraded)
	o.bool("shadow", a.Shadow)
	o.text("would", a.Would)
	o.texts("reasons", a.Reasons)
	o.text("proof_error", a.ProofError)
	o.number("retry_after_ms", a.RetryAfterMS)
	o.name("tiers")
	o.b = append(o.b, '[')
	for i := range a.Tiers {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.tier(&a.Tiers[i])
	}
	o.b = append(o.b, ']')
	if a.Challenge != nil {
		o.name("challenge")
		o.challenge(a.Challenge)
	}
	o.some("proof", a.Proof)
	return append(o.b, '}'), o.err
}

func appendTake(b []byte, a *takeAnswer) ([]byte, error) {
	o := object{b: append(b, '{')}
	o.bool("allowed", a.Allowed)
	o.text("rule", a.Rule)
	o.number("limit", a.Limit)
	o.number("remaining", a.Remaining)
	o.number("retry_after_ms", a.RetryAfterMS)
	o.number("reset_after_ms", a.ResetAfterMS)
	o.bool("degraded", a.Degraded)
	o.some("reason", a.Reason)
	o.name("limits")
	o.b = append(o.b, '[')
	for i := range a.Limits {
		l := &a.Limits[i]
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.text("rule", l.Rule)
		o.number("limit", l.Limit)
		o.number("remaining", l.Remaining)
		o.bool("allowed", l.Allowed)
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']')
	o.some("reservation", a.Reservation)
	o.name("headers")
	o.b = append(o.b, '{')
	for _, h := range a.headers {
		o.text(h.Name, h.Value)
	}
	o.b = append(o.b, '}')
	return append(o.b, '}'), o.err
}

func (o *object) tier(t *client.TierLevel) {
	o.b = append(o.b, '{')
	o.text("tier", t.Tier)
	o.text("limit", t.Limit)
	o.number("left", t.Left)
	o.number("capacity", t.Capacity)
	o.text("rung", t.Rung)
	o.b = append(o.b, '}')
}

func (o *object) challenge(c *client.Challenge) {
	o.b = append(o.b, '{')
	o.text("kind", c.Kind)
	o.texts("kinds", c.Kinds)
	o.text("token", c.Token)
	o.time("expires_at", c.ExpiresAt)
	if !c.NotBefore.IsZero() {
		o.time("not_before", c.NotBefore)
	}
	o.some("page", c.Page)
	o.some("image", c.Image)
	o.some("audio", c.Audio)
	o.b = append(o.b, '}')
}
