package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
)

var (
	swapScript  = newScript("bucket", "swap")
	clearScript = newScript("bucket", "clear")
)

var (
	_ keys.Documents = (*Store)(nil)
	_ keys.Clearer   = (*Store)(nil)
)

// Get implements keys.Documents.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if key == "" {
		return nil, fmt.Errorf("%w: a document needs a key", keys.ErrAsk)
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	cmd := redis.NewSliceCmd(ctx, "mget", key) // MGET: another type is no error
	if err := s.client.Process(ctx, cmd); err != nil {
		return nil, wrap("get", err)
	}
	if v, ok := cmd.Val()[0].(string); ok && v != "" {
		return []byte(v), nil
	}
	return nil, nil
}

// Swap implements keys.Documents.
func (s *Store) Swap(ctx context.Context, key string, was, value []byte, ttl int64) (bool, error) {
	if err := keys.ValidSwap(key, value, ttl); err != nil {
		return false, err
	}
	r, _, err := s.ask(ctx, swapScript, "swap", 0, 0, key, func(until int64) call {
		c := call{keys: []string{key}}
		c.number(0, until)
		return c
	}, was, value, max((ttl-1)/1000+1, 1))
	if err != nil {
		return false, err
	}
	swapped := r.from(0, 1) == 1
	return swapped, wrap("swap", r.end())
}

// Held implements keys.Clearer.
func (s *Store) Held(ctx context.Context, buckets []string) (int, error) {
	return s.eachSlot(ctx, "held", buckets, false)
}

// Clear implements keys.Clearer. Buckets of different slots are cleared one slot
// after the other.
func (s *Store) Clear(ctx context.Context, buckets []string) (int, error) {
	return s.eachSlot(ctx, "clear", buckets, true)
}

// maxClear is how many buckets one call looks at: Lua's stack bounds the
// arguments of one command, and Redis does nothing else meanwhile.
const maxClear = 500

func (s *Store) eachSlot(ctx context.Context, name string, buckets []string, clear bool) (all int, err error) {
	for len(buckets) > 0 {
		n := 1
		for n < len(buckets) && n < maxClear && slotOf(buckets[n]) == slotOf(buckets[0]) {
			n++
		}
		some := buckets[:n]
		buckets = buckets[n:]
		r, _, err := s.ask(ctx, clearScript, name, 0, 0, some[0], func(until int64) call {
			c := call{keys: some}
			c.number(0, until)
			c.small(flag(clear))
			return c
		})
		if err != nil {
			return all, err
		}
		all += int(r.number())
		if err := r.end(); err != nil {
			return all, wrap(name, err)
		}
	}
	return all, nil
}

// slotOf is the hash tag of a key, as keys.Space writes it.
func slotOf(key string) string {
	tag, _, _ := strings.Cut(key, "}")
	return tag
}
