package kafkabus

import (
	"context"
	"net"
	"sync"

	"github.com/segmentio/kafka-go"
)

// line is the connections of one reader, which has no way to end them itself.
type line struct {
	mu    sync.Mutex
	conns map[net.Conn]bool // open; nil once cut
}

// over is d with its connections on the line.
func (l *line) over(d *kafka.Dialer) *kafka.Dialer {
	on := *d
	on.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialFunc(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conns == nil {
			c.Close()
			return nil, net.ErrClosed
		}
		l.conns[c] = true
		return lineConn{c, l}, nil
	}
	return &on
}

// cut ends all connections, and those that come.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

type lineConn struct {
	net.Conn
	l *line
}

// Close takes the connection off the line.
func (c lineConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c.Conn)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
