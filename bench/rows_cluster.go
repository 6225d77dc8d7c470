package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/redisstore"
)

// clusterSide asks the same of a single node and of a cluster of three, the way
// the service does: package redisstore over go-redis, one call a round trip.
type clusterSide struct {
	single  *node
	cluster cluster
	asks    []*keys.Ask
	stores  map[string]*redisstore.Store
	clients []redis.UniversalClient
}

func newClusterSide() (c *clusterSide, err error) {
	c = &clusterSide{stores: map[string]*redisstore.Store{}}
	if c.single, err = startRedis(); err != nil {
		return nil, err
	}
	if c.cluster, err = startCluster(); err != nil {
		c.single.stop()
		return nil, err
	}
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	if c.asks, err = a.asks(visitors(0, pairs), false); err != nil {
		return nil, err
	}
	for name, url := range map[string]string{
		"single":  "redis://" + c.single.addr + "?pool_size=64",
		"cluster": "redis://" + c.cluster[0].addr + "?pool_size=64&addr=" + strings.Join(c.cluster.addrs()[1:], "&addr="),
	} {
		const patient = 2 * time.Second // throughput is asked for, not patience
		client, err := redisstore.Open(url, patient)
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, client)
		c.stores[name] = redisstore.New(redisstore.Config{Client: client, Deadline: patient})
		if err := c.stores[name].Load(context.Background()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

func (c *clusterSide) close() {
	for _, cl := range c.clients {
		cl.Close()
	}
	c.single.stop()
	c.cluster.stop()
}

// cost is the processor time of client and servers a decision: its inverse is
// the throughput of a machine that does nothing else.
func (c *clusterSide) cost(name string, flush func() error, cpu func() (time.Duration, error)) func() (sample, error) {
	return func() (sample, error) {
		if err := flush(); err != nil {
			return nil, err
		}
		redisFrom, err := cpu()
		if err != nil {
			return nil, err
		}
		from, begun := selfCPU(), time.Now()
		errs := make([]error, parallel)
		var wg sync.WaitGroup
		for i := range parallel {
			wg.Go(func() {
				var ans keys.Answer
				for _, a := range c.asks[i*len(c.asks)/parallel : (i+1)*len(c.asks)/parallel] {
					err := c.stores[name].Take(context.Background(), a, &ans)
					if err == nil && !ans.Let {
						err = errors.New("refused")
					}
					if err != nil {
						errs[i] = err
						return
					}
				}
			})
		}
		wg.Wait()
		took, own := time.Since(begun), selfCPU()-from
		redisTo, err := cpu()
		if err := errors.Join(append(errs, err)...); err != nil {
			return nil, err
		}
		n := float64(len(c.asks))
		return sample{
			"decisions/cpu s": n / (own + redisTo - redisFrom).Seconds(),
			"decisions/s":     n / took.Seconds(),
			"redis us":        float64((redisTo - redisFrom).Microseconds()) / n,
		}, nil
	}
}

func (c *clusterSide) groups() []group {
	const per = "decisions/cpu s"
	return []group{{
		name: "redis cluster", floor: "single node", measure: per, unit: "decisions a second of CPU, client's and servers'",
		subjects: []subject{
			{"single node", c.cost("single", c.single.flush, c.single.cpu)},
			{"cluster of three", c.cost("cluster", c.cluster.flush, c.cluster.cpu)},
		},
		rows: []row{{What: "login decision on a cluster", Against: "the same on a single node", of: "cluster of three", base: "single node",
			measure: per, higher: true, must: 0.90, aim: 1.0}},
	}}
}
