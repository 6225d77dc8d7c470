package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

func TestOpenKeepsDeadlinesWhateverTheKindOfRedis(t *testing.T) {
	const deadline = 7 * time.Millisecond
	for _, u := range []string{
		"redis://127.0.0.1:1/2",
		"rediss://user:pw@redis.example:1",
		"unix:///run/redis.sock?db=1",
		"redis://127.0.0.1:1?pool_timeout=1s&read_timeout=-1",
		"redis://127.0.0.1:1?addr=127.0.0.1:2&addr=127.0.0.1:3",
		"redis://127.0.0.1:1?master_name=m&addr=127.0.0.1:2",
	} {
		c, err := Open(u, deadline)
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		defer c.Close()
		var contexts, identity bool
		var retries int
		var pool, read, dial time.Duration
		switch c := c.(type) {
		case *redis.Client:
			o := c.Options()
			contexts, identity, retries, pool, read, dial = o.ContextTimeoutEnabled, !o.DisableIdentity, o.MaxRetries, o.PoolTimeout, o.ReadTimeout, o.DialTimeout
		case *redis.ClusterClient:
			o := c.Options()
			contexts, identity, retries, pool, read, dial = o.ContextTimeoutEnabled, !o.DisableIdentity, o.MaxRetries, o.PoolTimeout, o.ReadTimeout, o.DialTimeout
			if len(o.Addrs) != 3 {
				t.Errorf("%s: addresses %v", u, o.Addrs)
			}
		}
		if !contexts || identity || retries > 0 || pool > deadline || pool <= 0 || read <= 0 || dial <= 0 || dial > time.Second {
			t.Errorf("%s: contexts %t identity %t retries %d pool %s read %s dial %s", u, contexts, identity, retries, pool, read, dial)
		}
	}
}

func TestOpenNamesWhatIsWrongAndNotThePassword(t *testing.T) {
	for u, want := range map[string]string{
		"":                                  "host",
		"localhost:6379":                    "host",
		"http://host":                       "scheme",
		"redis://:secret@host:port":         "port",
		"redis://:secret@host:1/x":          "database",
		"redis://:secret@host:1?pool=3":     "pool",
		"redis://host?max_retries=3":        "max_retries",
		"redis://host?addr=b:1&read_only=1": "read_only",
		"redis://host?addr=nonsense":        "addr",
		"redis://host?master_name=":         "master_name",
		"redis://host?pool_size=many":       "pool_size",
		"unix://":                           "socket",
	} {
		_, err := Open(u, 0)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an error about %s", u, err, want)
		}
	}
}

func TestAConnectionCostsOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server)
	before := commands(t, s)
	s.Store.client.Ping(context.Background())
	if got := commands(t, s) - before; got != 3 { // HELLO, PING, and the INFO before
		t.Errorf("a first PING sent %d commands, want HELLO, PING and the looking itself", got)
	}
}

func commands(t *testing.T, s subject) (n int) {
	t.Helper()
	info, err := s.raw.Info(context.Background(), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, info, _ = strings.Cut(info, "total_commands_processed:")
	fmt.Sscan(info, &n)
	return n
}

func TestKindNamesRealFaults(t *testing.T) {
	server := redistest.Start(t)
	ctx := context.Background()
	rules := login(t, limit(t, 5, 1, time.Minute))
	fault := func(s *Store) string {
		err := s.Take(ctx, ask(rules, 0), &keys.Answer{})
		if err == nil {
			return "no error"
		}
		return Kind(err)
	}

	s := open(t, server)
	server.Client().ConfigSet(ctx, "maxmemory", "1")
	if k := fault(s.Store); k != "oom" {
		t.Errorf("out of memory: %s", k)
	}
	server.Client().ConfigSet(ctx, "maxmemory", "0")
	server.Client().Do(ctx, "replicaof", "127.0.0.1", "1")
	if k := fault(s.Store); k != "readonly" {
		t.Errorf("a replica: %s", k)
	}
	server.Client().Do(ctx, "replicaof", "no", "one")
	server.Client().ConfigSet(ctx, "requirepass", "x")
	if k := fault(open(t, server).Store); k != "auth" {
		t.Errorf("no password: %s", k)
	}
	server.Stop()
	if k := fault(open(t, server).Store); k != "refused" {
		t.Errorf("nobody there: %s", k)
	}
	if k := fault(s.Store); k != "broken" && k != "refused" {
		t.Errorf("connection broken: %s", k)
	}
	gone := open(t, server)
	gone.client.Close()
	if k := fault(gone.Store); k != "closed" {
		t.Errorf("closed client: %s", k)
	}
}

func TestKindIsAClosedSet(t *testing.T) {
	said := func(s string) error { return redis.NewStatusResult("", redisError(s)).Err() }
	for want, errs := range map[string][]error{
		"timeout":  {context.DeadlineExceeded, wrap("x", timeout{}), fmt.Errorf("a: %w", context.DeadlineExceeded)},
		"canceled": {context.Canceled},
		"pool":     {redis.ErrPoolTimeout, said("ERR max number of clients reached")},
		"refused":  {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		"broken":   {io.EOF, wrap("x", syscall.ECONNRESET)},
		"noscript": {redis.ErrNoScript},
		"loading":  {said("LOADING Redis is loading the dataset in memory")},
		"readonly": {said("READONLY You can't write against a read only replica."), said("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write")},
		"oom":      {said("OOM command not allowed"), said("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed")},
		"cluster":  {said("CLUSTERDOWN Hash slot not served"), redis.ErrCrossSlot},
		"auth":     {said("NOAUTH Authentication required."), said("WRONGPASS invalid username-password pair")},
		"busy":     {said("BUSY Redis is busy running a script")},
		"script":   {said("ERR user_script:1: attempt to index a nil value"), errReply},
		"ask":      {keys.ErrAsk},
		"other":    {errors.New("x"), said("ERR unknown")},
		"":         {nil},
	} {
		for _, err := range errs {
			if got := Kind(err); got != want {
				t.Errorf("Kind(%v) = %q, want %q", err, got, want)
			}
		}
		if want != "" && !slices.Contains(Kinds, want) {
			t.Errorf("%s is not in Kinds", want)
		}
	}
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
