package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/redisstore"
)

const (
	benchRule   = "bench"
	benchLimits = "rules: [{name: " + benchRule + ", capacity: 1000000, refill: 1000000/1h}]\n"
)

// newTaker decides about one plan limit that never runs out, over client.
func newTaker(client redis.UniversalClient) (*plans.Taker, error) {
	book, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{{Name: benchRule, Capacity: 1_000_000, Refill: "1000000/1h"}}}, "bench", nil)
	if len(faults) > 0 {
		return nil, faults
	}
	t := plans.NewTaker(plans.Config{
		Store: redisstore.New(redisstore.Config{Client: client, Deadline: time.Minute}),
		Hash: func(d plans.Digest) keys.Account {
			sum := sha256.Sum256(d[:])
			return keys.Account(sum[:])
		},
	})
	t.Swap(book)
	return t, nil
}

func takeOf(n int) *plans.Request {
	return &plans.Request{Key: fmt.Sprintf("key%08d", n), Rules: []string{benchRule}, Cost: 1}
}

// takes makes the calls of n callers, after Redis was taught their script.
func (s *redisSide) takes(n int) ([][]command, error) {
	real, err := newTaker(s.node.client)
	if err != nil {
		return nil, err
	}
	if _, err := real.Take(context.Background(), takeOf(0)); err != nil {
		return nil, err
	}
	client, rec := recording()
	defer client.Close()
	t, err := newTaker(client)
	if err != nil {
		return nil, err
	}
	for i := range n {
		if _, err := t.Take(context.Background(), takeOf(i)); err == nil {
			return nil, errors.New("a take was not recorded")
		}
	}
	return units(rec.commands(lets), n)
}
