package loginlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSONL reads one JSON object a line. Strings, numbers and booleans are read
// as text, null as an empty one; other members are passed over.
type JSONL struct {
	columns Columns
	clock   Clock
	words   Words
}

// NewJSONL makes a parser.
func NewJSONL(columns Columns, clock Clock, words Words) *JSONL {
	return &JSONL{columns, clock, words}
}

var (
	errNotJSON   = errors.New("not a JSON object")
	errNotObject = errors.New("more than one JSON value")
	errUTF8      = errors.New("JSON that is not UTF-8") // the decoder would make different names one
)

// Parse reads one line.
func (p *JSONL) Parse(line []byte) (Event, error) {
	if !utf8.Valid(line) {
		return Event{}, errUTF8
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber() // an account may be a number of 19 digits
	var o map[string]any
	if err := d.Decode(&o); err != nil || o == nil {
		return Event{}, errNotJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return Event{}, errNotObject
	}
	var text [7]string
	for i, f := range Fields {
		v, there := member(o, p.columns[f])
		s, ok := jsonText(v)
		switch {
		case !there && i < needed:
			return Event{}, fmt.Errorf("no member %q (say where with --columns %s=MEMBER)", p.columns[f], f)
		case !ok:
			return Event{}, fmt.Errorf("member %q (%s) is not a text", p.columns[f], f)
		}
		text[i] = s
	}
	return event(&text, &p.clock, p.words)
}

// member finds a member by its name, or by the names on the way to it.
func member(o map[string]any, name string) (any, bool) {
	if v, ok := o[name]; ok {
		return v, true
	}
	for i := 0; i < len(name); i++ {
		if name[i] != '.' {
			continue
		}
		if inner, ok := o[name[:i]].(map[string]any); ok {
			if v, ok := member(inner, name[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

func jsonText(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return plain(v.String()), true
	}
	return "", false
}

// plain writes a JSON number without exponent where it is a whole one, for
// writers to whom 1.711545123e9 is a time.
func plain(n string) string {
	if !strings.ContainsAny(n, "eE") {
		return n
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return n
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
