package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// What is sent to Redis is recorded from the real thing (guardd's own guard and
// store, redis_rate's own Allow) through a client that sends nothing, and then
// sent from raw connections: one at a time, or many at once in a pipeline. So
// both sides get the same client, which costs next to nothing, and Redis sees
// byte for byte what it would see in service.

// command is one call in Redis's protocol, ready to be sent, and what its
// reply must be.
type command struct {
	wire []byte
	ok   func(reply []byte) bool
}

var errRecorded = errors.New("recorded, not sent")

// recorder is a go-redis hook that keeps commands instead of sending them.
type recorder struct{ calls [][]any }

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errRecorded }
}

func (r *recorder) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, c redis.Cmder) error {
		r.calls = append(r.calls, c.Args())
		c.SetErr(errRecorded)
		return errRecorded
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// recording returns a client that sends nothing, and what it was given.
func recording() (*redis.Client, *recorder) {
	r := &recorder{}
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	c.AddHook(r)
	return c, r
}

// commands encodes what was recorded.
func (r *recorder) commands(ok func([]byte) bool) []command {
	cs := make([]command, len(r.calls))
	for i, args := range r.calls {
		cs[i] = encode(ok, args...)
	}
	return cs
}

// encode writes a call in Redis's protocol.
func encode(ok func([]byte) bool, args ...any) command {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		var s string
		switch a := a.(type) {
		case []byte:
			s = string(a)
		default:
			s = fmt.Sprint(a)
		}
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(s), s)
	}
	return command{b, ok}
}
