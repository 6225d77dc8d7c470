package redisstore

import (
	"errors"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

func name(s string) (id [8]byte) {
	copy(id[:], s)
	return id
}

func TestInstancesLiveAsLongAsTheirLastBeatSays(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server)
	const ttl = 10 * keys.Second
	for i, b := range []struct {
		instance string
		now, ttl int64
		want     int64
	}{
		{"a", 1_000_000, ttl, 1},
		{"b", 2_000_000, ttl, 2},
		{"a", 3_000_000, ttl, 2},
		{"c", 4_000_000, ttl, 3},
		{"a", 12_000_000, ttl, 2}, // b was killed
		{"c", 12_500_000, 0, 1},   // c leaves
		{"a", 12_500_000, ttl, 1},
		{"d", 1_000_000, ttl, 1}, // another server's clock: a's mark would live for ever
	} {
		n, err := s.Beat(t.Context(), keys.LiveKey, name(b.instance), b.now, b.ttl)
		if err != nil || n != b.want {
			t.Errorf("beat %d: %d live, want %d (%v)", i, n, b.want, err)
		}
		if ms, err := server.Client().PTTL(t.Context(), keys.LiveKey).Result(); b.ttl > 0 && (err != nil || ms <= 0) {
			t.Errorf("beat %d: the marks have no TTL: %v %v", i, ms, err)
		}
	}
	if err := s.SetWrongType(keys.LiveKey); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Beat(t.Context(), keys.LiveKey, name("a"), 0, ttl); n != 1 || err != nil {
		t.Errorf("over a key of a wrong type: %d %v", n, err)
	}
	for _, bad := range []struct{ now, ttl int64 }{{-1, ttl}, {0, -1}, {0, keys.Day + 1}} {
		if _, err := s.Beat(t.Context(), keys.LiveKey, name("a"), bad.now, bad.ttl); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
