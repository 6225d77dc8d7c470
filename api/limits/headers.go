package limits

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/keys/plans"
)

// Header is one header field of a decision.
type Header struct{ Name, Value string }

// The names of the fields.
const (
	Policy     = "RateLimit-Policy"
	RateLimit  = "RateLimit"
	XLimit     = "X-RateLimit-Limit"
	XRemaining = "X-RateLimit-Remaining"
	XReset     = "X-RateLimit-Reset"
	RetryAfter = "Retry-After"
)

// Draft is what Headers emits. The draft still moves: Headers is the only place
// that knows it, and what changes there changes this.
const Draft = "draft-ietf-httpapi-ratelimit-headers-11"

// Headers are the fields of a decision, in the form of Draft (lists of RFC 9651: q is the capacity,
// w the seconds from empty to full, r the whole tokens left, t the seconds to
// one more, on a refusal Retry-After) and as the older X-RateLimit trio, whose
// Reset is the seconds until full. The binding rule comes first.
//
// None for a decision that no rule made.
func Headers(d *plans.Decision) []Header {
	if d.Binding < 0 || len(d.Limits) == 0 {
		return nil
	}
	var policy, state []string
	for _, l := range binding(d) {
		policy = append(policy, fmt.Sprintf("%s;q=%d;w=%d", quote(l.Rule), integer(l.Limit.Capacity), integer(wholeSeconds(full(l)))))
		item := fmt.Sprintf("%s;r=%d", quote(l.Rule), integer(l.Remaining()))
		switch next := l.Next(); {
		case !d.Allowed && !l.Allowed && !d.Impossible:
			item += fmt.Sprintf(";t=%d", integer(wholeSeconds(l.Wait)))
		case next > 0:
			item += fmt.Sprintf(";t=%d", integer(wholeSeconds(next)))
		}
		state = append(state, item)
	}
	b := &d.Limits[d.Binding]
	h := []Header{
		{Policy, strings.Join(policy, ", ")},
		{RateLimit, strings.Join(state, ", ")},
		{XLimit, strconv.FormatInt(b.Limit.Capacity, 10)},
		{XRemaining, strconv.FormatInt(b.Remaining(), 10)},
		{XReset, strconv.FormatInt(ceilSeconds(b.Reset), 10)},
	}
	if s := RetrySeconds(d); s > 0 {
		h = append(h, Header{RetryAfter, strconv.FormatInt(s, 10)})
	}
	return h
}

// RetrySeconds is the Retry-After of a refusal: whole seconds, rounded up, at
// least 1; 0 where there is none, because it was allowed or no wait helps.
func RetrySeconds(d *plans.Decision) int64 {
	if d.Allowed || d.Impossible || d.Binding < 0 {
		return 0
	}
	return wholeSeconds(d.RetryAfter)
}

// Set writes them.
func Set(h http.Header, d *plans.Decision) {
	for _, x := range Headers(d) {
		h.Set(x.Name, x.Value)
	}
}

// binding lists the limits, the binding one first.
func binding(d *plans.Decision) []*plans.LimitState {
	ls := []*plans.LimitState{&d.Limits[d.Binding]}
	for i := range d.Limits {
		if i != d.Binding {
			ls = append(ls, &d.Limits[i])
		}
	}
	return ls
}

func full(l *plans.LimitState) time.Duration {
	return time.Duration(l.Limit.TimeToFull()) * time.Microsecond
}

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// wholeSeconds is at least 1: 0.4 s rounded to 0 sends a caller back at once.
func wholeSeconds(d time.Duration) int64 { return max(ceilSeconds(d), 1) }

// integer keeps to the 15 digits of a structured field.
func integer(n int64) int64 { return min(n, 999_999_999_999_999) }

// quote makes a string of a structured field; names of rules hold nothing else.
func quote(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
