package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/redisstore"
)

const (
	pairs      = 4000 // visitors of a round
	plays      = 2    // guesses of each: the default policy asks nothing of three
	parallel   = 64   // connections
	pipelined  = 16   // calls a round trip
	drained    = 200  // visitors who have used everything up
	hammering  = 40   // guesses of each of those
	memoryKeys = 120_000
)

//go:embed hash.lua
var hashScript string

// redisSide is one server, the commands of every subject, and who sends them.
type redisSide struct {
	node   *node
	player *replayer
	asker  *asker
	shape  string // what a whole decision holds

	trivial, rate, one, plan, whole, perTier, perLimit [][]command
	drain, hammer, strangers                           [][]command
}

func newRedisSide() (s *redisSide, err error) {
	s = &redisSide{}
	if s.node, err = startRedis(); err != nil {
		return nil, err
	}
	if s.player, err = newReplayer(s.node.addr, parallel); err != nil {
		return nil, err
	}
	if s.asker, err = newAsker(); err != nil {
		return nil, err
	}
	return s, s.record()
}

func (s *redisSide) close() {
	s.player.close()
	s.node.stop()
}

// record makes every subject's commands.
func (s *redisSide) record() error {
	ctx := context.Background()
	if err := redisstore.New(redisstore.Config{Client: s.node.client}).Load(ctx); err != nil {
		return err
	}
	vs := visitors(0, pairs)
	asks, err := s.asker.asks(vs, false)
	if err != nil {
		return err
	}
	s.shape = contents(asks[0])
	if err := s.teach(asks[0]); err != nil {
		return err
	}

	if s.whole, err = asked(asks, lets); err != nil {
		return err
	}
	if s.one, err = s.single(asks); err != nil {
		return err
	}
	if s.plan, err = s.takes(len(asks)); err != nil {
		return err
	}
	if s.rate, err = s.redisRate(asks); err != nil {
		return err
	}
	if err := s.separate(ctx, asks); err != nil {
		return err
	}
	if err := s.refused(); err != nil {
		return err
	}
	sha, err := s.node.client.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return err
	}
	for range asks {
		s.trivial = append(s.trivial, []command{encode(isOne, "evalsha", sha, "0")})
	}
	for _, units := range []*[][]command{&s.whole, &s.one, &s.plan, &s.rate, &s.perTier, &s.perLimit, &s.trivial} {
		once := *units
		for range plays - 1 {
			*units = append(*units, once...)
		}
		rand.Shuffle(len(*units), func(i, j int) { (*units)[i], (*units)[j] = (*units)[j], (*units)[i] })
	}
	return nil
}

// Replies. A take.lua reply has status first, then seven doubles, then let.
const letAt = 1 + 7*8

func lets(r []byte) bool    { return len(r) > letAt && r[0] == 0 && r[letAt] == 1 }
func refuses(r []byte) bool { return len(r) > letAt && r[0] == 0 && r[letAt] == 0 }
func takes(r []byte) bool   { return len(r) > letAt+1 && r[0] == 0 && r[letAt+1] == 1 }
func isOne(r []byte) bool   { return bytes.Equal(r, []byte(":1\r\n")) }
func allows(r []byte) bool {
	return len(r) > 0 && r[0] == '*' && bytes.Contains(r, []byte("\r\n:1\r\n"))
}

// asked makes the calls by which the store of package redisstore asks.
func asked(asks []*keys.Ask, ok func([]byte) bool) ([][]command, error) {
	client, rec := recording()
	defer client.Close()
	st := redisstore.New(redisstore.Config{Client: client, Deadline: time.Minute})
	for _, a := range asks {
		if err := st.Take(context.Background(), a, &keys.Answer{}); err == nil || len(rec.calls) == 0 {
			return nil, fmt.Errorf("an ask was not recorded: %w", err)
		}
	}
	return units(rec.commands(ok), len(asks))
}

// teach has Redis know what recorded calls name by its hash alone.
func (s *redisSide) teach(a *keys.Ask) error {
	st := redisstore.New(redisstore.Config{Client: s.node.client, Deadline: 10 * time.Second})
	return st.Take(context.Background(), a, &keys.Answer{})
}

// units groups commands into n of equal length.
func units(cs []command, n int) ([][]command, error) {
	if n == 0 || len(cs)%n != 0 {
		return nil, fmt.Errorf("%d commands of %d asks were recorded", len(cs), n)
	}
	each := len(cs) / n
	us := make([][]command, n)
	for i := range us {
		us[i] = cs[i*each : (i+1)*each]
	}
	return us, nil
}

