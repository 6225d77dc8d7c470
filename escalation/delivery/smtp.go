package delivery

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/guardd/guardd/escalation"
)

// mailTimeout bounds each of the dialogue's two halves, dialling and sending:
// RFC 5321 would wait minutes, for which no visitor does.
const mailTimeout = 20 * time.Second

// mailDriver sends mail through one server. Every message has a connection of
// its own: codes are few, and a connection kept open is one that is dead when
// it is needed.
type mailDriver struct {
	host    string
	options []mail.Option
	from    *netmail.Address
	name    string
	words   map[string]mailWords // by kind of message
	retry
}

// ports are each TLS mode's.
var ports = map[string]int{"starttls": 587, "tls": 465, "none": 25}

func (c *Config) smtp(f *faultList) *mailDriver {
	d := &mailDriver{host: c.Host, name: c.Name, retry: newRetry()}
	if d.name == "" {
		d.name = c.Realm
	}
	if c.Host == "" || strings.ContainsAny(c.Host, "/:[]@ \t") {
		f.add("host", "is not the name or address of a mail server")
	}
	port, ok := ports[c.TLS]
	if !ok {
		f.add("tls", "%q is not one of starttls, tls, none", c.TLS)
	}
	if c.Port != 0 {
		port = c.Port
	}
	if port < 0 || port > 65535 {
		f.add("port", "%d is not a port", port)
	}
	addr, err := mailAddress(c.From)
	if err != nil {
		f.add("from", "%v", err)
		addr = "guardd@invalid"
	}
	d.from = &netmail.Address{Name: oneLine(d.name), Address: addr}
	helo := c.Helo
	if helo == "" {
		helo = addr[strings.LastIndex(addr, "@")+1:]
	}
	if oneLine(helo) != helo || strings.Contains(helo, " ") {
		f.add("helo", "is not a host name")
	}
	d.words = map[string]mailWords{
		escalation.MessageCode:   parseWords("code", c.Code, defaultCode, f),
		escalation.MessageNotice: parseWords("notice", c.Notice, defaultNotice, f),
	}
	d.options = append([]mail.Option{
		mail.WithPort(port), mail.WithTimeout(mailTimeout), mail.WithHELO(helo), mail.WithTLSConfig(c.tls(c.Host)),
	}, c.auth(f)...)
	switch c.TLS {
	case "starttls":
		d.options = append(d.options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "tls":
		d.options = append(d.options, mail.WithSSL())
	default:
		d.options = append(d.options, mail.WithTLSPolicy(mail.NoTLS))
	}
	return d
}

func (c *Config) auth(f *faultList) []mail.Option {
	switch {
	case c.Username == "" && len(c.Secrets) == 0:
		return nil
	case c.Username == "":
		f.add("username", "is needed beside a password")
		return nil
	case len(c.Secrets) != 1:
		f.add("secret_file", "one line, the password, is needed beside a username: there are %d", len(c.Secrets))
		return nil
	case c.TLS == "none":
		f.add("username", "logging in needs tls: starttls or tls, or the password is on the wire for all to see")
		return nil
	}
	return []mail.Option{
		mail.WithUsername(c.Username), mail.WithPassword(string(c.Secrets[0])),
		mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin, mail.SMTPAuthCramMD5),
	}
}

// mailAddress returns s when it is one bare address (alice@example.com): no
// name, no comment, no list, and nothing in it that could end a header or a
// command. 254 bytes is SMTP's own bound.
func mailAddress(s string) (string, error) {
	a, err := netmail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 || oneLine(s) != s || strings.ContainsAny(s, "<>\"\\,;: ") {
		return "", errors.New("is not a mail address")
	}
	return s, nil
}

// Deliver mails m to the account's name, which must be a mail address. An
// error never holds the address, nor what the server said, which may.
func (d *mailDriver) Deliver(ctx context.Context, m *escalation.Message) error {
	to, err := mailAddress(m.Account)
	if err != nil {
		return undeliverable(errors.New("the account's name is not a mail address"), false)
	}
	w, ok := d.words[m.Kind]
	if !ok {
		return undeliverable(fmt.Errorf("there are no words for %q", m.Kind), false)
	}
	t, field, err := w.fill(factsOf(m, d.name))
	if err != nil {
		return undeliverable(fmt.Errorf("%s.%s: the template fails", m.Kind, field), false)
	}
	return d.do(ctx, m, func(ctx context.Context) *failure { return d.send(ctx, m, to, t) })
}

func (d *mailDriver) message(m *escalation.Message, to string, t mailText) *mail.Msg {
	msg := mail.NewMsg()
	msg.FromMailAddress(d.from)
	msg.AddToMailAddress(&netmail.Address{Address: to})
	msg.Subject(t.subject)
	msg.SetDateWithValue(d.now().UTC())
	// The same on every try: where the first arrived and its answer did not,
	// mail servers drop the second.
	msg.SetMessageIDWithValue(messageID(m) + d.from.Address[strings.LastIndex(d.from.Address, "@"):])
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no holiday replies
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(mail.TypeTextPlain, t.text)
	msg.AddAlternativeString(mail.TypeTextHTML, t.html)
	return msg
}

func (d *mailDriver) send(ctx context.Context, m *escalation.Message, to string, t mailText) *failure {
	client, err := mail.NewClient(d.host, d.options...)
	if err != nil {
		return &failure{err: errors.New("the mail client cannot be made"), final: true}
	}
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return mailFailure("dialling", err, false)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	msg := d.message(m, to, t)
	err = client.SendWithSMTPClient(conn, msg)
	// After the final dot was answered the mail is the server's, whatever
	// becomes of the goodbye.
	delivered := msg.IsDelivered()
	_ = client.CloseWithSMTPClient(conn)
	if err == nil || delivered {
		return nil
	}
	var s *mail.SendError
	lost := errors.As(err, &s) && s.Reason == mail.ErrSMTPDataClose && s.ErrorCode() == 0
	return mailFailure("sending", err, lost)
}

// mailFailure judges err: a reply of 500 or more is for good. lost says that
// the whole mail was sent and its answer did not come.
func mailFailure(doing string, err error, lost bool) *failure {
	code := replyCode(err)
	if code == 0 {
		return &failure{err: fmt.Errorf("%s mail: %w", doing, withoutReply(err)), unsure: lost}
	}
	return &failure{err: fmt.Errorf("%s mail: the server answered %d", doing, code), final: code >= 500}
}

func replyCode(err error) int {
	var s *mail.SendError
	if errors.As(err, &s) {
		return s.ErrorCode()
	}
	var t *textproto.Error
	if errors.As(err, &t) {
		return t.Code
	}
	return 0
}

// withoutReply keeps of an error what cannot hold an address.
func withoutReply(err error) error {
	var s *mail.SendError
	if errors.As(err, &s) {
		return errors.New(s.Reason.String())
	}
	return err
}
