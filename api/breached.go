package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/breached"
)

// BreachedConfig is what answers about leaked passwords need.
type BreachedConfig struct {
	// Source is asked. nil: there is no corpus, which is said.
	Source breached.Source
	// Public serves /range/ to everybody, as the public service does.
	Public bool
	// MinimumCount is from how many sightings a password counts as breached; 0
	// is 1. The count is told as it is.
	MinimumCount uint64
	// Looked is told what became of each look-up: one of BreachedResults. nil:
	// nobody is. It is called while the caller waits.
	Looked func(kind breached.Kind, result string)
}

// What becomes of a look-up.
const (
	LookedBreached  = "breached"
	LookedSafe      = "not_breached"
	LookedPart      = "not_in_part" // the corpus is known to lack some
	LookedRange     = "range"
	LookedUnchanged = "range_unchanged"
	LookedNothing   = "no_range"
	LookedNoCorpus  = "no_corpus"
	LookedUnknown   = "unknown"
)

// BreachedResults lists all of them.
var BreachedResults = []string{LookedBreached, LookedSafe, LookedPart, LookedRange, LookedUnchanged, LookedNothing, LookedNoCorpus, LookedUnknown}

// maxHashes is how many hashes one request may hold: as many SHA-1 as fit in
// MaxBody with room for blanks.
const maxHashes = 1000

// checkRequest asks for one hash, or for a list, of one kind.
type checkRequest struct {
	SHA1 hashes `json:"sha1,omitzero"`
	NTLM hashes `json:"ntlm,omitzero"`
}

// hashes are the hex digits of one or many.
type hashes struct {
	given, list bool
	text        []string
}

// UnmarshalJSONFrom reads a string or an array of strings.
func (h *hashes) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case 'n':
		return d.SkipValue()
	case '[':
		h.given, h.list = true, true
		return json.UnmarshalDecode(d, &h.text)
	}
	h.given, h.text = true, make([]string, 1)
	return json.UnmarshalDecode(d, &h.text[0])
}

// checkResponse is one verdict, or results in the order of the list.
type checkResponse struct {
	*client.BreachedVerdict `json:",inline"`
	Results                 []client.BreachedVerdict `json:"results,omitzero"`
}

// checkBreached looks hashes up. An answer holds all of them or none: whoever
// reads "results" must find each where he put it.
func (s *service) checkBreached(ctx context.Context, _ *Key, q *checkRequest) (*checkResponse, error) {
	kind, given, field := breached.SHA1, &q.SHA1, "sha1"
	if q.NTLM.given {
		kind, given, field = breached.NTLM, &q.NTLM, "ntlm"
	}
	all, err := given.parse(kind, field, q.SHA1.given && q.NTLM.given)
	if err != nil {
		return nil, err
	}
	verdicts := make([]client.BreachedVerdict, len(all))
	for i, h := range all {
		if verdicts[i], err = s.lookUp(ctx, h); err != nil {
			return nil, err
		}
	}
	if given.list {
		return &checkResponse{Results: verdicts}, nil
	}
	return &checkResponse{BreachedVerdict: &verdicts[0]}, nil
}

// parse reads the hashes of a request, or says of each what is wrong.
func (h *hashes) parse(kind breached.Kind, field string, both bool) ([]breached.Hash, error) {
	switch {
	case both:
		return nil, problemInvalid(client.FieldError{Field: "ntlm", Reason: "not_with_sha1"})
	case !h.given:
		return nil, problemInvalid(client.FieldError{Field: "sha1", Reason: "missing"})
	case len(h.text) == 0:
		return nil, problemInvalid(client.FieldError{Field: field, Reason: "empty"})
	case len(h.text) > maxHashes:
		return nil, problemInvalid(client.FieldError{Field: field, Reason: "too_many"})
	}
	all := make([]breached.Hash, len(h.text))
	var faults []client.FieldError
	for i, text := range h.text {
		var err error
		if all[i], err = breached.ParseHash(kind, text); err != nil {
			at := field
			if h.list {
				at += "." + strconv.Itoa(i)
			}
			faults = append(faults, client.FieldError{Field: at, Reason: reasonOfHash(kind, text)})
		}
	}
	if faults != nil {
		return nil, problemInvalid(faults...)
	}
	return all, nil
}

func reasonOfHash(kind breached.Kind, text string) string {
	switch n := len(text); {
	case n == 0:
		return "empty"
	case n < kind.Digits():
		return "too_short"
	case n > kind.Digits():
		return "too_long"
	}
	return "not_hex"
}

// lookUp asks for one hash.
func (s *service) lookUp(ctx context.Context, h breached.Hash) (client.BreachedVerdict, error) {
	if s.Breached.Source == nil {
		return client.BreachedVerdict{}, s.notLooked(h.Kind(), breached.ErrKind)
	}
	v, err := s.Breached.Source.Check(ctx, h)
	if err != nil {
		return client.BreachedVerdict{}, s.notLooked(h.Kind(), err)
	}
	counts := v.Breached && v.Count >= s.Breached.MinimumCount
	switch {
	case counts:
		s.looked(h.Kind(), LookedBreached)
	case v.Complete || v.Breached:
		s.looked(h.Kind(), LookedSafe)
	default:
		s.looked(h.Kind(), LookedPart)
	}
	return client.BreachedVerdict{Breached: counts, Count: v.Count, Complete: v.Complete}, nil
}

func (s *service) looked(kind breached.Kind, result string) {
	if s.Breached.Looked != nil {
		s.Breached.Looked(kind, result)
	}
}

// notLooked makes of a source's error what HTTP has for it, and counts it. An
// error that is not the contract's stays one: it is logged.
func (s *service) notLooked(kind breached.Kind, err error) error {
	switch {
	case errors.Is(err, breached.ErrPrefix):
		return problemInvalid(client.FieldError{Field: "prefix", Reason: "not_a_prefix"})
	case errors.Is(err, breached.ErrKind):
		s.looked(kind, LookedNoCorpus)
		return problemNoCorpus()
	case errors.Is(err, breached.ErrNoRange):
		s.looked(kind, LookedNothing)
		return problemNoRange()
	}
	s.looked(kind, LookedUnknown)
	return unknownError{err}
}

// unknownError is a source's error that is neither "safe" nor "breached".
type unknownError struct{ error }

func (e unknownError) Unwrap() error { return e.error }

func problemNoCorpus() *client.Problem {
	return problem(client.ProblemNoCorpus, http.StatusNotFound, "No such corpus",
		"There is no corpus of that kind of hash here: nothing is known of any such password.")
}

func problemNoRange() *client.Problem {
	return problem(client.ProblemNoRange, http.StatusNotFound, "No such range",
		"The corpus cannot serve this range. That says nothing of the passwords in it.")
}

func problemUnknown() *client.Problem {
	return problem(client.ProblemCorpus, http.StatusServiceUnavailable, "Corpus not available",
		"Whether that password has leaked is unknown: it is neither safe nor breached. Repeat the request, or go on without.")
}
