package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Sentinels are a primary, its replica and the three Sentinels that replace it
// when it is down for a second.
type Sentinels struct {
	Primary, Replica *Server // as they began
	Watch            []*Server
	o                Options
	t                testing.TB
}

// masterName is what the Sentinels call the primary.
const masterName = "guardd"

// StartSentinels runs all five and waits until the Sentinels have found the
// replica and each other.
func StartSentinels(t testing.TB, o Options) *Sentinels {
	t.Helper()
	o.prepare(t)
	s := &Sentinels{o: o, t: t}
	name, words := o.operator()
	var login []string
	if name != "" {
		login = []string{"masteruser " + name, "masterauth " + words}
	}
	const ready = "Ready to accept connections"
	s.Primary = start(t, o, ready, func(int) []string { return login })
	s.Replica = start(t, o, ready, func(int) []string {
		return append(login, fmt.Sprint("replicaof 127.0.0.1 ", s.Primary.port), "repl-diskless-load swapdb")
	})
	s.awaitReplica()
	for range 3 {
		s.Watch = append(s.Watch, start(t, Options{TLS: o.TLS, certs: o.certs}, "+monitor master", func(int) []string {
			lines := []string{
				fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", masterName, s.Primary.port),
				fmt.Sprintf("sentinel down-after-milliseconds %s 1000", masterName),
				fmt.Sprintf("sentinel failover-timeout %s 5000", masterName),
			}
			if name != "" {
				lines = append(lines, fmt.Sprintf("sentinel auth-user %s %s", masterName, name), fmt.Sprintf("sentinel auth-pass %s %s", masterName, words))
			}
			return lines
		}, "--sentinel"))
	}
	s.awaitSentinels()
	return s
}

// awaitReplica waits until the replica has all that the primary has.
func (s *Sentinels) awaitReplica() {
	s.t.Helper()
	Until(s.t, "the replica to follow", func() bool {
		link, err := s.Replica.Client().InfoMap(context.Background(), "replication").Result()
		return err == nil && link["Replication"]["master_link_status"] == "up"
	})
}

// awaitSentinels waits until each knows of a replica and of two others.
func (s *Sentinels) awaitSentinels() {
	s.t.Helper()
	for _, w := range s.Watch {
		Until(s.t, "the sentinels to find each other", func() bool {
			m, err := s.sentinel(w).Master(context.Background(), masterName).Result()
			return err == nil && m["num-slaves"] == "1" && m["num-other-sentinels"] == "2" && m["flags"] == "master"
		})
	}
}

func (s *Sentinels) sentinel(w *Server) *redis.SentinelClient {
	c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr(), TLSConfig: s.o.tls()})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Master is the address of the primary that the Sentinels name now.
func (s *Sentinels) Master() string {
	addr, err := s.sentinel(s.Watch[0]).GetMasterAddrByName(context.Background(), masterName).Result()
	if err != nil {
		return ""
	}
	return addr[0] + ":" + addr[1]
}

// AwaitFailover waits until the replica is the primary, by its own word and the
// Sentinels'.
func (s *Sentinels) AwaitFailover() {
	s.t.Helper()
	Until(s.t, "the replica to take over", func() bool {
		role, err := s.Replica.Client().InfoMap(context.Background(), "replication").Result()
		return err == nil && role["Replication"]["role"] == "master" && s.Master() == s.Replica.Addr()
	})
}

// URL names the Sentinels in the form of guardd's --redis flag. In it the user
// before the @ is the Sentinels', that of the servers is a parameter.
func (s *Sentinels) URL() string {
	more := url.Values{"master_name": {masterName}}
	if s.o.ACL {
		more.Set("username", user)
		more.Set("password", password)
	}
	for _, w := range s.Watch[1:] {
		more.Add("addr", w.Addr())
	}
	plain := Options{TLS: s.o.TLS}
	return plain.url(s.Watch[0].Addr(), more)
}

// CA is as that of Server.
func (s *Sentinels) CA() string { return s.o.certs.CA }

// TLS is as that of Server.
func (s *Sentinels) TLS() *tls.Config { return s.o.tls() }

// Stop kills all five.
func (s *Sentinels) Stop() {
	for _, p := range append([]*Server{s.Primary, s.Replica}, s.Watch...) {
		p.Stop()
	}
}

// Restart starts all five again, empty, as they were.
func (s *Sentinels) Restart() {
	s.t.Helper()
	s.Primary.Restart()
	s.Replica.Restart()
	s.awaitReplica()
	for _, w := range s.Watch {
		w.Restart()
	}
	s.awaitSentinels()
}
