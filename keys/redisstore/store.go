package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// A script is one text without functions of its own where it is hot: making a
// closure costs as much as running it, so parts are joined and not called.
var (
	//go:embed *.lua
	parts embed.FS

	takeScript   = newScript("bucket", "take", "settle", "judge", "store", "reply")
	giveScript   = newScript("bucket", "give", "settle", "back", "store", "receipt")
	revokeScript = newScript("bucket", "revoke")
)

type script struct{ text, sha string }

func newScript(names ...string) script {
	var text strings.Builder
	for _, name := range names {
		part, err := parts.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // embedded above
		}
		text.Write(part)
	}
	return script{text.String(), redis.NewScript(text.String()).Hash()}
}

// DefaultDeadline is what one call may take (DESIGN section 6).
const DefaultDeadline = 5 * time.Millisecond

// Config makes a Store.
type Config struct {
	// Client is the connection; Open makes one that keeps deadlines.
	Client redis.UniversalClient
	// Deadline bounds every call of the Store, beside its context; 0 means
	// DefaultDeadline.
	Deadline time.Duration
}

// Store is a keys.Store, Records, Documents, Streams, Clearer, Tallies, Codes, Charger, Leaser and Beats in Redis. It is
// safe for concurrent use. Any number of Stores, in any number of processes, share one count.
//
// An error says that nobody knows whether the call happened (Kind names it);
// the context's own error is in its chain when time ran out. A call that Redis
// comes to only after its deadline changes nothing there: the deadline travels
// with it, in Redis's time, as soon as one reply has shown what that is.
type Store struct {
	client   redis.UniversalClient
	deadline time.Duration
	servers  servers
	bakery   bakery
}

var (
	_ keys.Store   = (*Store)(nil)
	_ keys.Records = (*Store)(nil)
)

// New returns a Store. It does not connect: a Redis that is down when guardd
// starts is no different from one that goes down later.
func New(c Config) *Store {
	if c.Deadline <= 0 {
		c.Deadline = DefaultDeadline
	}
	return &Store{client: c.Client, deadline: c.Deadline, servers: servers{start: time.Now()}}
}

// Load sends the scripts, so that the first decision need not, and asks for the
// time, so that the first decision's deadline travels with it. A Redis that
// has lost them (restart, SCRIPT FLUSH, failover) is given them again by the
// call that finds out.
func (s *Store) Load(ctx context.Context) error {
	for _, sc := range []script{takeScript, giveScript, revokeScript, sendScript, codeScript, tallyScript, beatScript, chargeScript, amendScript, swapScript, clearScript, trailScript, trailRoomScript, trailDropScript, appendScript, leaseScript, acquireScript, releaseScript} {
		if err := s.client.ScriptLoad(ctx, sc.text).Err(); err != nil {
			return wrap("load scripts", err)
		}
	}
	return wrap("load scripts", s.each(ctx, func(ctx context.Context, client redis.Cmdable, c *clock) error {
		sent := c.now()
		t, err := client.Time(ctx).Result()
		if err == nil {
			c.learn(sent, t.UnixMicro())
		}
		return err
	}))
}

// Evicts returns the maxmemory-policy of a Redis (any node of a Cluster) that
// drops keys before their time when its memory is full: then a flood of names
// frees spent buckets. "" means that none does, or says.
func (s *Store) Evicts(ctx context.Context) string {
	var mu sync.Mutex
	var found string
	_ = s.each(ctx, func(ctx context.Context, client redis.Cmdable, _ *clock) error {
		info, err := client.Info(ctx, "memory").Result()
		if policy := evicts(info); policy != "" {
			mu.Lock()
			defer mu.Unlock()
			found = policy
		}
		return err
	})
	return found
}

func evicts(info string) string {
	field := func(name string) string {
		_, rest, _ := strings.Cut(info, "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\r")
		return value
	}
	policy := field("maxmemory_policy")
	if limit := field("maxmemory"); limit == "" || limit == "0" || policy == "noeviction" {
		return ""
	}
	return policy
}

// whole is Rules.Wire of rules that are not a share's.
func whole(r *keys.Rules) (format, rules string, err error) {
	if format, rules = r.Wire(); rules == "" {
		err = fmt.Errorf("%w: rules of a share are not for a shared store", keys.ErrAsk)
	}
	return format, rules, err
}

