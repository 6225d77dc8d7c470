package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// patience is how long a test waits for real processes to agree before it
// fails. No test passes or fails by how fast they were.
const patience = 60 * time.Second

// Until waits until is reports true.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// Cluster is a Redis Cluster of three nodes without replicas.
type Cluster struct {
	Nodes []*Server
	o     Options
	t     testing.TB
}

const (
	clusterNodes = 3
	slots        = 16384
)

// StartCluster runs a Cluster and waits until every node says that it is whole.
func StartCluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	o.prepare(t)
	o.cluster = true
	c := &Cluster{o: o, t: t}
	var bus [clusterNodes]int
	for i := range clusterNodes {
		c.Nodes = append(c.Nodes, start(t, o, "Ready to accept connections", func(int) []string {
			bus[i], _ = daemon.FreePort() // the usual one, 10,000 above, may not exist
			return []string{"cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000", fmt.Sprint("cluster-port ", bus[i])}
		}))
	}
	ctx := context.Background()
	for i, n := range c.Nodes {
		from, to := slots*i/clusterNodes, slots*(i+1)/clusterNodes-1
		try(t, n.Client().Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		try(t, n.Client().Do(ctx, "cluster", "addslotsrange", from, to).Err())
		try(t, c.Nodes[0].Client().Do(ctx, "cluster", "meet", "127.0.0.1", n.port, bus[i]).Err())
	}
	c.AwaitWhole()
	return c
}

func try(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// AwaitWhole waits until every node says that all slots are served, and knows
// every other.
func (c *Cluster) AwaitWhole() {
	c.t.Helper()
	for _, n := range c.Nodes {
		Until(c.t, "the cluster to be whole", func() bool {
			info, err := n.Client().ClusterInfo(context.Background()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d", clusterNodes))
		})
	}
}

// URL names all nodes in the form of guardd's --redis flag.
func (c *Cluster) URL() string {
	more := url.Values{}
	for _, n := range c.Nodes[1:] {
		more.Add("addr", n.Addr())
	}
	return c.o.url(c.Nodes[0].Addr(), more)
}

// Client is Server.Client for the whole Cluster.
func (c *Cluster) Client() *redis.ClusterClient {
	name, words := c.o.operator()
	o := &redis.ClusterOptions{Username: name, Password: words, TLSConfig: c.o.tls()}
	for _, n := range c.Nodes {
		o.Addrs = append(o.Addrs, n.Addr())
	}
	client := redis.NewClusterClient(o)
	c.t.Cleanup(func() { client.Close() })
	return client
}

// CA is as that of Server.
func (c *Cluster) CA() string { return c.o.certs.CA }

// TLS is as that of Server.
func (c *Cluster) TLS() *tls.Config { return c.o.tls() }

// Stop kills all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		n.Stop()
	}
}

// Restart starts all nodes again, empty, and waits until they are a Cluster.
func (c *Cluster) Restart() {
	c.t.Helper()
	for _, n := range c.Nodes {
		n.Restart()
	}
	c.AwaitWhole()
}
