package main

import (
	"strings"
	"testing"

	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

func TestFaultsOfKafkaAreRefusedByName(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"{brokers: [kafka]}", `kafka.brokers[0]: "kafka" is not host:port`},
		{"{prefix: a b, brokers: ['k:1']}", "kafka.prefix: must be letters"},
		{"{prefix: '', brokers: ['k:1']}", "kafka.prefix: missing"},
		{"{partitions: 0, brokers: ['k:1']}", "kafka.partitions: must be 1 or more"},
		{"{replication: 99, brokers: ['k:1']}", "kafka.replication: must be from 1"},
		{"{group: '', brokers: ['k:1']}", "kafka.group: missing"},
		{"{tls: {on: true}}", "kafka.brokers: missing, but tls or sasl is given"},
		{"{brokers: ['k:1'], tls: {ca_file: x}}", "kafka.tls.on: must be true where files are given"},
		{"{brokers: ['k:1'], tls: {on: true, ca_file: nowhere}}", "kafka.tls.ca_file: open "},
		{"{brokers: ['k:1'], tls: {on: true, cert_file: nowhere}}", "kafka.tls.cert_file: open "},
		{"{brokers: ['k:1'], sasl: {mechanism: ntlm, user: u}}", "kafka.sasl.mechanism: must be one of plain, "},
		{"{brokers: ['k:1'], sasl: {mechanism: plain, user: u}}", "kafka.sasl.password_file: missing"},
		{"{brokers: ['k:1'], sasl: {mechanism: plain, user: u, password_file: nowhere}}", "kafka.sasl.password_file: open "},
	} {
		_, err := loadWith(t, "kafka: "+tt.yaml, nil)
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+tt.want) {
			t.Errorf("%s: %v, not %q", tt.yaml, err, tt.want)
		}
	}
}

// Kafka is away, slow to come or there: guardd starts and decides, and finds it.
func TestServeStartsWithoutKafkaAndSaysSo(t *testing.T) {
	s := kafkatest.Start(t, kafkatest.Options{Secure: true})
	secure := func(addr string) string {
		return writeFile(t, "guardd.yaml", "kafka: {brokers: ['"+addr+"'], partitions: 3, tls: {on: true, ca_file: "+s.CA()+"}, sasl: {mechanism: scram-sha-512, user: "+
			kafkatest.User+", password_file: "+writeFile(t, "password", kafkatest.Password)+"}}")
	}
	p := startGuardd(t, "--config", secure(s.Addr()))
	if _, err := p.awaitLog("events go through kafka"); err != nil {
		t.Error(err)
	}
	s.Kill()
	away := startGuardd(t, "--kafka", s.Addr())
	if _, err := away.awaitLog("kafka fails: logins go on"); err != nil {
		t.Error(err)
	}
	for _, p := range []*process{p, away} {
		if a := p.attempt(t, "alice", "192.0.2.1"); !a.Proceed || a.Degraded {
			t.Errorf("while Kafka is away: %+v", a)
		}
	}
	if n := away.metric(t, `guardd_kafka_errors_total{operation="topics"}`); n == "0" {
		t.Error("that Kafka is away is not counted")
	}
}
