package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
)

var (
	beatScript            = newScript("bucket", "beat")
	_          keys.Beats = (*Store)(nil)
)

// Beat implements keys.Beats. A node of a Cluster that does not answer may have
// been replaced: a beat that fails has the client ask the others.
func (s *Store) Beat(ctx context.Context, key string, instance [8]byte, now, ttl int64) (int64, error) {
	if key == "" || ttl < 0 || ttl > keys.Day || now < 0 || now > keys.MaxExact/2 {
		return 0, fmt.Errorf("%w: a heartbeat has a key, and lives for at most a day", keys.ErrAsk)
	}
	r, _, err := s.ask(ctx, beatScript, "beat", now, 0, key, func(until int64) call {
		c := call{keys: []string{key}}
		c.number(now, until, ttl)
		return c
	}, instance[:])
	if err != nil {
		if cluster, ok := s.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // in the background
		}
		return 0, err
	}
	live := r.number()
	if err := r.end(); err != nil {
		return 0, wrap("beat", err)
	}
	return live, nil
}
