package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// emptyTrail opens a Trail that nobody has written to.
func emptyTrail(s subject) func(*testing.T, int64) keys.Trail {
	return func(t *testing.T, room int64) keys.Trail {
		if err := s.raw.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return s.Trail(room)
	}
}

func TestTrail(t *testing.T) {
	server := redistest.StartWith(t, redistest.Options{ACL: true})
	keystest.RunTrail(t, emptyTrail(open(t, server)))
	redistest.EveryKeyDies(t, server, 100)
}

func TestTrailOverCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{ACL: true})
	s := openURL(t, c.URL(), nil, c.Client())
	keystest.RunTrail(t, func(t *testing.T, room int64) keys.Trail {
		for _, n := range c.Nodes {
			if err := n.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return s.Trail(room)
	})
	for _, n := range c.Nodes {
		redistest.EveryKeyDies(t, n, 20)
	}
}

func TestATrailReplacesWhatIsOfAWrongType(t *testing.T) {
	s := open(t, redistest.Start(t))
	trail, a, now := s.Trail(1<<20), keys.Account{7}, time.Now().UnixMicro()
	space := keys.PlanSpace(a)
	for _, key := range []string{space.Refusals(), space.Sums(keys.TrailSegmentOf(now)), trailTag + "bytes", trailTag + fmt.Sprint(keys.TrailSegmentOf(now))} {
		if err := s.raw.Set(t.Context(), key, "x", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if rows, _, err := trail.Rows(t.Context(), a, 0); err != nil || len(rows) != 0 {
		t.Errorf("before: %v %v", rows, err)
	}
	if _, err := trail.Append(t.Context(), []keys.TrailRow{{Caller: a, At: now, Data: []byte("y")}, {Caller: a, At: now, Refusal: true, Data: []byte("n")}}); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := trail.Rows(t.Context(), a, 0); err != nil || len(rows) != 2 {
		t.Errorf("after: %v %v", rows, err)
	}
}

// What is booked is what Redis takes, or a little more: otherwise "bounded" is a
// word.
func TestATrailTakesAsMuchOfRedisAsItSays(t *testing.T) {
	for name, shape := range map[string]struct{ callers, rows, data int }{
		"many callers of a row each": {20_000, 1, 40}, "few callers of many rows": {20, 1500, 60}, "large rows": {200, 20, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			s := open(t, server)
			trail, now := s.Trail(1<<40), time.Now().UnixMicro()
			used := func() (n int64) {
				info, err := s.raw.Info(t.Context(), "memory").Result()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Sscanf(info, "# Memory\r\nused_memory:%d", &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := used()
			for r := range shape.rows {
				var rows []keys.TrailRow
				for c := range shape.callers {
					rows = append(rows, keys.TrailRow{Caller: keys.Account{byte(c), byte(c >> 8), byte(c >> 16)}, At: now, Data: make([]byte, shape.data), Refusal: r%2 == 1})
				}
				if _, err := trail.Append(t.Context(), rows); err != nil {
					t.Fatal(err)
				}
			}
			booked := int64(0)
			all, err := s.raw.HGetAll(t.Context(), trailTag+"bytes").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range all {
				var n int64
				fmt.Sscan(v, &n)
				booked += n
			}
			ratio := float64(used()-before) / float64(booked)
			t.Logf("booked %d, took %.2f of it", booked, ratio)
			if ratio > 1.2 || ratio < 0.5 {
				t.Errorf("takes %.2f times what is booked (%d)", ratio, booked)
			}
		})
	}
}

// Whatever befalls a call, rows are kept or come back: appended again until none
// is left, each is there.
func TestATrailLosesNoRowInBothForms(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	const deadline = 200 * time.Millisecond
	client, err := Open(proxy.URL(), deadline)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	trail := New(Config{Client: client, Deadline: deadline}).Trail(1 << 30)
	number := 0
	for name, fault := range map[string]redistest.Fault{"resets": redistest.Reset, "hangs": redistest.Hang} {
		for _, side := range []redistest.Side{redistest.Requests, redistest.Replies} {
			now := time.Now().UnixMicro()
			var rows []keys.TrailRow
			for range 100 {
				number++
				rows = append(rows, keys.TrailRow{Caller: keys.Account{byte(number), byte(number >> 8), 9}, At: now, Refusal: number%2 == 0, Data: fmt.Append(nil, number)})
			}
			redistest.Until(t, "the way to be clear", func() bool { return client.Ping(t.Context()).Err() == nil })
			proxy.Set(fault, side)
			left, err := trail.Append(t.Context(), rows)
			proxy.Release()
			if err == nil || len(left) == 0 {
				t.Errorf("it %s on side %d: %v, %d rows are left", name, side, err, len(left))
			}
			redistest.Until(t, "the rows to be kept", func() bool {
				left, err = trail.Append(t.Context(), left)
				return err == nil
			})
			for _, r := range rows {
				got, _, err := trail.Rows(t.Context(), r.Caller, 0)
				if err != nil || len(got) == 0 || string(got[0].Data) != string(r.Data) || got[0].Refusal != r.Refusal {
					t.Fatalf("it %s on side %d: of %q there is %v (%v)", name, side, r.Data, got, err)
				}
			}
		}
	}
	proxy.Refuse()
	rows := make([]keys.TrailRow, 2000)
	for i := range rows {
		rows[i] = keys.TrailRow{Caller: keys.Account{byte(i), byte(i >> 8), 10}, At: time.Now().UnixMicro(), Data: []byte("x")}
	}
	if left, err := trail.Append(t.Context(), rows); Kind(err) != "refused" && Kind(err) != "broken" || len(left) != len(rows) {
		t.Errorf("without Redis: %v, %d rows are left", err, len(left))
	}
	proxy.Listen()
	booked := func() (n int64) {
		all, err := server.Client().HGetAll(t.Context(), trailTag+"bytes").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			var x int64
			fmt.Sscan(v, &x)
			n += x
		}
		return n
	}
	redistest.Until(t, "what is owed to be booked", func() bool { _, err := trail.Append(t.Context(), nil); return err == nil })
	if n, least := booked(), int64(number*trailRow); n < least {
		t.Errorf("%d bytes are booked for %d rows", n, number)
	}
}
