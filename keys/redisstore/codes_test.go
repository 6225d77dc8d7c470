package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

func codeAsk(now int64) *keys.CodeAsk {
	return &keys.CodeAsk{Now: now, Key: "gd:{t/0}:code:a", SenderKey: "gd:{t/0}:sender:b", Account: keys.Account{1}}
}

func send(t *testing.T, s subject, a *keys.CodeAsk) (ans keys.CodeAnswer) {
	t.Helper()
	if err := s.SendCode(t.Context(), a, &ans); err != nil {
		t.Fatal(err)
	}
	return ans
}

func TestWhatIsNoCodeCountsAsMissing(t *testing.T) {
	s := open(t, redistest.Start(t))
	ctx := t.Context()
	for name, tamper := range map[string]func(key string) error{
		"another type": s.SetWrongType,
		"too short":    func(key string) error { return s.raw.Set(ctx, key, "12345678", time.Hour).Err() },
		"odd":          func(key string) error { return s.raw.Set(ctx, key, string(make([]byte, 73)), time.Hour).Err() },
		"too long":     func(key string) error { return s.raw.Set(ctx, key, string(make([]byte, 800)), time.Hour).Err() },
	} {
		for _, key := range []string{"gd:{t/0}:code:a", "gd:{t/0}:sender:b", "gd:{t/0}:tally:a:b"} {
			if err := tamper(key); err != nil {
				t.Fatal(err)
			}
		}
		if ans := send(t, s, codeAsk(now)); ans.State != keys.CodeSent || ans.Code.Nth != 1 {
			t.Errorf("%s: %+v", name, ans)
		}
		if n, _, err := s.Tally(ctx, "gd:{t/0}:tally:a:b", now, keys.Day); err != nil || n != 1 {
			t.Errorf("%s: tally %d %v", name, n, err)
		}
		if err := tamper("gd:{t/0}:code:a"); err != nil {
			t.Fatal(err)
		}
		if c, err := s.LiveCode(ctx, "gd:{t/0}:code:a", now); err != nil || c != (keys.Code{}) {
			t.Errorf("%s: %+v lives (%v)", name, c, err)
		}
	}
}

func TestCodesLiveAsLongAsTheyCount(t *testing.T) {
	s := open(t, redistest.Start(t))
	a := codeAsk(0)
	a.Account = keys.Account{2}
	ans := send(t, s, a)
	if _, _, err := s.Tally(t.Context(), "gd:{t/0}:tally:a:b", 0, 3600*keys.Second); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]time.Duration{a.Key: 24 * time.Hour, a.SenderKey: 24 * time.Hour, "gd:{t/0}:tally:a:b": 2 * time.Hour} {
		if d := ttl(t, s, key); d < want || d > want+time.Minute+time.Millisecond {
			t.Errorf("%s has a TTL of %s, not %s and slack", key, d, want)
		}
	}
	s.Persist(a.Key)
	if ok, err := s.SpendCode(t.Context(), a.Key, ans.Code.Serial, 0); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if d := ttl(t, s, a.Key); d < 24*time.Hour {
		t.Errorf("a missing TTL was healed to %s", d)
	}
}

// Who has given up on a call answers otherwise (by a code of the quarter, by a
// refusal): what Redis works off when it wakes must not have spent anything.
func TestCodeCallsGivenUpOnChangeNothingWhenRedisWakes(t *testing.T) {
	server := redistest.Start(t)
	long := open(t, server)
	a, b := codeAsk(0), codeAsk(0)
	b.Key = "gd:{t/0}:code:b"
	live := send(t, long, a).Code
	for name, call := range map[string]func(ctx context.Context, s *Store) error{
		"send": func(ctx context.Context, s *Store) error { return s.SendCode(ctx, b, &keys.CodeAnswer{}) },
		"spend": func(ctx context.Context, s *Store) error {
			_, err := s.SpendCode(ctx, a.Key, live.Serial, 0)
			return err
		},
		"unsend": func(ctx context.Context, s *Store) error { return s.UnsendCode(ctx, a.Key, live.Serial, 0) },
		"tally": func(ctx context.Context, s *Store) error {
			_, _, err := s.Tally(ctx, "gd:{t/0}:tally:a:b", 0, keys.Day)
			return err
		},
	} {
		c, err := Open(server.URL(), 20*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		short := New(Config{Client: c, Deadline: 20 * time.Millisecond})
		if err := short.Load(t.Context()); err != nil { // which also learns Redis's clock
			t.Fatal(err)
		}
		server.Pause()
		if err := call(context.Background(), short); !errors.Is(err, context.DeadlineExceeded) || Kind(err) != "timeout" {
			t.Errorf("%s while the server hangs: %v (%s)", name, err, Kind(err))
		}
		server.Resume()
		if err := long.raw.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := long.LiveCode(t.Context(), a.Key, 0); err != nil || got != live {
		t.Errorf("%+v lives (%v), not %+v", got, err, live)
	}
	if got, err := long.LiveCode(t.Context(), b.Key, 0); err != nil || got != (keys.Code{}) {
		t.Errorf("%+v was sent by a call that was given up on (%v)", got, err)
	}
	if n, _, err := long.Tally(t.Context(), "gd:{t/0}:tally:a:b", 0, keys.Day); err != nil || n != 1 {
		t.Errorf("event %d (%v): one given up on was counted", n, err)
	}
}

func TestAnothersReplyIsNoCode(t *testing.T) {
	a := codeAsk(now)
	var c call
	c.number(5, 6, 7, 1)
	sent := string(append(append(c.head, uint8(keys.CodeSent), 0), a.Account[:]...))
	var ans keys.CodeAnswer
	if err := readSent(a, reply{s: sent}, now, &ans); err != nil || ans.State != keys.CodeSent || ans.Code.Serial != 5 {
		t.Errorf("%+v %v", ans, err)
	}
	other := *a
	other.Account = keys.Account{9}
	if err := readSent(&other, reply{s: sent}, now, &ans); err == nil {
		t.Error("another account's reply is read as one's own")
	}
	if err := readSent(a, reply{s: sent + "x"}, now, &ans); err == nil {
		t.Error("a reply that is too long is read")
	}
	c.number(5)
	spent := string(append(c.head, 1))
	if live, done, err := readCode(5, reply{s: spent}); err != nil || !done || live.Serial != 5 {
		t.Errorf("%+v %v %v", live, done, err)
	}
	if _, done, err := readCode(4, reply{s: spent}); err == nil || done {
		t.Error("another code's reply is read as one's own")
	}
}

func TestALateCodeIsATimeout(t *testing.T) {
	s := open(t, redistest.Start(t))
	a := codeAsk(now)
	a.Deadline = now - 1
	if err := s.SendCode(t.Context(), a, &keys.CodeAnswer{}); !errors.Is(err, keys.ErrLate) || Kind(err) != "timeout" {
		t.Errorf("%v (%s)", err, Kind(err))
	}
}
