package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is what a Proxy does to what passes.
type Fault int

// The faults. Each can befall requests, which then never reach the server, or
// replies, whose requests did.
const (
	Healthy Fault = iota
	Hang          // it is swallowed
	Reset         // half of it passes, then the connection is reset
	Late          // it is held until Release
	Trickle       // it passes byte by byte, ten a second
)

// Side is which way a Fault works.
type Side int

// The sides.
const (
	Requests Side = iota // did not happen
	Replies              // happened, reply lost
)

// Proxy stands between a client and a server.
type Proxy struct {
	t    testing.TB
	to   string
	addr string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	fault    Fault
	side     Side
	held     chan struct{} // closed by Release
	wg       sync.WaitGroup
}

// StartProxy stands before the server at addr until the test ends.
func StartProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, to: addr, addr: "127.0.0.1:0", conns: map[net.Conn]bool{}, held: make(chan struct{})}
	p.Listen()
	p.addr = p.listener.Addr().String()
	t.Cleanup(func() {
		p.Refuse()
		p.Release()
		p.wg.Wait()
	})
	return p
}

// URL is the proxy's address in the form of guardd's --redis flag.
func (p *Proxy) URL() string { return "redis://" + p.addr }

// Set chooses what goes wrong from now on, and which way.
func (p *Proxy) Set(f Fault, on Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.side = f, on
}

// Release lets go of what is held, and of what would be from now on.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.held)
	p.held = make(chan struct{})
	p.fault = Healthy
}

// Refuse breaks all connections and takes no more.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
}

// Listen takes connections (again).
func (p *Proxy) Listen() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		client.Close()
		return
	}
	p.keep(client, server)
	defer p.drop(client, server)
	var ways sync.WaitGroup
	ways.Go(func() { p.pass(client, server, Requests) })
	ways.Go(func() { p.pass(server, client, Replies) })
	ways.Wait()
}

func (p *Proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// now is what goes wrong this way.
func (p *Proxy) now(way Side) (Fault, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.side != way {
		return Healthy, nil
	}
	return p.fault, p.held
}

// pass moves what comes one way until either end is closed.
func (p *Proxy) pass(from, to net.Conn, way Side) {
	// A side that hung up must not keep what the other still has to do.
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n == 0 && err != nil {
			return
		}
		fault, held := p.now(way)
		switch fault {
		case Hang:
			continue
		case Reset:
			to.Write(b[:n/2])
			for _, c := range []net.Conn{from, to} {
				c.(*net.TCPConn).SetLinger(0) // a reset, not an orderly end
				c.Close()
			}
			return
		case Late:
			<-held
		case Trickle:
			for _, one := range b[:n] {
				time.Sleep(100 * time.Millisecond)
				if _, err := to.Write([]byte{one}); err != nil {
					return
				}
			}
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