// ipKey is the ip tier's bucket of an ask: the name under which everybody
// counts one bucket.
func ipKey(a *keys.Ask) string {
	for i, t := range a.Rules.Tiers() {
		if t.Tier == keys.TierIP {
			return a.Keys[i]
		}
	}
	return a.Keys[0]
}

func (s *redisSide) single(asks []*keys.Ask) ([][]command, error) {
	rules, err := plenty()
	if err != nil {
		return nil, err
	}
	ones := make([]*keys.Ask, len(asks))
	for i, a := range asks {
		ones[i] = &keys.Ask{Rules: rules, Keys: []string{ipKey(a)}, Cost: 1, AttemptID: a.AttemptID}
	}
	if err := s.teach(ones[0]); err != nil {
		return nil, err
	}
	return asked(ones, lets)
}

func (s *redisSide) redisRate(asks []*keys.Ask) ([][]command, error) {
	ctx, limit := context.Background(), redis_rate.PerHour(1000)
	if _, err := redis_rate.NewLimiter(s.node.client).Allow(ctx, "loads the script", limit); err != nil {
		return nil, err
	}
	client, rec := recording()
	defer client.Close()
	l := redis_rate.NewLimiter(client)
	for _, a := range asks {
		_, _ = l.Allow(ctx, ipKey(a), limit)
	}
	return units(rec.commands(allows), len(asks))
}

// separate makes the same tiers as calls of a script of their own, in one
// pipeline: a call a tier, which holds all its limits, and a call a limit.
func (s *redisSide) separate(ctx context.Context, asks []*keys.Ask) error {
	sha, err := s.node.client.ScriptLoad(ctx, hashScript).Result()
	if err != nil {
		return err
	}
	for _, a := range asks {
		var tier, limit []command
		for t, spec := range a.Rules.Tiers() {
			all := []any{"evalsha", sha, "1", a.Keys[t]}
			for _, l := range spec.Limits {
				if l.Zero() {
					continue // nothing is counted until a baseline is learned
				}
				rate := strconv.FormatFloat(float64(l.Count)/float64(l.Period)*1e6, 'g', -1, 64)
				all = append(all, l.Capacity, rate)
				limit = append(limit, encode(allows, "evalsha", sha, "1", a.Keys[t]+":"+l.Name, l.Capacity, rate))
			}
			if len(all) > 4 {
				tier = append(tier, encode(allows, all...))
			}
		}
		s.perTier, s.perLimit = append(s.perTier, tier), append(s.perLimit, limit)
	}
	return nil
}

// refused makes what empties some visitors' buckets, and two kinds of guesses
// that are refused then: by who emptied them, and by others on their account.
func (s *redisSide) refused() error {
	victims := visitors(1<<20, drained)
	var drain, hammer, strangers []visitor
	for i, v := range victims {
		for range hammering {
			drain, hammer = append(drain, v), append(hammer, v)
			strangers = append(strangers, visitor{v.account, address(1<<21 + len(strangers) + i)})
		}
	}
	for _, x := range []struct {
		vs     []visitor
		shadow bool
		ok     func([]byte) bool
		to     *[][]command
	}{{drain, true, takes, &s.drain}, {hammer, false, refuses, &s.hammer}, {strangers, false, refuses, &s.strangers}} {
		asks, err := s.asker.asks(x.vs, x.shadow)
		if err != nil {
			return err
		}
		if *x.to, err = asked(asks, x.ok); err != nil {
			return err
		}
		if !x.shadow {
			rand.Shuffle(len(*x.to), func(i, j int) { (*x.to)[i], (*x.to)[j] = (*x.to)[j], (*x.to)[i] })
		}
	}
	return nil
}

// cost measures the Redis CPU of a unit, on an empty server or after before.
func (s *redisSide) cost(us [][]command, together int, before [][]command) func() (sample, error) {
	return func() (sample, error) {
		if err := s.node.flush(); err != nil {
			return nil, err
		}
		if err := s.player.play(before, pipelined); err != nil {
			return nil, err
		}
		from, err := s.node.cpu()
		if err != nil {
			return nil, err
		}
		if err := s.player.play(us, together); err != nil {
			return nil, err
		}
		to, err := s.node.cpu()
		return sample{"redis us": float64(to-from) / float64(time.Microsecond) / float64(len(us))}, err
	}
}

