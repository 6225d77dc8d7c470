package kafkabus

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/aggregatetest"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

// shared is the broker of every test that asks for nothing particular of it, and
// of those that kill it.
var shared kafkatest.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// prefixes tell the tests of one broker apart.
var prefixes atomic.Int64

// open opens a bus on s that ends with the test. Each failure is in the test's
// log.
func open(t *testing.T, s *kafkatest.Server, change func(*Config)) *Bus {
	t.Helper()
	c := Config{Brokers: []string{s.Addr()}, TLS: s.TLS(), times: newTimes(), OnError: func(op string, err error) { t.Logf("%s: %v", op, err) }}
	if s.TLS() != nil {
		c.SASL = SASL{Mechanism: "plain", User: kafkatest.User, Password: kafkatest.Password}
	}
	if change != nil {
		change(&c)
	}
	b, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func prefix() string { return fmt.Sprintf("t%d.", prefixes.Add(1)) }

func TestSuite(t *testing.T) {
	s := shared.Server(t)
	if v, err := s.Version(); err == nil {
		t.Logf("broker on the wire: %s", v)
	}
	aggregatetest.Run(t, aggregatetest.Subject{Cluster: func(t *testing.T, partitions int) func() aggregate.Bus {
		p := prefix()
		return func() aggregate.Bus {
			return open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, partitions })
		}
	}})
}

// What a bus starts ends with it: connections that stay are met as a leak only
// after weeks.
func TestNothingIsLeftBehind(t *testing.T) {
	s := shared.Server(t)
	was := goleak.IgnoreCurrent()
	t.Run("a bus", func(t *testing.T) {
		p := prefix()
		b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 4 })
		consumed := consume(t, b, "g")
		publishN(t, b, 0, 20)
		consumed.await(t, 20)
		consumed.end(t)
	})
	goleak.VerifyNone(t, was)
}
