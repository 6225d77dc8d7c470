package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialTimeout bounds a dial. It goes on in the background after the call that
// wanted the connection has given up, and takes a place in the pool meanwhile.
const dialTimeout = time.Second

// idleTimeout bounds what is done without a deadline (Load).
const idleTimeout = 2 * time.Second

// Open makes a client from one of go-redis's URLs, and sets it so that a
// deadline of a few milliseconds is real: contexts bound reads and writes,
// nothing is sent twice, no caller waits longer for a connection than for its
// answer, and a new connection costs one round trip (HELLO). It does not
// connect. Errors name the fault, never the password.
//
//	redis://user:password@host:6379/0             one server
//	rediss://...                                  with TLS
//	unix:///run/redis.sock?db=0                   a socket
//	redis://host:6379?addr=host2:6379&addr=...    Cluster: more than one node
//	redis://sentinel:26379?master_name=m&addr=... Sentinel
//
// Other parameters are those of go-redis (pool_size, min_idle_conns, ...),
// except that retries and reads from replicas are refused.
func Open(rawURL string, deadline time.Duration) (redis.UniversalClient, error) {
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	c, err := client(rawURL, deadline)
	if err != nil {
		var u *url.Error // its text quotes the URL, password and all
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("redis URL: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	return c, nil
}

func client(rawURL string, deadline time.Duration) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "unix" && u.Host == "" {
		return nil, errors.New("host is missing; write redis://host:6379")
	}
	switch q := u.Query(); {
	case q.Has("max_retries"):
		return nil, errors.New("max_retries: a decision is never sent twice")
	case q.Has("read_only"), q.Has("replica_only"), q.Has("route_by_latency"), q.Has("route_randomly"):
		return nil, errors.New("read_only, replica_only, route_by_latency, route_randomly: a replica cannot decide")
	case q.Has("master_name"):
		o, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		if o.MasterName == "" {
			return nil, errors.New("master_name is empty")
		}
		tune{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries, &o.DialerRetries,
			&o.Protocol, &o.PipelinePoolSize, &o.ContextTimeoutEnabled, &o.DisableIdentity}.set(deadline)
		return redis.NewFailoverClient(o), nil
	case q.Has("addr"):
		o, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		tune{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries, &o.DialerRetries,
			&o.Protocol, &o.PipelinePoolSize, &o.ContextTimeoutEnabled, &o.DisableIdentity}.set(deadline)
		o.MaintNotificationsConfig = quiet()
		o.DisableRoutingPolicies = true // a script goes where its keys are
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, err
		}
		tune{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries, &o.DialerRetries,
			&o.Protocol, &o.PipelinePoolSize, &o.ContextTimeoutEnabled, &o.DisableIdentity}.set(deadline)
		o.MaintNotificationsConfig = quiet()
		return redis.NewClient(o), nil
	}
}

// The library prints every failed dial to stderr. A Redis that is down would
// fill the log with what every call already returns as an error.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// tune is what the three kinds of options have in common.
type tune struct {
	dial, read, write, pool             *time.Duration
	retries, dials, protocol, pipelines *int
	contexts, anonymous                 *bool
}

func (t tune) set(deadline time.Duration) {
	for d, otherwise := range map[*time.Duration]time.Duration{
		t.dial: dialTimeout, t.read: idleTimeout, t.write: idleTimeout, t.pool: deadline,
	} {
		if *d <= 0 {
			*d = otherwise
		}
	}
	*t.pool = min(*t.pool, deadline)
	*t.retries, *t.dials = -1, 1
	*t.protocol = 2 // no pushes are needed, and its replies are read sooner
	*t.pipelines = -1
	*t.contexts, *t.anonymous = true, true
}

func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
