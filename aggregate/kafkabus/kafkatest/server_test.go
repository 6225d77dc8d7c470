package kafkatest_test

import (
	"net"
	"testing"

	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

// The other tests say nothing of Kafka unless a server answers as one, and keeps
// what it stored.
func TestServersAnswer(t *testing.T) {
	for name, o := range map[string]kafkatest.Options{"plain": {}, "secure": {Secure: true}} {
		t.Run(name, func(t *testing.T) {
			s := kafkatest.Start(t, o)
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
			if err := s.Restart(); err != nil {
				t.Error(err)
			}
		})
	}
}
