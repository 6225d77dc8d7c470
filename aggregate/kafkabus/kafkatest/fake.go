package kafkatest

import (
	"crypto/tls"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// fake is kfake. What it stores is in a folder.
type fake struct {
	s       *Server
	dir     string
	cluster *kfake.Cluster
	gate    gate
}

// Fake is the cluster in the process, for a test that has it answer what a real
// one cannot be made to; nil where servers are real ones.
func (s *Server) Fake() *kfake.Cluster {
	if f, ok := s.broker.(*fake); ok {
		return f.cluster
	}
	return nil
}

// Start is broker's.
func (f *fake) Start() (err error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(f.s.port), kfake.DataDir(f.dir), kfake.ListenFn(f.gate.listen),
		kfake.BrokerConfigs(map[string]string{"default.replication.factor": "1"}),
	}
	if f.s.o.Secure {
		cert, err := tls.LoadX509KeyPair(f.s.certs.Cert, f.s.certs.Key)
		if err != nil {
			return err
		}
		opts = append(opts, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL())
		for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
			opts = append(opts, kfake.Superuser(m, User, Password))
		}
	}
	f.gate.set(nil)
	f.cluster, err = kfake.NewCluster(opts...)
	return err
}

// Kill is broker's.
func (f *fake) Kill() {
	f.Resume()
	if f.cluster != nil {
		f.cluster.Close()
		f.cluster = nil
	}
}

// Pause is broker's.
func (f *fake) Pause() { f.gate.set(make(chan struct{})) }

// Resume is broker's.
func (f *fake) Resume() { f.gate.set(nil) }

// Alive is broker's.
func (f *fake) Alive() error {
	if f.cluster == nil {
		return errKilled
	}
	return nil
}

// gate holds back what a listener's connections read while it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil: it is open
}

func (g *gate) set(shut chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
	}
	g.shut = shut
}

func (g *gate) wait() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (g *gate) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return gatedListener{l, g}, err
}

type gatedListener struct {
	net.Listener
	g *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return gatedConn{c, l.g}, err
}

type gatedConn struct {
	net.Conn
	g *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.g.wait()
	return n, err
}
