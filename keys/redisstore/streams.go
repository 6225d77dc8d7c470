package redisstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
)

var (
	appendScript              = newScript("bucket", "append")
	_            keys.Streams = (*Store)(nil)
)

// errReplaced: another type was under the key, and is gone now.
var errReplaced = errors.New("something else was there, and has been taken away: repeat it")

// Append implements keys.Streams. The whole of it is one step.
func (s *Store) Append(ctx context.Context, key string, values [][]byte, keep int, ttl int64) error {
	if err := keys.ValidAppend(key, values, keep, ttl); err != nil {
		return err
	}
	more := []any{keep}
	for _, v := range values {
		more = append(more, v)
	}
	r, _, err := s.ask(ctx, appendScript, "append", 0, 0, key, func(until int64) call {
		c := call{keys: []string{key}}
		c.number(until, ttl)
		return c
	}, more...)
	if err != nil {
		return err
	}
	replaced := r.from(0, 1) == 1
	if err := r.end(); err != nil {
		return wrap("append", err)
	}
	if replaced {
		return wrap("append", errReplaced)
	}
	return nil
}

// place is a stream's entry id.
var place = regexp.MustCompile(`^\d{1,20}-\d{1,20}$`)

// Page implements keys.Streams.
func (s *Store) Page(ctx context.Context, key, before string, most int) (values [][]byte, next string, err error) {
	if err := keys.ValidPage(key, most); err != nil {
		return nil, "", err
	}
	from := "+"
	if before != "" {
		if !place.MatchString(before) {
			return nil, "", fmt.Errorf("redis: page: %w", keys.ErrPlace)
		}
		from = "(" + before
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	// One more than asked for tells whether there are older ones.
	found, err := s.client.XRevRangeN(ctx, key, from, "-", int64(most)+1).Result()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return nil, "", nil
	case err != nil:
		return nil, "", wrap("page", err)
	}
	for i, m := range found {
		if i == most {
			return values, found[i-1].ID, nil
		}
		v, ok := m.Values["v"].(string)
		if !ok {
			return nil, "", wrap("page", errReply)
		}
		values = append(values, []byte(v))
	}
	return values, "", nil
}
