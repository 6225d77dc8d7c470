package kafkatest_test

import (
	"net"
	"testing"

	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

// The other tests say nothing of Kafka unless a server answers as one, and is
// gone when it was killed. This one is secure: it is more than a plain one.
func TestAServerAnswers(t *testing.T) {
	s := kafkatest.Start(t, kafkatest.Options{Secure: true})
	v, err := s.Version()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("broker on the wire: %s", v)
	s.Kill()
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		c.Close()
		t.Error("a killed server listens")
	}
	if s.Alive() == nil {
		t.Error("a killed server is alive")
	}
	if err := s.Restart(); err != nil {
		t.Error(err)
	}
}