// Take implements keys.Store.
func (s *Store) Take(ctx context.Context, ask *keys.Ask, ans *keys.Answer) error {
	defer trace.Begin(ctx, trace.Redis).End()
	if err := ask.Validate(); err != nil {
		return err
	}
	format, rules, err := whole(ask.Rules)
	if err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	at, err := s.server(ctx, ask.Keys[0])
	if err != nil {
		return wrap("take", err)
	}
	c := packAsk(ask, at.until(ctx, ask.Now, ask.Deadline))
	sent := at.now()
	var v string
	if sc, ok := s.bakery.script(ask.Rules); ok {
		v, err = s.eval(ctx, at, *sc, c.keys, c.head)
	} else {
		v, err = s.eval(ctx, at, takeScript, c.keys, c.head, rules, format)
	}
	if err != nil {
		return wrap("take", err)
	}
	if err := readAnswer(ask, v, ans); err != nil {
		return wrap("take", err)
	}
	if ask.Now == 0 && !ans.Replayed {
		at.learn(sent, ans.Now)
	}
	return nil
}

// Give implements keys.Store.
func (s *Store) Give(ctx context.Context, ret *keys.Return, rcp *keys.Receipt) error {
	defer trace.Begin(ctx, trace.Redis).End()
	if err := ret.Validate(); err != nil {
		return err
	}
	var format, rules string
	if len(ret.Took) > 0 {
		var err error
		if format, rules, err = whole(ret.Rules); err != nil {
			return err
		}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	at, err := s.server(ctx, ret.OutcomeKey)
	if err != nil {
		return wrap("give", err)
	}
	c, took := packReturn(ret, at.until(ctx, ret.Now, ret.Deadline))
	if len(took) == 0 {
		rules, format = "", ""
	}
	sent := at.now()
	v, err := s.eval(ctx, at, giveScript, c.keys, c.head, rules, format, took)
	if err != nil {
		return wrap("give", err)
	}
	if err := readReceipt(v, rcp); err != nil {
		return wrap("give", err)
	}
	if ret.Now == 0 {
		at.learn(sent, rcp.Now)
	}
	return nil
}

// Put implements keys.Records.
func (s *Store) Put(ctx context.Context, key string, value []byte, ttl int64) error {
	ms, err := lifetime(key, ttl)
	if err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	return wrap("put", s.client.Do(ctx, "set", key, value, "px", ms).Err())
}

// Revoke implements keys.Records.
func (s *Store) Revoke(ctx context.Context, key string, now, ttl int64) (int64, error) {
	ms, err := lifetime(key, ttl)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	at, err := s.server(ctx, key)
	if err != nil {
		return 0, wrap("revoke", err)
	}
	var c call
	c.number(now)
	v, err := s.eval(ctx, at, revokeScript, []string{key}, c.head, ms)
	if err != nil {
		return 0, wrap("revoke", err)
	}
	r := reply{s: v}
	now = r.number()
	return now, wrap("revoke", r.end())
}

func lifetime(key string, ttl int64) (ms int64, err error) {
	if key == "" || ttl <= 0 {
		return 0, fmt.Errorf("%w: a record needs a key and a lifetime", keys.ErrAsk)
	}
	return (ttl-1)/1000 + 1, nil
}

// within bounds ctx by the Store's deadline; a shorter one of the caller stays. A
// context that ends by itself, and later, is looked at once and not watched: in the
// few milliseconds of a call nothing is gained by that, and each timer costs a
// thirtieth of a request.
func (s *Store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(s.deadline)
	if later, ok := ctx.Deadline(); ok && later.After(end) && ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithDeadline(ctx, end)
}

// eval runs a script. Only NOSCRIPT, which says that nothing ran, makes it go
// out again: whole, which also loads it, on whichever node the keys live.
func (s *Store) eval(ctx context.Context, at *server, sc script, keys []string, args ...any) (string, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", sc.sha, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(all, args...)
	for {
		cmd := once{redis.NewStringCmd(ctx, all...)}
		cmd.SetFirstKeyPos(3)
		err := s.process(ctx, at, cmd)
		if err == nil {
			return cmd.Val(), nil
		}
		if all[0] != "evalsha" || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return "", err
		}
		all[0], all[1] = "eval", sc.text
	}
}

// once is a command that a cluster client may redirect but must not repeat
// after a broken connection: it may have happened.
type once struct{ *redis.StringCmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// wrap says which call failed, and puts context.DeadlineExceeded in the chain
// when time ran out, wherever that was noticed.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	var t net.Error
	if errors.As(err, &t) && t.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("redis: %s: %w: %w", call, context.DeadlineExceeded, err)
	}
	return fmt.Errorf("redis: %s: %w", call, err)
}
