package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys/plans"
)

// Model makes up to most tokens of an answer, until emit says that it is enough.
type Model interface {
	Answer(prompt string, most int64, emit func(token string) (more bool))
}

// service answers POST /v1/complete.
type service struct {
	taker *plans.Taker
	model Model
	now   func() time.Time
}

// The rules, that a caller has.
const (
	tokensRule  = "tokens"
	streamsRule = "streams"
)

// definition is 2000 tokens a minute, and two streams at once.
var definition = &plans.Definition{Rules: []plans.Rule{
	{Name: tokensRule, Capacity: 2000, Refill: "2000/1m"},
	{Name: streamsRule, Kind: plans.Concurrency, Capacity: 2},
}}

// handler holds a stream's slot while it is written.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/complete", limits.Middleware(limits.Options{Taker: s.taker, Slots: []string{streamsRule}, FailClosed: true})(http.HandlerFunc(s.complete)))
	return mux
}

type question struct {
	Prompt    string `json:"prompt"`
	MaxTokens int64  `json:"max_tokens"`
}

// tokensOf counts as the model does.
func tokensOf(prompt string) int64 { return int64(len(strings.Fields(prompt))) }

func (s *service) complete(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q); err != nil || q.MaxTokens < 1 || q.MaxTokens > 100_000 {
		http.Error(w, "prompt, and max_tokens from 1 to 100000", http.StatusBadRequest)
		return
	}
	m := &meter{taker: s.taker, now: s.now, key: limits.BearerKey(r), rule: tokensRule}
	prompt := tokensOf(q.Prompt)
	d, err := m.reserve(r.Context(), prompt+q.MaxTokens)
	if err != nil {
		http.Error(w, "limits are not known just now", http.StatusServiceUnavailable)
		return
	}
	limits.Set(w.Header(), d)
	if !d.Allowed {
		limits.Refusal(d).Write(w)
		return
	}
	// Who hangs up is charged what was made for him until then.
	late := context.WithoutCancel(r.Context())
	defer func() {
		if err := m.settle(late); err != nil {
			log.Print("llm: ", err)
		}
	}()
	m.used = prompt
	w.Header().Set("Content-Type", "text/event-stream")
	s.stream(w, r, m, q)
}

// stream sends each token as it comes. What ends it early is said at its end.
func (s *service) stream(w http.ResponseWriter, r *http.Request, m *meter, q question) {
	out := http.NewResponseController(w)
	_ = out.Flush() // the limits, before the first token
	reason := "stop"
	s.model.Answer(q.Prompt, q.MaxTokens, func(token string) bool {
		if r.Context().Err() != nil {
			return false
		}
		fmt.Fprintf(w, "data: %s\n\n", token)
		if out.Flush() != nil {
			return false
		}
		if err := m.count(context.WithoutCancel(r.Context()), 1); err != nil {
			reason = err.Error()
			return false
		}
		return true
	})
	fmt.Fprintf(w, "event: done\ndata: %s\n\n", reason)
}
