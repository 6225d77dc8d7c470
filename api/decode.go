package api

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/guardd/guardd/api/client"
)

// Reasons beside the guard's own for a field that could not be read.
const (
	reasonUnknownField = "unknown_field"
	reasonWrongType    = "wrong_type"
	reasonDuplicate    = "duplicate"
	reasonUTF8         = "invalid_utf8"
	reasonSyntax       = "syntax"
	// wholeBody is the field of a fault that is not within one.
	wholeBody = "body"
)

// decode reads exactly one JSON object. Nothing is guessed: a name that is
// unknown, written twice or in other case, a value of another type, bytes that
// are not UTF-8 and anything after the object are faults, because two readers
// who guess differently count two different accounts. null is as if absent.
func decode[T any](w http.ResponseWriter, r *http.Request) (*T, error) {
	return decodeUpTo[T](w, r, MaxBody)
}

// decodeUpTo is decode for bodies of at most that many bytes.
func decodeUpTo[T any](w http.ResponseWriter, r *http.Request, most int64) (*T, error) {
	if !saysJSON(r) {
		w.Header().Set("Accept", "application/json")
		return nil, problemMediaType()
	}
	kept := bodies.Get().(*[]byte)
	body := bytes.NewBuffer((*kept)[:0])
	defer func() {
		if body.Cap() <= longestKept {
			*kept = body.Bytes()
			bodies.Put(kept)
		}
	}()
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most)); err != nil {
		return nil, problemOfRead(err)
	}
	v := new(T)
	if err := json.Unmarshal(body.Bytes(), v, json.RejectUnknownMembers(true)); err != nil { // it copies what v keeps
		return nil, problemInvalid(faultOf(err))
	}
	return v, nil
}

// saysJSON accepts no Content-Type as well, since a request can mean nothing else.
func saysJSON(r *http.Request) bool {
	types := r.Header.Values("Content-Type")
	if len(types) == 0 || len(types) == 1 && types[0] == "application/json" {
		return true // nearly all: nothing to parse
	}
	t, _, err := mime.ParseMediaType(types[0])
	return len(types) == 1 && err == nil && t == "application/json"
}

func problemOfRead(err error) *client.Problem {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problemTooLarge(large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemTimeout()
	}
	return problemInvalid(client.FieldError{Field: wholeBody, Reason: "incomplete"})
}

// faultOf names where in the document decoding stopped, and why.
func faultOf(err error) client.FieldError {
	var meaning *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &meaning) && errors.Is(err, json.ErrUnknownName):
		return client.FieldError{Field: fieldOf(meaning.JSONPointer), Reason: reasonUnknownField}
	case meaning != nil:
		return client.FieldError{Field: fieldOf(meaning.JSONPointer), Reason: reasonWrongType}
	case !errors.As(err, &syntax):
		return client.FieldError{Field: wholeBody, Reason: reasonSyntax}
	}
	f := client.FieldError{Field: fieldOf(syntax.JSONPointer), Reason: reasonSyntax}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		f.Reason = reasonDuplicate
	case strings.HasPrefix(syntax.Err.Error(), "invalid UTF-8"):
		f.Reason = reasonUTF8
	}
	return f
}

// fieldOf writes /rules/0/name as rules.0.name. Names of unknown fields are
// the caller's own, so they are cut: no document is an echo of another.
func fieldOf(p jsontext.Pointer) string {
	var names []string
	for name := range p.Tokens() {
		names = append(names, name)
	}
	return fieldName(strings.Join(names, "."))
}

func fieldName(field string) string {
	const longest = 64
	if len(field) > longest {
		field = strings.ToValidUTF8(field[:longest], "") + "..."
	}
	if field == "" {
		return wholeBody
	}
	return field
}
