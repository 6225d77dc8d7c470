package soc

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Producer is who tells: this guardd.
type Producer struct {
	Version string // of guardd
	Host    string // name of the machine
}

// Format makes text of records: one line each, without its end.
type Format string

// The formats.
const (
	Own  Format = "guardd" // as on the topics (docs/findings.md, docs/events.md)
	OCSF Format = "ocsf"   // OCSF 1.8.0
	ECS  Format = "ecs"    // Elastic Common Schema 9.4.0
	CEF  Format = "cef"    // ArcSight Common Event Format 0 (revision 26)
)

// Formats lists all of them.
var Formats = []Format{Own, OCSF, ECS, CEF}

// UnmarshalText refuses any other word.
func (f *Format) UnmarshalText(text []byte) error {
	if !slices.Contains(Formats, Format(text)) {
		return fmt.Errorf("must be one of %v, not %q", Formats, text)
	}
	*f = Format(text)
	return nil
}

// ContentType is what HTTP calls it.
func (f Format) ContentType() string {
	if f == CEF {
		return "text/plain; charset=utf-8"
	}
	return "application/json"
}

// AppendTo appends r. Whatever its strings hold, what is appended has no line
// end in it. An error is a fault of guardd's.
func (f Format) AppendTo(b []byte, r *Record, p Producer) ([]byte, error) {
	switch f {
	case OCSF:
		return appendJSON(b, ocsf(r, p))
	case ECS:
		return appendJSON(b, ecs(r, p))
	case CEF:
		return appendCEF(b, r, p), nil
	}
	return appendJSON(b, own(r))
}

// appendJSON appends v; what is no UTF-8 becomes U+FFFD, rather than nothing.
func appendJSON(b []byte, v any) ([]byte, error) {
	out, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	return append(b, out...), err
}

// cut is s in at most n bytes, whole runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clean is s as UTF-8.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
