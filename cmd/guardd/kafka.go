package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus"
)

// kafkaConfig says where events go; without brokers they stay in the process.
type kafkaConfig struct {
	Brokers     []string  `yaml:"brokers"`
	Prefix      string    `yaml:"prefix"`
	Partitions  int       `yaml:"partitions"`
	Replication int       `yaml:"replication"`
	Group       string    `yaml:"group"`
	TLS         kafkaTLS  `yaml:"tls"`
	SASL        kafkaSASL `yaml:"sasl"`
}

type kafkaTLS struct {
	On       bool   `yaml:"on"`
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

type kafkaSASL struct {
	Mechanism    string `yaml:"mechanism"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
}

func defaultKafka() kafkaConfig {
	return kafkaConfig{Prefix: kafkabus.DefaultPrefix, Partitions: kafkabus.DefaultPartitions, Group: "guardd"}
}

// brokerList is a setting of several brokers, with commas between them.
type brokerList []string

// UnmarshalText reads "host:9092,host:9092".
func (l *brokerList) UnmarshalText(text []byte) error {
	*l = strings.Split(string(text), ",")
	return nil
}

func (k *kafkaConfig) beside(file string) {
	for _, path := range []*string{&k.TLS.CAFile, &k.TLS.CertFile, &k.TLS.KeyFile, &k.SASL.PasswordFile} {
		*path = beside(file, *path)
	}
}

// checkKafka makes c.kafka of c.Kafka.
func (c *config) checkKafka(bad *faults) {
	k := &c.Kafka
	if len(k.Brokers) == 0 {
		if k.TLS != (kafkaTLS{}) || k.SASL != (kafkaSASL{}) {
			bad.add("kafka.brokers", "missing, but tls or sasl is given")
		}
		return
	}
	bus := &kafkabus.Config{
		Brokers: k.Brokers, Prefix: k.Prefix, Partitions: k.Partitions, Replication: k.Replication,
		TLS: k.TLS.config("kafka.tls", bad), SASL: kafkabus.SASL{Mechanism: k.SASL.Mechanism, User: k.SASL.User},
	}
	if k.SASL.PasswordFile != "" {
		bus.SASL.Password = c.readPassword("kafka.sasl.password_file", k.SASL.PasswordFile, bad)
	}
	for _, f := range bus.Faults() {
		if f.Field == "sasl.password" {
			f.Field = "sasl.password_file"
		}
		bad.add("kafka."+f.Field, "%s", f.Reason)
	}
	if k.Prefix == "" {
		bad.add("kafka.prefix", "missing")
	}
	if k.Partitions == 0 {
		bad.add("kafka.partitions", "must be 1 or more")
	}
	if k.Group == "" {
		bad.add("kafka.group", "missing")
	}
	if k.SASL.Mechanism == "plain" && !k.TLS.On {
		c.warnings = append(c.warnings, "kafka.sasl.mechanism plain shows the password to whoever listens on the way: without tls, use a scram one")
	}
	c.kafka = bus
}

// readPassword reads a file of one line.
func (c *config) readPassword(field, path string, bad *faults) string {
	lines, err := c.readSecretFile(path)
	if err == nil && len(lines) != 1 {
		err = fmt.Errorf("must hold one line, not %d", len(lines))
	}
	if err != nil {
		bad.add(field, "%v", err)
		return ""
	}
	return string(lines[0])
}

// config is nil where TLS is off. at is the path of t.
func (t *kafkaTLS) config(at string, bad *faults) *tls.Config {
	if !t.On {
		if *t != (kafkaTLS{}) {
			bad.add(at+".on", "must be true where files are given")
		}
		return nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		out.RootCAs = x509.NewCertPool()
		text, err := os.ReadFile(t.CAFile)
		if err == nil && !out.RootCAs.AppendCertsFromPEM(text) {
			err = errors.New(t.CAFile + " holds no certificate in PEM form")
		}
		if err != nil {
			bad.add(at+".ca_file", "%v", err)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			bad.add(at+".cert_file", "%v", err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out
}

// openBus returns the bus in the process, or Kafka's. It does not wait for
// Kafka: a guardd that starts during an outage decides as ever.
func (s *server) openBus() (aggregate.Bus, error) {
	k := s.config.Kafka
	if len(k.Brokers) == 0 {
		s.metrics.watchKafka(nil)
		bus := aggregate.NewMemoryBus(aggregate.MemoryBusConfig{})
		s.undo.push(bus.Close)
		return bus, nil
	}
	c := *s.config.kafka
	c.OnError = s.kafkaFailed
	bus, err := kafkabus.Open(c)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s.undo.push(bus.Close)
	s.metrics.watchKafka(bus.Stats)
	s.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if bus.Check(ctx) == nil {
			s.log.Info("events go through kafka", "brokers", k.Brokers, "topics", k.Prefix)
		}
	})
	return bus, nil
}

// kafkaFailed logs the first of many failures; metrics count them all.
func (s *server) kafkaFailed(op string, err error) {
	if !errors.Is(err, context.Canceled) && s.kafkaLogged.due() {
		s.log.Warn("kafka fails: logins go on, and this is tried again", "operation", op, "error", err)
	}
}
