package kafkabus

import (
	"strings"
	"testing"
)

func TestEveryFaultIsNamed(t *testing.T) {
	c := Config{Brokers: []string{"kafka", "h:0", "h:9092", ":9092"}, Prefix: "a b", Partitions: -1, Replication: 99, SASL: SASL{Mechanism: "ntlm"}}
	var got []string
	for _, f := range c.Faults() {
		got = append(got, f.Field)
	}
	if want := "brokers[0] brokers[1] brokers[3] prefix partitions replication sasl.mechanism sasl.user sasl.password"; strings.Join(got, " ") != want {
		t.Errorf("named are %v, not %s", got, want)
	}
	if _, err := Open(c); err == nil {
		t.Error("opened")
	}
	for _, good := range []Config{{Brokers: []string{"a:9092", "[::1]:9092"}}, {Brokers: []string{"a:1"}, SASL: SASL{"scram-sha-512", "u", "p"}}} {
		if f := good.Faults(); len(f) > 0 {
			t.Errorf("%+v: %v", good, f)
		}
	}
	if f := (&Config{}).Faults(); len(f) != 1 || f[0].Field != "brokers" {
		t.Errorf("no brokers: %v", f)
	}
	if f := (&Config{Brokers: []string{"a:1"}, SASL: SASL{User: "u", Password: "p"}}).Faults(); len(f) != 1 || f[0].Field != "sasl.mechanism" {
		t.Errorf("no mechanism: %v", f)
	}
}
