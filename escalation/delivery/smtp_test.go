package delivery

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/guardd/guardd/escalation"
)

// server is a real mail server on a loopback port. Its faults are played one
// connection each; without any left it takes what comes.
type server struct {
	*smtp.Server
	roots  *x509.CertPool
	port   int
	faults []fault
	stop   func()

	mu    sync.Mutex
	conns []*smtp.Conn
	mails []received
}

type received struct {
	from, to, user string
	tls            bool
	text           string
}

// fault is what goes wrong in one connection.
type fault struct {
	greet, mail, rcpt, data *smtp.SMTPError
	cutRcpt                 bool // the connection, in place of the answer to RCPT
	cut                     bool // after the whole mail, in place of the answer
	bye                     bool // after the answer to the mail
}

func smtpError(code, class int, text string) *smtp.SMTPError {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{class, 1, 1}, Message: text}
}

// serve starts one; mode is starttls, tls or none.
func serve(t *testing.T, mode string, faults ...fault) *server {
	t.Helper()
	https := httptest.NewTLSServer(nil) // for its certificate, good for 127.0.0.1
	cert, leaf := https.TLS.Certificates[0], https.Certificate()
	https.Close()
	s := &server{roots: x509.NewCertPool(), faults: faults}
	s.roots.AddCert(leaf)
	s.Server = smtp.NewServer(smtp.BackendFunc(s.session))
	s.Domain, s.EnableSMTPUTF8, s.MaxLineLength = "localhost", true, 4096
	s.ErrorLog = nolog{}
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	switch mode {
	case "starttls":
		s.TLSConfig = config
	case "tls":
		l = tls.NewListener(l, config)
	}
	go s.Serve(l)
	s.stop = func() { l.Close(); s.Close() } // Close alone does nothing before Serve has begun
	t.Cleanup(s.stop)
	return s
}

type nolog struct{}

func (nolog) Printf(string, ...any) {}
func (nolog) Println(...any)        {}

type session struct {
	s     *server
	conn  *smtp.Conn
	fault fault
	mail  received
}

// session is called once by EHLO, again by HELO where that was refused, and
// again after STARTTLS.
func (s *server) session(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.conns, c) {
		s.conns = append(s.conns, c)
	}
	ses := &session{s: s, conn: c}
	_, ses.mail.tls = c.TLSConnectionState()
	if i := slices.Index(s.conns, c); i < len(s.faults) {
		ses.fault = s.faults[i]
	}
	if ses.fault.greet != nil {
		return nil, ses.fault.greet
	}
	return ses, nil
}

func (x *session) AuthMechanisms() []string {
	if x.mail.tls {
		return []string{sasl.Plain}
	}
	return nil
}

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		if user != "guardd" || pass != "correct horse" {
			return smtp.ErrAuthFailed
		}
		x.mail.user = user
		return nil
	}), nil
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	x.mail.from = from
	return orNil(x.fault.mail)
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.mail.to += to
	if x.fault.cutRcpt {
		x.conn.Conn().Close()
	}
	return orNil(x.fault.rcpt)
}

func (x *session) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if x.fault.data != nil {
		return x.fault.data
	}
	x.mail.text = string(b)
	x.s.mu.Lock()
	x.s.mails = append(x.s.mails, x.mail)
	x.s.mu.Unlock()
	if x.fault.cut {
		x.conn.Conn().Close()
	}
	return nil
}

// Reset comes after the answer to every mail.
func (x *session) Reset() {
	if x.fault.bye && x.mail.text != "" {
		x.conn.Conn().Close()
	}
}

func (x *session) Logout() error { return nil }

func orNil(e *smtp.SMTPError) error {
	if e == nil {
		return nil
	}
	return e
}

func (s *server) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// mailer makes a driver for s.
func mailer(t *testing.T, s *server, mode string, change func(*Config)) (*mailDriver, *clock) {
	t.Helper()
	c := Config{Realm: "shop", RootCAs: s.roots}
	c.Driver, c.Host, c.Port, c.TLS, c.From, c.Name = DriverSMTP, "127.0.0.1", s.port, mode, "login@shop.example", "Example Shop"
	if change != nil {
		change(&c)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	clk := &clock{at: t0}
	d.(*mailDriver).retry = clk.retry()
	return d.(*mailDriver), clk
}

// open takes a mail apart with the standard library.
func open(t *testing.T, text string) (h netmail.Header, plain, html string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%q: %v", m.Header.Get("Content-Type"), err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m.Header, plain, html
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		switch kind {
		case "text/plain":
			plain = string(b)
		case "text/html":
			html = string(b)
		}
	}
}

