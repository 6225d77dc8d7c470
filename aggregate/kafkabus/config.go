package kafkabus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/guardd/guardd/aggregate"
)

// Config says where Kafka is and how its topics are made.
type Config struct {
	// Brokers are host:port of some of the cluster's brokers; the others are
	// found through them.
	Brokers []string
	// TLS is how to speak with them; nil: in clear.
	TLS *tls.Config
	// SASL is who to be; the zero value is nobody.
	SASL SASL
	// Prefix is put before the names of the topics; "" is DefaultPrefix.
	Prefix string
	// Partitions and Replication are for topics that are not there yet: how many
	// partitions that of the events gets (0: DefaultPartitions; the others get
	// one), and how many copies all get (0: what the brokers do by default). A
	// topic that is there stays as it is.
	Partitions, Replication int
	// More are topics that are published to beside aggregate.Topics, of one partition
	// each.
	More []aggregate.Topic
	// ClientID is by what name the brokers log and limit this client.
	ClientID string

	// OnError is called, by many goroutines, for everything that failed and will
	// be tried again: op is one of Operations. Nil: nobody is told.
	OnError func(op string, err error)

	// The times below have the values of newTimes; tests have others.
	times times
}

// The defaults of Config.
const (
	DefaultPrefix     = "guardd."
	DefaultPartitions = 8
)

// Operations lists what Config.OnError and Stats.Errors know.
var Operations = []string{opTopics, opPublish, opGroup, opFetch, opHandle, opCommit, opLook}

const (
	opTopics  = "topics"  // look for the topics, or make them
	opPublish = "publish" // write messages, dead letters too
	opGroup   = "group"   // be a member of a group
	opFetch   = "fetch"   // read a partition
	opHandle  = "handle"  // what a Handler says, poison too
	opCommit  = "commit"  // store a position
	opLook    = "look"    // ask where a partition's log ends
)

// Mechanisms lists what SASL.Mechanism may be.
var Mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// SASL is a user and how its password is shown.
type SASL struct {
	Mechanism string // one of Mechanisms; "" is no SASL
	User      string
	Password  string
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Mechanism{Username: s.User, Password: s.Password}, nil
	case "scram-sha-256":
		return scram.Mechanism(scram.SHA256, s.User, s.Password)
	case "scram-sha-512":
		return scram.Mechanism(scram.SHA512, s.User, s.Password)
	}
	return nil, fmt.Errorf("must be one of %s, not %q", strings.Join(Mechanisms, ", "), s.Mechanism)
}

// A Fault is what is wrong with one field of a Config.
type Fault struct{ Field, Reason string }

// Error is the field and the reason.
func (f Fault) Error() string { return f.Field + ": " + f.Reason }

// Kafka's own bounds: what a topic's name may hold and how long it may be, and
// more partitions than which no cluster takes from one request.
const (
	maxTopic      = 249
	maxPartitions = 10_000
	maxReplicas   = 32
)

// Faults says what is wrong with c, without asking any broker.
func (c *Config) Faults() (all []Fault) {
	bad := func(field, format string, args ...any) {
		all = append(all, Fault{field, fmt.Sprintf(format, args...)})
	}
	if len(c.Brokers) == 0 {
		bad("brokers", "missing")
	}
	for i, b := range c.Brokers {
		if err := checkBroker(b); err != nil {
			bad(fmt.Sprintf("brokers[%d]", i), "%v", err)
		}
	}
	if p := c.Prefix; strings.ContainsFunc(p, notInTopic) || len(p) > maxTopic-len("findings") {
		bad("prefix", "must be letters, digits, '.', '_' and '-', at most %d, not %q", maxTopic-len("findings"), p)
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		bad("partitions", "must be from 1 to %d, not %d", maxPartitions, c.Partitions)
	}
	if c.Replication < 0 || c.Replication > maxReplicas {
		bad("replication", "must be from 1 to %d, or 0 for the brokers' default, not %d", maxReplicas, c.Replication)
	}
	if c.SASL != (SASL{}) {
		if _, err := c.SASL.mechanism(); err != nil {
			bad("sasl.mechanism", "%v", err)
		} else if c.SASL.Mechanism == "" {
			bad("sasl.mechanism", "missing: one of %s", strings.Join(Mechanisms, ", "))
		}
		if c.SASL.User == "" {
			bad("sasl.user", "missing")
		}
		if c.SASL.Password == "" {
			bad("sasl.password", "missing")
		}
	}
	return all
}

func notInTopic(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
}

func checkBroker(b string) error {
	host, port, err := net.SplitHostPort(b)
	if n, perr := strconv.Atoi(port); err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is not host:port", b)
	}
	return nil
}

// err is every fault of c.
func (c *Config) err() error {
	var all []error
	for _, f := range c.Faults() {
		all = append(all, f)
	}
	return errors.Join(all...)
}

// times are how long things take at most, or are waited for.
type times struct {
	dial    time.Duration // to reach a broker, TLS and SASL included
	request time.Duration // for a broker to answer
	linger  time.Duration // for a batch to fill: what one Publish costs at least
	fetch   time.Duration // how long a broker holds a fetch that finds nothing
	// A member that says nothing for session has died, and its partitions go to
	// others. Kafka's brokers take no less than 6 s by default. It says something
	// every heartbeat.
	session, heartbeat time.Duration
	rebalance          time.Duration // for all members to join again
	partitions         time.Duration // between looks for added partitions; metadata is as old at most
	commit             time.Duration // between commits
	look               time.Duration // between looks at where the logs end
	stall              time.Duration // without a message, where there are some, before all begins anew
	pause              time.Duration // after what failed
}

func newTimes() times {
	return times{
		dial: 5 * time.Second, request: 5 * time.Second, linger: 5 * time.Millisecond, fetch: 5 * time.Second,
		session: 6 * time.Second, heartbeat: 1500 * time.Millisecond, rebalance: 10 * time.Second,
		partitions: 5 * time.Second, commit: time.Second, look: 5 * time.Second, stall: 30 * time.Second, pause: time.Second,
	}
}

func (c *Config) complete() {
	c.Brokers = slices.Clone(c.Brokers)
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Partitions == 0 {
		c.Partitions = DefaultPartitions
	}
	if c.ClientID == "" {
		c.ClientID = "guardd"
	}
	if c.OnError == nil {
		c.OnError = func(string, error) {}
	}
	if c.times == (times{}) {
		c.times = newTimes()
	}
}
