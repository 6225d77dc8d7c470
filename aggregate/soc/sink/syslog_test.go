package sink

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	gosyslog "github.com/leodido/go-syslog/v4"
	"github.com/leodido/go-syslog/v4/octetcounting"
	"github.com/leodido/go-syslog/v4/rfc5424"

	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/aggregate/soc/soctest"
	"github.com/guardd/guardd/keys/keystest/daemon"
)

// server takes syslog and has somebody else's parser read it.
type server struct {
	net.Listener
	mu    sync.Mutex
	got   []string // messages
	conns []net.Conn
	wrong []error
}

func serve(t *testing.T, c *tls.Config) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		l = tls.NewListener(l, c)
	}
	s := &server{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			all.Go(func() { s.read(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); s.cut(); all.Wait() })
	return s
}

func (s *server) read(conn net.Conn) {
	octetcounting.NewParser(gosyslog.WithListener(func(r *gosyslog.Result) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if m, ok := r.Message.(*rfc5424.SyslogMessage); ok && m.Message != nil && r.Error == nil {
			s.got = append(s.got, *m.Message)
		} else if r.Error != nil && !strings.Contains(r.Error.Error(), "EOF") {
			s.wrong = append(s.wrong, r.Error)
		}
	})).Parse(bufio.NewReader(conn))
	_, _ = io.Copy(io.Discard, conn)
}

func (s *server) messages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// cut hangs up on everybody.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func TestSyslogIsFramedAndComesAgainOverTheNextConnection(t *testing.T) {
	srv, all := serve(t, nil), records(30)
	s := open(t, Config{To: "syslog://" + srv.Addr().String(), Format: soc.CEF})
	deliver(t, s, all[:10]...)
	await(t, "that ten come", func() bool { return len(idsIn(srv.messages(), all)) == 10 })
	srv.cut()
	await(t, "that the sink hears of it", func() bool { return len(s.(*syslog).gone) == 1 })
	deliver(t, s, all[10:]...)
	await(t, "that all come", func() bool { return len(idsIn(srv.messages(), all)) == 30 })
	if n := len(srv.messages()); n != 40 {
		t.Errorf("%d messages: the ten before the cut come twice", n)
	}
	if len(srv.wrong) > 0 {
		t.Error(srv.wrong)
	}
}

func TestSyslogSaysThatNobodyListens(t *testing.T) {
	srv := serve(t, nil)
	s := open(t, Config{To: "syslog://" + srv.Addr().String(), Format: soc.CEF})
	srv.Close()
	if n, err := s.Deliver(t.Context(), records(2)); n != 0 || err == nil {
		t.Errorf("%d are taken, %v", n, err)
	}
}

func TestSyslogOverTLSKnowsWhoItSpeaksTo(t *testing.T) {
	certs, others := daemon.MakeCerts(t), daemon.MakeCerts(t)
	pair, err := tls.LoadX509KeyPair(certs.Cert, certs.Key)
	if err != nil {
		t.Fatal(err)
	}
	srv, all := serve(t, &tls.Config{Certificates: []tls.Certificate{pair}}), records(3)
	trusting := certs.Client()
	trusting.ServerName = "" // the address' own
	deliver(t, open(t, Config{To: "syslog+tls://" + srv.Addr().String(), TLS: trusting}), all...)
	await(t, "that all come", func() bool { return len(idsIn(srv.messages(), all)) == 3 })
	for name, c := range map[string]*tls.Config{"nobody we trust": others.Client(), "the machine's own": nil} {
		if n, err := open(t, Config{To: "syslog+tls://" + srv.Addr().String(), TLS: c}).Deliver(t.Context(), all); n != 0 || err == nil {
			t.Errorf("%s: %d are taken, %v", name, n, err)
		}
	}
}

// The real thing: rsyslog takes it over TLS with our certificate, keeps it as it came,
// reads the header as it was meant, and somebody else's parser agrees.
func TestRsyslogTakesEveryFormat(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			srv := soctest.StartRsyslog(t, secure)
			to, c := "syslog://"+srv.Addr, (*tls.Config)(nil)
			if secure {
				pair, err := tls.LoadX509KeyPair(srv.Certs.Cert, srv.Certs.Key)
				if err != nil {
					t.Fatal(err)
				}
				to, c = "syslog+tls://"+srv.Addr, srv.Certs.Client()
				c.Certificates = []tls.Certificate{pair}
			}
			var all []*soc.Record
			for i, f := range soc.Formats {
				r := records(1)[0]
				r = changed(r, soc.Opened, func(f *finding) { f.ID, f.Reason = fmt.Sprint("c", i), `=|\] "é😀` })
				r.Names = map[string]string{r.Finding.Samples[0]: `alice|b=c"]\`}
				all = append(all, r)
				deliver(t, open(t, Config{To: to, Format: f, TLS: c}), r)
			}
			await(t, "that all come", func() bool { return len(srv.Raw()) == len(all) && len(srv.Read()) == len(all) })
			for i, raw := range srv.Raw() {
				m, err := rfc5424.NewParser().Parse([]byte(raw))
				if err != nil {
					t.Errorf("%v: %q", err, raw)
					continue
				}
				at := slices.IndexFunc(all, func(r *soc.Record) bool { return strings.Contains(raw, r.ID) })
				want, _ := soc.Formats[at].AppendTo(nil, all[at], producer)
				if got := *m.(*rfc5424.SyslogMessage).Message; got != string(want) {
					t.Errorf("message %d came as\n%s\nand not\n%s", i, got, want)
				}
			}
			for _, read := range srv.Read() {
				if !strings.HasPrefix(read, "authpriv.warning guardd spray [guardd@32473 id=") {
					t.Errorf("rsyslog read %q", read)
				}
			}
		})
	}
}

// A server that is killed and comes back gets what it missed.
func TestSyslogBeginsAgainAfterAServerWasAway(t *testing.T) {
	srv, all := serve(t, nil), records(2)
	addr := srv.Addr().String()
	s := open(t, Config{To: "syslog://" + addr, Format: soc.ECS})
	deliver(t, s, all[0])
	await(t, "that one comes", func() bool { return len(srv.messages()) == 1 })
	srv.Close()
	srv.cut()
	await(t, "that the sink hears of it", func() bool { return len(s.(*syslog).gone) == 1 })
	if n, err := s.Deliver(t.Context(), all[1:]); n != 0 || err == nil {
		t.Errorf("%d are taken by nobody, %v", n, err)
	}
	var l net.Listener
	await(t, "the port "+addr+" again", func() (free bool) {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	again := &server{Listener: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.Accept(); err == nil {
			again.mu.Lock()
			again.conns = append(again.conns, conn)
			again.mu.Unlock()
			again.read(conn)
		}
	}()
	deliver(t, s, all[1:]...)
	await(t, "that both come", func() bool { return len(idsIn(again.messages(), all)) == 2 })
	l.Close()
	again.cut()
	<-done
}
