package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/keys"
)

// takeAnswer is what a take of the one plan limit is answered.
var takeAnswer = client.TakeResponse{Allowed: true, Rule: benchRule, Limit: 1_000_000, Remaining: 999_999, ResetAfterMS: 4,
	Limits: []client.LimitLevel{{Rule: benchRule, Limit: 1_000_000, Remaining: 999_999, Allowed: true}},
	Headers: map[string]string{
		"RateLimit-Policy": `"bench";q=1000000;w=3600`, "RateLimit": `"bench";r=999999;t=1`,
		"X-RateLimit-Limit": "1000000", "X-RateLimit-Remaining": "999999", "X-RateLimit-Reset": "1",
	}}

// serveBareLimits is the floor of takes over HTTP: a chi handler that reads the
// same request, makes the same call of Redis by go-redis' own pool, and writes
// the same answer. It reads nothing of the reply.
func serveBareLimits(addr, redisAddr string) int {
	store := redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	call, err := takeCall(store)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := chi.NewRouter()
	r.Post("/v1/limits/take", func(w http.ResponseWriter, r *http.Request) {
		var q client.TakeRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Key == "" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		if _, err := store.Do(r.Context(), call(q.Key)...).Text(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&takeAnswer)
	})
	if err := http.ListenAndServe(addr, r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// takeCall returns a function that makes the arguments of a caller's take: those
// of guardd's own but for the name of the bucket.
func takeCall(store *redis.Client) (func(key string) []any, error) {
	real, err := newTaker(store)
	if err != nil {
		return nil, err
	}
	if _, err := real.Take(context.Background(), takeOf(0)); err != nil { // it teaches Redis the script
		return nil, err
	}
	c, rec := recording()
	defer c.Close()
	t, err := newTaker(c)
	if err != nil {
		return nil, err
	}
	_, _ = t.Take(context.Background(), takeOf(0))
	if len(rec.calls) != 1 || len(rec.calls[0]) < 4 {
		return nil, fmt.Errorf("a take is %d calls", len(rec.calls))
	}
	const bucket = 3 // after the command, the script and the number of keys
	like := rec.calls[0]
	size := len(keys.Account{}.String())
	return func(key string) []any {
		args := slices.Clone(like)
		args[bucket] = fmt.Sprintf("gd:{plan/%0*s}:rule:%s", size, key, benchRule)
		return args
	}, nil
}
