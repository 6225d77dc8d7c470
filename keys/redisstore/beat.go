package redisstore

import (
	"context"
	"fmt"

	"github.com/guardd/guardd/keys"
)

var (
	beatScript            = newScript("bucket", "beat")
	_          keys.Beats = (*Store)(nil)
)

// liveKey holds the heartbeats of all instances, of any version.
const liveKey = "gd:{fleet}:live"

// Beat implements keys.Beats.
func (s *Store) Beat(ctx context.Context, instance [8]byte, now, ttl int64) (int64, error) {
	if ttl < 0 || ttl > keys.Day || now < 0 || now > keys.MaxExact/2 {
		return 0, fmt.Errorf("%w: a heartbeat lives for at most a day", keys.ErrAsk)
	}
	r, _, err := s.ask(ctx, beatScript, "beat", now, 0, liveKey, func(until int64) call {
		c := call{keys: []string{liveKey}}
		c.number(now, until, ttl)
		return c
	}, instance[:])
	if err != nil {
		return 0, err
	}
	live := r.number()
	if err := r.end(); err != nil {
		return 0, wrap("beat", err)
	}
	return live, nil
}
