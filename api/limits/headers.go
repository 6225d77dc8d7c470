package limits

import (
	"net/http"
	"strconv"
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
func Headers(d *plans.Decision) []Header { return headers(d, nil) }

// headers adds the slots that are held, where there are any.
func headers(d *plans.Decision, held *plans.SlotDecision) []Header {
	if !ruled(d) {
		if held == nil {
			return nil
		}
		return SlotHeaders(held)
	}
	var all values
	n := all.of(d, held)
	h := make([]Header, n)
	for i := range h {
		h[i] = Header{fieldNames[i], all[i]}
	}
	return h
}

// ruled reports whether a rule decided.
func ruled(d *plans.Decision) bool { return d.Binding >= 0 && len(d.Limits) > 0 }

// fieldNames are in the order of values.
var fieldNames = [...]string{Policy, RateLimit, XLimit, XRemaining, XReset, RetryAfter}

// values are what the fields of one answer say.
type values [len(fieldNames)]string

// of is what the first n fields say of a decision that a rule made: parts of one
// text, because every answer bears them.
func (all *values) of(d *plans.Decision, held *plans.SlotDecision) (n int) {
	var room, more [192]byte
	var ends [len(fieldNames)]int
	text, state := room[:0], more[:0]
	for i := range d.Limits {
		l := &d.Limits[inOrder(d, i)]
		text = parameter(parameter(item(text, l.Rule), "q", l.Limit.Capacity), "w", wholeSeconds(l.Window()))
		state = parameter(item(state, l.Rule), "r", l.Remaining())
		switch next := l.Next(); {
		case !d.Allowed && !l.Allowed && !d.Impossible:
			state = parameter(state, "t", wholeSeconds(l.Wait))
		case next > 0:
			state = parameter(state, "t", wholeSeconds(next))
		}
	}
	if held != nil && held.Binding >= 0 {
		text, state = slotFields(held, text, state)
	}
	b := &d.Limits[d.Binding]
	ends[0] = len(text)
	text = append(text, state...)
	ends[1] = len(text)
	for i, v := range [...]int64{b.Limit.Capacity, b.Remaining(), ceilSeconds(b.Reset)} {
		text = strconv.AppendInt(text, v, 10)
		ends[2+i] = len(text)
	}
	n = len(fieldNames) - 1
	if s := RetrySeconds(d); s > 0 {
		text = strconv.AppendInt(text, s, 10)
		ends[n] = len(text)
		n++
	}
	whole, from := string(text), 0
	for i, end := range ends[:n] {
		all[i], from = whole[from:end], end
	}
	return n
}

// inOrder is the index of the i-th limit, the binding one first.
func inOrder(d *plans.Decision, i int) int {
	switch {
	case i == 0:
		return d.Binding
	case i <= d.Binding:
		return i - 1
	}
	return i
}

// set writes headers of d and held, which keep all.
func (all *values) set(h http.Header, d *plans.Decision, held *plans.SlotDecision) {
	if !ruled(d) {
		SetHeaders(h, headers(d, held))
		return
	}
	for i := range all.of(d, held) {
		h[canonicalNames[i]] = all[i : i+1 : i+1]
	}
}

// canonicalNames are fieldNames as http.Header has them.
var canonicalNames = func() (names [len(fieldNames)]string) {
	for i, name := range fieldNames {
		names[i] = http.CanonicalHeaderKey(name)
	}
	return names
}()

// RetrySeconds is the Retry-After of a refusal: whole seconds, rounded up, at
// least 1; 0 where there is none, because it was allowed or no wait helps.
func RetrySeconds(d *plans.Decision) int64 {
	if d.Allowed || d.Impossible || d.Binding < 0 {
		return 0
	}
	return wholeSeconds(d.RetryAfter)
}

// SlotHeaders are the fields of a decision about slots, the binding rule first: q
// is the slots there are, r those that are free, with no window. None for a
// decision that no rule made.
func SlotHeaders(d *plans.SlotDecision) []Header {
	if d.Binding < 0 {
		return nil
	}
	policy, state := slotFields(d, nil, nil)
	h := []Header{{Policy, string(policy)}, {RateLimit, string(state)}}
	if !d.Allowed {
		h = append(h, Header{RetryAfter, strconv.FormatInt(wholeSeconds(d.RetryAfter), 10)})
	}
	return h
}

// slotFields adds the rules of a decision to lists.
func slotFields(d *plans.SlotDecision, policy, state []byte) (p, s []byte) {
	ls := []*plans.SlotState{&d.Limits[d.Binding]}
	for i := range d.Limits {
		if i != d.Binding {
			ls = append(ls, &d.Limits[i])
		}
	}
	for _, l := range ls {
		policy = append(parameter(item(policy, l.Rule), "q", l.Cap), `;qu="concurrent-requests"`...)
		state = parameter(item(state, l.Rule), "r", l.Remaining())
		if !l.Allowed {
			state = parameter(state, "t", wholeSeconds(d.RetryAfter))
		}
	}
	return policy, state
}

// Set writes them.
func Set(h http.Header, d *plans.Decision) {
	new(values).set(h, d, nil)
}

// SetHeaders writes what Headers returned.
func SetHeaders(h http.Header, all []Header) {
	values := make([]string, len(all)) // of one value each
	for i, x := range all {
		values[i] = x.Value
		h[canonical[x.Name]] = values[i : i+1 : i+1]
	}
}

// canonical is how http.Header has the names.
var canonical = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{Policy, RateLimit, XLimit, XRemaining, XReset, RetryAfter} {
		names[name] = http.CanonicalHeaderKey(name)
	}
	return names
}()

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// wholeSeconds is at least 1: 0.4 s rounded to 0 sends a caller back at once.
func wholeSeconds(d time.Duration) int64 { return max(ceilSeconds(d), 1) }

// most is what a structured field's integer holds: 15 digits.
const most = 999_999_999_999_999

// item begins a member of a list: a string, of which a name of a rule holds
// nothing that needs an escape but these.
func item(b []byte, name string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	for i := range len(name) {
		if c := name[i]; c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, name[i])
	}
	return append(b, '"')
}

func parameter(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(append(append(b, ';'), name...), '='), min(n, most), 10)
}
