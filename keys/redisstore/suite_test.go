package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// subject is a Store on a server of its own, which tests may tamper with.
type subject struct {
	*Store
	raw *redis.Client
}

func (s subject) SetWrongType(key string) error {
	ctx := context.Background()
	if err := s.raw.Del(ctx, key).Err(); err != nil {
		return err
	}
	if err := s.raw.RPush(ctx, key, "x").Err(); err != nil {
		return err
	}
	return s.raw.Expire(ctx, key, time.Hour).Err()
}

func (s subject) Persist(key string) error { return s.raw.Persist(context.Background(), key).Err() }

func (s subject) FlushScripts() error { return s.raw.ScriptFlush(context.Background()).Err() }

// open returns a Store on s. Its deadline is long: what a busy test machine
// does to 5 ms is no fault of the arithmetic.
func open(t testing.TB, s *redistest.Server) subject {
	t.Helper()
	c, err := Open(s.URL(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return subject{New(Config{Client: c, Deadline: 10 * time.Second}), s.Client()}
}

var _ keys.Store = subject{}
