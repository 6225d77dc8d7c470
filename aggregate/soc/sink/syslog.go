package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/guardd/guardd/aggregate/soc"
)

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	// unsureFor is for how long after a batch was written its connection may turn out
	// to have been dead by then: longer than a network takes to say so.
	unsureFor = time.Minute
	// unsureMost bounds it where one connection after the other breaks.
	unsureMost = 1 << 20
)

// syslog sends messages of RFC 5424 with octet counting, over TCP (RFC 6587) or TLS
// (RFC 5425). Syslog has no answer, so what is written may never arrive: when a
// connection turns out to be gone, what was written to it last is written again to
// the next. Whoever was told twice knows by the id.
type syslog struct {
	c      *Config
	addr   string
	secure bool
	host   string

	conn   net.Conn       // nil: none
	gone   chan time.Time // of conn: when the peer has hung up
	unsure []byte         // what was written to it last
	at     time.Time
}

func newSyslog(c *Config, host, port string, secure bool) *syslog {
	return &syslog{c: c, addr: net.JoinHostPort(host, port), host: host, secure: secure}
}

// Deliver is soc.Sink's.
func (s *syslog) Deliver(ctx context.Context, records []*soc.Record) (int, error) {
	var b, one []byte
	for i, r := range records {
		var err error
		if one, err = soc.AppendSyslog(one[:0], r, s.c.Format, s.c.Producer); err != nil {
			if i == 0 {
				return 0, fmt.Errorf("%w: %w", soc.ErrRefused, err)
			}
			records = records[:i]
			break
		}
		b = append(strconv.AppendInt(b, int64(len(one)), 10), ' ')
		b = append(b, one...)
	}
	if s.conn != nil {
		select {
		case at := <-s.gone:
			_ = s.conn.Close() // it is of no use whatever it says
			s.conn = nil
			if at.Sub(s.at) > unsureFor {
				s.unsure = nil
			}
		default:
		}
	}
	if s.conn == nil {
		if err := s.dial(ctx); err != nil {
			return 0, err
		}
		if len(s.unsure)+len(b) <= unsureMost {
			b = append(s.unsure, b...)
		}
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	if _, err := s.conn.Write(b); err != nil {
		if time.Since(s.at) > unsureFor {
			s.unsure = nil
		}
		return 0, errors.Join(err, s.hangUp())
	}
	s.unsure, s.at = b, time.Now()
	return len(records), nil
}

func (s *syslog) dial(ctx context.Context) error {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	if s.secure {
		t := s.c.TLS.Clone()
		if t == nil {
			t = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if t.ServerName == "" {
			t.ServerName = s.host
		}
		secure := tls.Client(conn, t)
		if err := secure.HandshakeContext(ctx); err != nil {
			return errors.Join(err, conn.Close())
		}
		conn = secure
	}
	s.conn, s.gone = conn, make(chan time.Time, 1)
	go func(gone chan<- time.Time) { // a server says nothing, but that it goes
		_, _ = io.Copy(io.Discard, conn)
		gone <- time.Now()
	}(s.gone)
	return nil
}

func (s *syslog) hangUp() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	<-s.gone
	s.conn = nil
	return err
}

// Close is soc.Sink's.
func (s *syslog) Close() error { return s.hangUp() }
