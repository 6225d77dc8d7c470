package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// TestWrongPasswordsAreFewAndLastADay: a key of 128 bytes at most an account,
// whatever is tried on it; a Redis that has them not, or something else, is one that
// knows of none.
func TestWrongPasswordsAreFewAndLastADay(t *testing.T) {
	s := open(t, redistest.Start(t))
	rules := login(t, limit(t, 1000, 1, time.Minute))
	const key = "gd:{t/0}:wrong:a"
	tags := func(i int) [2]keys.Tag { return [2]keys.Tag{{byte(i), 1}, {byte(i), 2}} }
	tell := func(i int, outcome keys.Outcome) {
		t.Helper()
		var rcp keys.Receipt
		r := keys.Return{Now: now, Outcome: outcome, Stamp: now, Expires: now + keys.AttemptLifetime,
			OutcomeKey: fmt.Sprint("gd:{t/0}:outcome:", i, outcome), WrongKey: key, Tags: tags(i)}
		if err := s.Give(t.Context(), &r, &rcp); err != nil || !rcp.Recorded {
			t.Fatal(rcp, err)
		}
	}
	repeat := func(i int) bool {
		t.Helper()
		a := ask(rules, now)
		a.WrongKey, a.Tags = key, tags(i)
		return take(t, s, a).Repeat
	}
	for i := range 20 {
		tell(i, keys.Failure)
		if !repeat(i) || i >= keys.MaxWrong && repeat(i-keys.MaxWrong) {
			t.Errorf("of %d wrong passwords: the last is known %v, the one of %d before %v", i+1, repeat(i), keys.MaxWrong, repeat(max(i-keys.MaxWrong, 0)))
		}
	}
	if v := s.raw.Get(t.Context(), key).Val(); len(v) != 16*keys.MaxWrong {
		t.Errorf("%d bytes are kept", len(v))
	}
	if d := ttl(t, s, key); d > 24*time.Hour+time.Minute+time.Second || d < 24*time.Hour-time.Minute {
		t.Errorf("they are kept for %s", d)
	}
	tell(19, keys.Success)
	if v := s.raw.Get(t.Context(), key).Val(); len(v) != 16*(keys.MaxWrong-1) || repeat(19) || !repeat(18) {
		t.Errorf("%d bytes are kept once one was right", len(v))
	}
	for i, value := range []any{"cut off", make([]byte, 16*(keys.MaxWrong+1)), make([]byte, 16), ""} { // of no time; nothing
		if err := s.raw.Set(t.Context(), key, value, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if repeat(0) {
			t.Errorf("a password is known from %q", value)
		}
		tell(100+i, keys.UnknownAccount)
		if v := s.raw.Get(t.Context(), key).Val(); len(v) != 16 || !repeat(100+i) {
			t.Errorf("%d bytes are kept of one password, over %q", len(v), value)
		}
	}
}
