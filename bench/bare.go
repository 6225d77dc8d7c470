package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/api/client"
)

// serveBare is the floor of the HTTP rows: a chi handler that reads the same
// request and writes the same answer, and decides nothing.
func serveBare(addr string) int {
	answer := client.AttemptResponse{
		Action: client.ActionAllow, Proceed: true, Attempt: strings.Repeat("A", 316), Posture: "normal",
		Would: client.ActionAllow, Reasons: []string{},
	}
	for _, t := range []string{"pair", "account", "ip"} {
		for _, l := range []string{"burst", "sustained"} {
			answer.Tiers = append(answer.Tiers, client.TierLevel{Tier: t, Limit: l, Left: 19, Capacity: 20, Rung: "allow"})
		}
	}
	r := chi.NewRouter()
	r.Post("/v1/attempts", func(w http.ResponseWriter, r *http.Request) {
		var q client.AttemptRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Account == "" || q.IP == "" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&answer)
	})
	body := []byte(rangeBody())
	r.Get("/v1/breached/range/{prefix}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	})
	r.Post("/v1/breached/check", func(w http.ResponseWriter, r *http.Request) {
		var q struct{ SHA1 string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.SHA1 == "" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&client.BreachedVerdict{Breached: true, Count: 1, Complete: true})
	})
	if err := http.ListenAndServe(addr, r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
