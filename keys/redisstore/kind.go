package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
)

// Kinds are the words that Kind can say, for metrics.
var Kinds = []string{"timeout", "canceled", "refused", "broken", "pool", "closed",
	"noscript", "loading", "readonly", "oom", "cluster", "auth", "busy", "script", "ask", "other"}

// codes are the words that begin Redis's own errors. From inside a script Redis
// before 7 puts them after a "-" in a longer text.
var codes = []struct {
	kind  string
	codes []string
}{
	{"noscript", []string{"NOSCRIPT"}},
	{"loading", []string{"LOADING"}},
	{"readonly", []string{"READONLY", "MISCONF", "NOREPLICAS"}},
	{"oom", []string{"OOM"}},
	{"cluster", []string{"CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "MASTERDOWN"}},
	{"auth", []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password"}},
	{"busy", []string{"BUSY", "UNKILLABLE"}},
	{"pool", []string{"ERR max number of clients reached"}},
	{"script", []string{"ERR Error running script", "ERR Error compiling script", "ERR user_script", "user_script"}},
}

// Kind names what an error of a Store means, in one word of Kinds; "" for nil.
func Kind(err error) string {
	if err == nil {
		return ""
	}
	var dial *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return "pool"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, keys.ErrLate), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, redis.ErrClosed):
		return "closed"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "broken"
	case errors.Is(err, errReply):
		return "script"
	case errors.Is(err, keys.ErrAsk):
		return "ask"
	}
	var said redis.Error
	if !errors.As(err, &said) {
		return "other"
	}
	for _, c := range codes {
		if slices.ContainsFunc(c.codes, func(code string) bool {
			return strings.HasPrefix(said.Error(), code) || strings.Contains(said.Error(), "-"+code+" ")
		}) {
			return c.kind
		}
	}
	return "other"
}
