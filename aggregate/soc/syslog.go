package soc

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// facility is authpriv, of security and authorisation.
const facility = 10

// enterprise is the number that RFC 5612 sets aside for examples: guardd has none
// of its own.
const enterprise = "guardd@32473"

// AppendSyslog appends r as a message of RFC 5424, whose text is in format f. It
// has no byte order mark: what is in front of JSON or CEF keeps receivers from
// reading it, and without one the text is MSG-ANY. Framing is the transport's.
func AppendSyslog(b []byte, r *Record, f Format, p Producer) ([]byte, error) {
	b = append(b, '<')
	b = strconv.AppendInt(b, int64(facility*8+r.Severity.syslog()), 10)
	b = append(b, ">1 "...)
	b = r.Time.UTC().Truncate(time.Microsecond).AppendFormat(b, "2006-01-02T15:04:05.999999Z07:00")
	for _, part := range []struct {
		s string
		n int
	}{{p.Host, 255}, {"guardd", 48}, {strconv.Itoa(os.Getpid()), 128}, {r.signature(), 32}} {
		b = append(append(b, ' '), word(part.s, part.n)...)
	}
	b = append(append(b, " ["...), enterprise...)
	for _, param := range [][2]string{{"id", r.ID}, {"realm", r.Realm}, {"severity", r.Severity.String()}} {
		b = append(append(append(b, ' '), param[0]...), `="`...)
		b = append(appendParam(b, param[1]), '"')
	}
	return f.AppendTo(append(b, "] "...), r, p)
}

// word is s as the header takes it: visible ASCII, at most n bytes; "-" for none.
func word(s string, n int) string {
	s = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), n)]
}

// appendParam escapes what ends a parameter's value: a quote, a bracket, a
// backslash. Controls, which the RFC allows and few receivers bear, are blanks.
func appendParam(b []byte, s string) []byte {
	for _, c := range clean(s) {
		switch {
		case c == '"' || c == '\\' || c == ']':
			b = append(b, '\\', byte(c))
		case control(c):
			b = append(b, ' ')
		default:
			b = append(b, string(c)...)
		}
	}
	return b
}
