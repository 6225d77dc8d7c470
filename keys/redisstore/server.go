package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// servers are all that a client talks to, by address. Behind one address there
// may be another server after a failover: its first reply shows that (learn).
// The nodes of a Cluster have each a clock of their own (one that is a second
// ahead would come to every call late by another's) and a batcher of their own
// (one that stands still would hold up the calls of all).
type servers struct {
	start time.Time
	by    sync.Map    // address to *server
	known atomic.Bool // the client knows which nodes there are, and need not ask
}

// server is one Redis that keys live on.
type server struct {
	clock
	batcher
}

// of is the server at addr ("" where there is only one), which client reaches.
func (s *servers) of(addr string, client *redis.Client) *server {
	v, ok := s.by.Load(addr)
	if !ok {
		v, _ = s.by.LoadOrStore(addr, &server{clock: clock{start: s.start}})
	}
	at := v.(*server)
	if at.client.Load() != client { // a node that left and came back has another
		at.client.Store(client)
	}
	return at
}

// server is where key lives. The error is the client's: it does not know yet
// which nodes there are, and cannot ask.
func (s *Store) server(ctx context.Context, key string) (*server, error) {
	switch client := s.client.(type) {
	case *redis.Client:
		return s.servers.of("", client), nil
	case *redis.ClusterClient:
		node, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		s.servers.known.Store(true)
		return s.servers.of(node.Options().Addr, node), nil
	}
	return s.servers.of("", nil), nil
}

// Part implements keys.Parted: the address of the node of a Cluster that key lives on.
func (s *Store) Part(key string) string {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok || !s.servers.known.Load() {
		return ""
	}
	node, err := cluster.MasterForKey(context.Background(), key) // from memory
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// each calls do for every server that keys live on.
func (s *Store) each(ctx context.Context, do func(ctx context.Context, client redis.Cmdable, c *clock) error) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		one, _ := s.client.(*redis.Client)
		return do(ctx, s.client, &s.servers.of("", one).clock)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return do(ctx, node, &s.servers.of(node.Options().Addr, node).clock)
	})
}

// process has a server run cmd. A node that says that the slot is another's has
// done nothing: then the Cluster's client finds the way, and learns it.
func (s *Store) process(ctx context.Context, at *server, cmd redis.Cmder) error {
	if at.client.Load() == nil {
		return s.client.Process(ctx, cmd)
	}
	err := at.batcher.process(ctx, cmd)
	if cluster, ok := s.client.(*redis.ClusterClient); ok && elsewhere(err) {
		cmd.SetErr(nil)
		return cluster.Process(ctx, cmd)
	}
	return err
}

// elsewhere reports whether a node of a Cluster has not run a call because the
// slot is not (or no longer) its to write, or the client has given the node up.
func elsewhere(err error) bool {
	if err == nil {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, asked := redis.IsAskError(err)
	return moved || asked || redis.IsReadOnlyError(err) || errors.Is(err, redis.ErrClosed)
}
