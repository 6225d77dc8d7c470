package soctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// Rsyslog is a running rsyslog that takes syslog over TCP, or TLS, and writes each
// message as it came to a file.
type Rsyslog struct {
	Addr  string        // host:port
	Certs *daemon.Certs // of TLS; it knows clients by them, too
	dir   string
}

// StartRsyslog starts one that ends with the test.
func StartRsyslog(t testing.TB, secure bool) *Rsyslog {
	t.Helper()
	path := find(t, "rsyslogd")
	r := &Rsyslog{Certs: daemon.MakeCerts(t), dir: t.TempDir()}
	_, r.Addr = run(t, path, func(port string) []string {
		conf := fmt.Sprintf("global(workDirectory=%q maxMessageSize=\"64k\"", r.dir)
		input := "module(load=\"imtcp\")\n"
		if secure {
			conf += fmt.Sprintf(" defaultNetstreamDriver=\"gtls\" defaultNetstreamDriverCAFile=%q defaultNetstreamDriverCertFile=%q defaultNetstreamDriverKeyFile=%q",
				r.Certs.CA, r.Certs.Cert, r.Certs.Key)
			input = "module(load=\"imtcp\" streamDriver.name=\"gtls\" streamDriver.mode=\"1\" streamDriver.authMode=\"x509/certvalid\")\n"
		}
		// As it came, and as rsyslog has read it; what is not printable it would write as #nnn.
		conf += ")\n$EscapeControlCharactersOnReceive off\n" + input + fmt.Sprintf("input(type=\"imtcp\" address=\"127.0.0.1\" port=%q)\n", port) +
			`template(name="raw" type="string" string="%rawmsg%\n")` + "\n" +
			`template(name="read" type="string" string="%syslogfacility-text%.%syslogseverity-text% %app-name% %msgid% %structured-data%\n")` + "\n" +
			fmt.Sprintf("action(type=\"omfile\" file=%q template=\"raw\")\n", r.file("raw")) +
			fmt.Sprintf("action(type=\"omfile\" file=%q template=\"read\")\n", r.file("read"))
		if err := os.WriteFile(r.file("conf"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-n", "-f", r.file("conf"), "-i", r.file("pid")}
	})
	return r
}

func (r *Rsyslog) file(name string) string { return filepath.Join(r.dir, name) }

// Raw are the messages that have come, as they came, without their frames.
func (r *Rsyslog) Raw() []string { return r.lines("raw") }

// Read is what rsyslog made of their headers: facility.severity, app, message id,
// structured data.
func (r *Rsyslog) Read() []string { return r.lines("read") }

func (r *Rsyslog) lines(name string) []string {
	b, err := os.ReadFile(r.file(name))
	if err != nil {
		return nil // nothing has come yet
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func itoa(n int) string { return strconv.Itoa(n) }
