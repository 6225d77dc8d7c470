package redisstore

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// subject is a Store on servers of its own, which tests may tamper with.
type subject struct {
	*Store
	raw redis.UniversalClient
}

func (s subject) SetWrongType(key string) error {
	ctx := context.Background()
	if err := s.raw.Del(ctx, key).Err(); err != nil {
		return err
	}
	if err := s.raw.RPush(ctx, key, "x").Err(); err != nil {
		return err
	}
	return s.raw.Expire(ctx, key, time.Hour).Err()
}

func (s subject) Persist(key string) error { return s.raw.Persist(context.Background(), key).Err() }

func (s subject) FlushScripts() error { return s.raw.ScriptFlush(context.Background()).Err() }

// open returns a Store on s. Its deadline is long: what a busy test machine
// does to 5 ms is no fault of the arithmetic.
func open(t testing.TB, s *redistest.Server) subject {
	t.Helper()
	return openURL(t, s.URL(), s.TLS(), s.Client())
}

func openURL(t testing.TB, rawURL string, trust *tls.Config, raw redis.UniversalClient) subject {
	t.Helper()
	const long = 10 * time.Second
	c, err := Open(rawURL, long)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if trust != nil { // what SSL_CERT_FILE does for a process
		switch c := c.(type) {
		case *redis.Client:
			c.Options().TLSConfig.RootCAs = trust.RootCAs
		case *redis.ClusterClient:
			c.Options().TLSConfig.RootCAs = trust.RootCAs
		}
	}
	return subject{New(Config{Client: c, Deadline: long}), raw}
}

func TestSuite(t *testing.T) {
	s := redistest.Start(t)
	keystest.Run(t, func(t *testing.T) keystest.Subject { return open(t, s) })
}

// Each kind of Redis, as strict as it can be had: guardd's user may do no more
// than what the README says, and nothing is said in clear.
func TestSuiteOverTLSAndACL(t *testing.T) {
	s := redistest.StartWith(t, redistest.Options{TLS: true, ACL: true})
	keystest.Run(t, func(t *testing.T) keystest.Subject { return open(t, s) })
	mayDoNoMore(t, s.URL(), s.TLS())
}

func TestSuiteOverCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{ACL: true})
	raw := c.Client()
	keystest.Run(t, func(t *testing.T) keystest.Subject { return openURL(t, c.URL(), nil, raw) })
	s := openURL(t, c.URL(), nil, raw)
	keystest.Walk(t, 4, 300, keystest.Named{Name: "cluster", Subject: s})
	keystest.CodeWalk(t, 2, 200, keystest.Named{Name: "cluster", Subject: s})
	keystest.PlanWalk(t, 2, 300, keystest.PlanNamed{Name: "cluster", Subject: s})
	for _, n := range c.Nodes { // a walk is of one slot, the suite's names of all
		redistest.EveryKeyDies(t, n, 1)
	}
	mayDoNoMore(t, c.URL(), nil)
}

func TestSuiteOverSentinel(t *testing.T) {
	s := redistest.StartSentinels(t, redistest.Options{ACL: true})
	keystest.Run(t, func(t *testing.T) keystest.Subject { return openURL(t, s.URL(), nil, s.Primary.Client()) })
	one := openURL(t, s.URL(), nil, s.Primary.Client())
	keystest.Walk(t, 4, 300, keystest.Named{Name: "sentinel", Subject: one})
	redistest.EveryKeyDies(t, s.Primary, 100)
	mayDoNoMore(t, s.URL(), nil)
}

// mayDoNoMore holds the ACL of the tests to be one at all.
func mayDoNoMore(t *testing.T, rawURL string, trust *tls.Config) {
	t.Helper()
	s, ctx := openURL(t, rawURL, trust, nil), t.Context()
	for what, err := range map[string]error{
		"read another's key": s.client.MGet(ctx, "session:1").Err(), "empty the database": s.client.FlushDB(ctx).Err(),
	} {
		if Kind(err) != "auth" {
			t.Errorf("guardd's user may %s: %v", what, err)
		}
	}
}

func TestScriptWalksWithTheOracle(t *testing.T) {
	steps := 10_000
	if testing.Short() {
		steps = 1_000
	}
	s := redistest.Start(t)
	keystest.Walk(t, 20, steps, keystest.Named{Name: "redis", Subject: open(t, s)})
	redistest.EveryKeyDies(t, s, 100)
}

func TestScriptWalksWithTheTwinOverCodes(t *testing.T) {
	s := redistest.Start(t)
	keystest.CodeWalk(t, 10, 1_000,
		keystest.Named{Name: "twin", Subject: keystest.Twin{Memory: keys.NewMemory(keys.MemoryConfig{})}},
		keystest.Named{Name: "redis", Subject: open(t, s)})
	redistest.EveryKeyDies(t, s, 100)
}

// Plan limits: the twin beside it, and on a Cluster, where all keys of a caller
// must be of one slot.
func TestPlanWalks(t *testing.T) {
	s := redistest.Start(t)
	keystest.PlanWalk(t, 10, 1_500,
		keystest.PlanNamed{Name: "redis", Subject: open(t, s)}, keystest.PlanNamed{Name: "twin", Subject: keys.NewMemory(keys.MemoryConfig{})})
	redistest.EveryKeyDies(t, s, 20)
}

// Slots: the twin beside it.
func TestSlotWalks(t *testing.T) {
	s := redistest.Start(t)
	keystest.SlotWalk(t, 10, 1_500,
		keystest.SlotNamed{Name: "redis", Subject: open(t, s)}, keystest.SlotNamed{Name: "twin", Subject: keys.NewMemory(keys.MemoryConfig{})})
	redistest.EveryKeyDies(t, s, 1)
}