func TestMailArrives(t *testing.T) {
	password := func(c *Config) { c.Username, c.Secrets = "guardd", [][]byte{[]byte("correct horse")} }
	for _, row := range []struct {
		name, mode, user string
		change           func(*Config)
	}{
		{"starttls", "starttls", "", nil},
		{"starttls and a password", "starttls", "guardd", password},
		{"tls", "tls", "", nil},
		{"tls and a password", "tls", "guardd", password},
		{"none", "none", "", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, row.mode)
			d, clk := mailer(t, s, row.mode, row.change)
			if err := d.Deliver(t.Context(), code("alice@example.com")); err != nil {
				t.Fatal(err)
			}
			got := s.received()
			if len(got) != 1 || len(clk.pauses) > 0 {
				t.Fatalf("%d mails, %d pauses", len(got), len(clk.pauses))
			}
			m := got[0]
			if m.from != "login@shop.example" || m.to != "alice@example.com" || m.user != row.user || m.tls != (row.mode != "none") {
				t.Errorf("from %q to %q user %q tls %v", m.from, m.to, m.user, m.tls)
			}
			h, plain, html := open(t, m.text)
			for key, want := range map[string]string{
				"From": `"Example Shop" <login@shop.example>`, "To": "<alice@example.com>",
				"Subject": "Example Shop: your code to sign in", "Auto-Submitted": "auto-generated",
				"Date": "Sun, 01 Mar 2026 12:00:00 +0000", "Message-Id": "<" + messageID(code("")) + "@shop.example>",
			} {
				if got := h.Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			for _, body := range []string{plain, html} {
				if strings.Count(body, "ABCDE12345") != 1 || !strings.Contains(body, "until 1 March 2026, 12:15 UTC") ||
					strings.Contains(body, "no other code") || strings.Contains(body, "://") {
					t.Errorf("body:\n%s", body)
				}
			}
		})
	}
}

