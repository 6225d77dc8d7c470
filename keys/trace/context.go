package trace

import (
	"encoding/hex"
	"strings"
)

// ID names one request within a trace.
type ID struct {
	Trace [16]byte
	Span  [8]byte
	// Sampled: somebody keeps the trace, so that naming it leads somewhere.
	Sampled bool
}

// IsZero reports whether id names no trace.
func (id ID) IsZero() bool { return id.Trace == [16]byte{} }

// TraceID is the trace in 32 hex digits; "" for none.
func (id ID) TraceID() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id.Trace[:])
}

// SpanID is the request in 16 hex digits; "" for none.
func (id ID) SpanID() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id.Span[:])
}

// Context is what travels from one service to the next: who asks, and what vendors
// have put beside it.
type Context struct {
	ID
	State string // tracestate, as it came; sent on unchanged
}

// The headers of W3C Trace Context, in their canonical form.
const (
	Parent = "Traceparent"
	State  = "Tracestate"
)

// Bounds of the recommendation: what has more of either is sent on without a state.
const (
	maxState   = 512 // bytes, all headers together
	maxMembers = 32
)

// Parse reads the headers of a request. It is false where there is no traceparent, or
// more than one, or one that is none: then there is no trace, and the state counts for
// nothing. A later version is read as far as it is version 00.
func Parse(parents, states []string) (c Context, ok bool) {
	if len(parents) != 1 {
		return c, false
	}
	p := parents[0]
	if len(p) < 55 || p[2] != '-' || p[35] != '-' || p[52] != '-' {
		return c, false
	}
	var version, flags [1]byte
	if !unhex(version[:], p[:2]) || !unhex(c.Trace[:], p[3:35]) || !unhex(c.Span[:], p[36:52]) || !unhex(flags[:], p[53:55]) {
		return Context{}, false
	}
	longer := len(p) > 55
	switch {
	case version[0] == 0xff, version[0] == 0 && longer, longer && p[55] != '-', c.IsZero(), c.Span == [8]byte{}:
		return Context{}, false
	}
	c.Sampled = flags[0]&1 == 1
	c.State = state(states)
	return c, true
}

// unhex is strict: upper case is no hex here.
func unhex(into []byte, s string) bool {
	if strings.ToLower(s) != s {
		return false
	}
	_, err := hex.Decode(into, []byte(s))
	return err == nil
}

// state brings the headers together; "" where they are too long, or hold what no
// header of ours should.
func state(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	s := strings.Join(headers, ",")
	members := 0
	for m := range strings.SplitSeq(s, ",") {
		if m = strings.Trim(m, " \t"); m == "" {
			continue // allowed, and no member
		}
		members++
		if key, value, ok := strings.Cut(m, "="); !ok || !isKey(key) || !isValue(value) {
			return ""
		}
	}
	if members == 0 || members > maxMembers || len(s) > maxState {
		return ""
	}
	return s
}

func isKey(s string) bool {
	tenant, system, many := strings.Cut(s, "@")
	for _, part := range []string{tenant, system} {
		for _, b := range []byte(part) {
			if !(b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || strings.IndexByte("_-*/", b) >= 0) {
				return false
			}
		}
	}
	return tenant != "" && (system != "" || !many) && len(s) <= 256
}

func isValue(s string) bool {
	for _, b := range []byte(s) {
		if b < 0x20 || b > 0x7e || b == '=' {
			return false
		}
	}
	return s != "" && len(s) <= 256 && s[len(s)-1] != ' '
}

// Traceparent is the header that sends c on; "" for none.
func (c Context) Traceparent() string {
	if c.IsZero() {
		return ""
	}
	flags := "-00"
	if c.Sampled {
		flags = "-01"
	}
	return "00-" + c.TraceID() + "-" + c.SpanID() + flags
}