func (s *redisSide) groups() []group {
	const us = "redis us"
	vs := func(together int) []subject {
		return []subject{
			{"trivial EVALSHA", s.cost(s.trivial, together, nil)},
			{"redis_rate Allow", s.cost(s.rate, together, nil)},
			{"one bucket", s.cost(s.one, together, nil)},
			{"take of one plan limit", s.cost(s.plan, together, nil)},
			{"decision", s.cost(s.whole, together, nil)},
			{"refused, same visitor", s.cost(s.hammer, together, s.drain)},
			{"refused, strangers", s.cost(s.strangers, together, s.drain)},
			{"a script a tier", s.cost(s.perTier, together, nil)},
			{"a script a limit", s.cost(s.perLimit, together, nil)},
		}
	}
	return []group{
		{name: "redis, pipelined", floor: "trivial EVALSHA", measure: us, unit: "us of Redis CPU a call", subjects: vs(pipelined), rows: []row{
			{What: "login decision", Against: "redis_rate Allow", of: "decision", base: "redis_rate Allow", measure: us, must: 3.2, aim: 2.6},
			{What: "login decision", Against: "a pipeline of separate scripts, one a tier", of: "decision", base: "a script a tier", measure: us, must: 0.70, aim: 0.55},
			{What: "login decision", Against: "a pipeline of separate scripts, one a limit", of: "decision", base: "a script a limit", measure: us, must: 0.70, aim: 0.55},
			{What: "refused decision, same visitor", Against: "an allowed one", of: "refused, same visitor", base: "decision", measure: us, must: 0.65, aim: 0.55},
			{What: "refused decision, strangers", Against: "an allowed one", of: "refused, strangers", base: "decision", measure: us, must: 0.65, aim: 0.55},
			{What: "one bucket", Against: "redis_rate Allow", of: "one bucket", base: "redis_rate Allow", measure: us, must: 1.1, aim: 0.95},
			{What: "take of one plan limit", Against: "redis_rate Allow", of: "take of one plan limit", base: "redis_rate Allow", measure: us, must: 1.1, aim: 0.95},
		}},
		{name: "redis, unpipelined", floor: "trivial EVALSHA", measure: us, unit: "us of Redis CPU a call", subjects: vs(1)[:5], rows: []row{
			{What: "login decision", Against: "redis_rate Allow", of: "decision", base: "redis_rate Allow", measure: us, must: 1.7, aim: 1.5},
			{What: "one bucket", Against: "redis_rate Allow", of: "one bucket", base: "redis_rate Allow", measure: us, report: true},
			{What: "take of one plan limit", Against: "redis_rate Allow", of: "take of one plan limit", base: "redis_rate Allow", measure: us, report: true},
		}},
		s.memory(),
	}
}

// memory compares what a held limit needs, all in: key, value, TTL, and the
// tables that hold them, at equal numbers of keys.
func (s *redisSide) memory() group {
	grown := func(fill func() (limits int, err error)) func() (sample, error) {
		return func() (sample, error) {
			if err := s.node.flush(); err != nil {
				return nil, err
			}
			before, err := s.node.number("memory", "used_memory")
			if err != nil {
				return nil, err
			}
			limits, err := fill()
			if err != nil {
				return nil, err
			}
			after, err := s.node.number("memory", "used_memory")
			return sample{"bytes": (after - before) / float64(limits)}, err
		}
	}
	ours := func() (int, error) {
		asks, err := s.asker.asks(visitors(0, memoryKeys/3), false)
		if err != nil {
			return 0, err
		}
		us, err := asked(asks, lets)
		if err != nil {
			return 0, err
		}
		limits := 0
		for _, t := range asks[0].Rules.Tiers() {
			for _, l := range t.Limits {
				if !l.Zero() {
					limits++
				}
			}
		}
		return limits * len(asks), s.player.play(us, pipelined)
	}
	theirs := func() (int, error) {
		asks, err := s.asker.asks(visitors(0, memoryKeys/3), false)
		if err != nil {
			return 0, err
		}
		client, rec := recording()
		defer client.Close()
		l := redis_rate.NewLimiter(client)
		for _, a := range asks {
			for t, spec := range a.Rules.Tiers() {
				if !spec.Limits[0].Zero() {
					_, _ = l.Allow(context.Background(), a.Keys[t], redis_rate.PerHour(1000))
				}
			}
		}
		us, err := units(rec.commands(allows), len(rec.calls))
		if err != nil {
			return 0, err
		}
		return len(us), s.player.play(us, pipelined)
	}
	return group{name: "redis, memory", rounds: 2, floor: "redis_rate Allow", measure: "bytes", unit: "bytes a key",
		subjects: []subject{{"redis_rate Allow", grown(theirs)}, {"decision", grown(ours)}},
		rows:     []row{{What: "bytes a limit held", Against: "redis_rate's key", of: "decision", base: "redis_rate Allow", measure: "bytes", must: 1.1, aim: 1.1}},
	}
}