func TestMailsSayWhatTheirKindHasToSay(t *testing.T) {
	s := serve(t, "none")
	d, _ := mailer(t, s, "none", nil)
	only := code("alice@example.com")
	only.Only = true
	unheard := notice("alice@example.com")
	unheard.Notice, unheard.Suppressed = "<b>unheard</b>", 0
	for _, m := range []*escalation.Message{only, notice("alice@example.com"), unheard} {
		if err := d.Deliver(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range [][]string{
		{"no other code is sent"},
		{"on a device that had not been used", "1 March 2026, 12:00 UTC", "did not write: 3"},
		{"happened to your account"},
	} {
		_, plain, html := open(t, s.received()[i].text)
		for _, w := range want {
			for _, body := range []string{plain, html} {
				if !strings.Contains(strings.Join(strings.Fields(body), " "), w) {
					t.Errorf("mail %d does not say %q:\n%s", i, w, body)
				}
			}
		}
		if strings.Contains(html, "<b>") || i == 2 && strings.Contains(plain, "did not write") {
			t.Errorf("mail %d:\n%s%s", i, plain, html)
		}
	}
}

func TestRealmsWordsAreUsedAndCannotBreakOut(t *testing.T) {
	s := serve(t, "none")
	d, _ := mailer(t, s, "none", func(c *Config) {
		c.Name = "Šop\r\nBcc: everybody@example.net"
		c.Code = escalation.Words{Subject: "{{.Name}}: {{.Code}}", HTML: "<p title='{{.Name}}'>{{.Account}} {{.Code}}</p>"}
	})
	m := code("o'hara&co@example.com")
	m.Code = "1\r\nX-Evil: yes\r\n\r\n<script>"
	if err := d.Deliver(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := s.received()
	h, plain, html := open(t, got[0].text)
	dec := new(mime.WordDecoder)
	subject, err := dec.DecodeHeader(h.Get("Subject"))
	if want := "Šop Bcc: everybody@example.net: 1 X-Evil: yes <script>"; err != nil || subject != want {
		t.Errorf("subject %q, want %q (%v)", subject, want, err)
	}
	if h.Get("Bcc") != "" || h.Get("X-Evil") != "" || got[0].to != "o'hara&co@example.com" {
		t.Errorf("headers %v, to %q", h, got[0].to)
	}
	if strings.Contains(html, "<script>") || !strings.Contains(html, "o&#39;hara&amp;co@example.com") {
		t.Errorf("html %s", html)
	}
	if !strings.Contains(plain, "Type it on the page") { // text was not given
		t.Errorf("text %s", plain)
	}
}

func TestMailIsOnlyForMailAddresses(t *testing.T) {
	s := serve(t, "none")
	d, _ := mailer(t, s, "none", nil)
	for _, name := range []string{"", "alice", "alice@", "@example.com", "alice@example.com, bob@example.com", "Alice <alice@example.com>",
		"alice@example.com\r\nBcc: bob@example.com", "alice@example.com\nRCPT TO:<bob@example.com>", "alice@example.com\x00", "alice@exam\u2028ple.com",
		`"a b"@example.com`, "<alice@example.com>", "alice@example.com (Alice)", " alice@example.com", "a;b@example.com",
		strings.Repeat("a", 250) + "@example.com", "undisclosed:;", "alice@[127.0.0.1]>"} {
		m := code(name)
		err := d.Deliver(t.Context(), m)
		if ending(err) != forGood {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := s.received(); len(got) > 0 || len(s.conns) > 0 {
		t.Errorf("the server was asked: %v", got)
	}
	if err := d.Deliver(t.Context(), code("jürgen@example.com")); err != nil {
		t.Errorf("an address beyond ASCII: %v", err)
	}
}

func TestMailServerAnswers(t *testing.T) {
	e := smtpError
	for _, row := range []struct {
		name   string
		faults []fault
		pauses []time.Duration
		ending string
		mails  int
	}{
		{"421 in greeting, then taken", []fault{{greet: e(421, 4, "busy")}}, seconds(.5), arrived, 1},
		{"554 in greeting", []fault{{greet: e(554, 5, "go away")}}, nil, forGood, 0},
		{"sender refused", []fault{{mail: e(550, 5, "not you")}}, nil, forGood, 0},
		{"greylisted twice", []fault{{rcpt: e(451, 4, "later")}, {rcpt: e(450, 4, "later")}}, seconds(.5, 1), arrived, 1},
		{"no such recipient", []fault{{rcpt: e(550, 5, "alice@example.com is unknown, ABCDE12345")}}, nil, forGood, 0},
		{"full, then gone", []fault{{rcpt: e(452, 4, "alice@example.com is full")}, {rcpt: e(550, 5, "gone")}}, seconds(.5), forGood, 0},
		{"content refused", []fault{{data: e(554, 5, "spam: ABCDE12345")}}, nil, forGood, 0},
		{"no room", []fault{{data: e(452, 4, "disk")}}, seconds(.5), arrived, 1},
		{"cut off before the mail", []fault{{cutRcpt: true}}, seconds(.5), arrived, 1},
		{"cut off before the mail, again and again", slices.Repeat([]fault{{cutRcpt: true}}, 20), seconds(.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30), forGood, 0},
		{"taken, and hung up", []fault{{bye: true}}, nil, arrived, 1},
		{"taken, and the answer lost", []fault{{cut: true}}, seconds(.5), arrived, 2},
		{"taken, the answer lost, then refused", []fault{{cut: true}, {rcpt: e(550, 5, "no")}}, seconds(.5), uncertain, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, "none", row.faults...)
			d, clk := mailer(t, s, "none", nil)
			m := code("alice@example.com")
			checkEnding(t, d.Deliver(t.Context(), m), row.ending, m)
			if !slices.Equal(clk.pauses, row.pauses) {
				t.Errorf("paused %v, want %v", clk.pauses, row.pauses)
			}
			got := s.received()
			if len(got) != row.mails {
				t.Fatalf("%d mails, want %d", len(got), row.mails)
			}
			for _, m := range got {
				h, _, _ := open(t, m.text)
				if first, _, _ := open(t, got[0].text); h.Get("Message-Id") != first.Get("Message-Id") {
					t.Error("a repetition has another Message-ID")
				}
			}
		})
	}
}

// TestMailIsNotSentOtherwiseThanConfigured: no TLS where it is asked for, an
// unknown certificate or a wrong password never fall back to something weaker.
func TestMailIsNotSentOtherwiseThanConfigured(t *testing.T) {
	for _, row := range []struct {
		name, server, client string
		change               func(*Config)
	}{
		{"starttls is not offered", "none", "starttls", nil},
		{"certificate of nobody we know", "starttls", "starttls", func(c *Config) { c.RootCAs = x509.NewCertPool() }},
		{"certificate of another name", "starttls", "starttls", func(c *Config) { c.Host = "localhost" }},
		{"certificate of nobody we know, tls", "tls", "tls", func(c *Config) { c.RootCAs = x509.NewCertPool() }},
		{"wrong password", "starttls", "starttls", func(c *Config) { c.Username, c.Secrets = "guardd", [][]byte{[]byte("wrong")} }},
		{"no login is offered", "none", "starttls", func(c *Config) { c.Username, c.Secrets = "guardd", [][]byte{[]byte("x")} }},
		{"plain server, tls client", "none", "tls", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, row.server)
			d, clk := mailer(t, s, row.client, row.change)
			clk.interrupt = 1
			m := code("alice@example.com")
			checkEnding(t, d.Deliver(t.Context(), m), forGood, m)
			if got := s.received(); len(got) > 0 {
				t.Errorf("sent all the same: %v", got)
			}
		})
	}
}

func TestMailToADeadServerHasNotArrived(t *testing.T) {
	s := serve(t, "none")
	d, clk := mailer(t, s, "none", nil)
	s.stop()
	m := code("alice@example.com")
	m.ExpiresAt = t0.Add(2 * time.Second)
	checkEnding(t, d.Deliver(t.Context(), m), forGood, m)
	if !slices.Equal(clk.pauses, seconds(.5, 1)) {
		t.Errorf("paused %v", clk.pauses)
	}
}
