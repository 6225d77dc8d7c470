package loginlog

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// SSHD reads what sshd tells syslog: "Mar 27 13:06:56 host sshd[42]: Failed
// password for invalid user bob from 192.0.2.7 port 4711 ssh2", or with an RFC
// 3339 time in front, as newer syslog daemons write it. Lines of other
// programs, which share auth.log with it, are skipped.
//
// A login is "Accepted" or "Failed" by any method except publickey, with which
// nothing is guessed. The lines around it ("Invalid user", pam_unix, "maximum
// authentication attempts exceeded") tell of the same guesses again.
type SSHD struct {
	zone *time.Location
	year int
	roll roll
	// last is the login of the line before, for "last message repeated".
	last    Event
	hasLast bool
}

// NewSSHD makes a parser. Times without a year are of the given one in the
// first line, and follow the log over New Year; those without a zone are of
// the given one.
func NewSSHD(year int, zone *time.Location) *SSHD { return &SSHD{year: year, zone: zone} }

// What can be wrong with a line.
var (
	errStamp    = errors.New("does not begin with a syslog time")
	errDate     = errors.New("no such date in its year")
	errHeader   = errors.New("no host and program after the time")
	errLogin    = errors.New(`a login without " from ADDRESS port N"`)
	errRepeated = errors.New("a repeated message without a credible number of times")
)

// Parse reads one line.
func (p *SSHD) Parse(line []byte) (Event, error) {
	ev, err := p.parse(string(line))
	p.last, p.hasLast = ev, err == nil
	return ev, err
}

func (p *SSHD) parse(line string) (Event, error) {
	st, rest, ok := cutStamp(line)
	if !ok {
		return Event{}, errStamp
	}
	at, ok := p.time(st)
	if !ok {
		return Event{}, errDate
	}
	ev, err := p.message(rest)
	ev.Time = at
	return ev, err
}

// message reads "host sshd[42]: text".
func (p *SSHD) message(s string) (Event, error) {
	_, s, ok := strings.Cut(s, " ")
	if !ok {
		return Event{}, errHeader
	}
	if n, ok := strings.CutPrefix(s, "last message repeated "); ok { // sysklogd and the BSDs
		return p.lastRepeated(n)
	}
	tag, text, ok := strings.Cut(s, ":")
	if !ok || strings.Contains(tag, " ") {
		return Event{}, ErrSkip // no program's: a mark of the daemon
	}
	program, _, _ := strings.Cut(tag, "[")
	switch program {
	case "sshd", "sshd-session", "sshd-auth": // OpenSSH 9.8 and 10.0 split the daemon
	default:
		return Event{}, ErrSkip
	}
	text = strings.TrimPrefix(text, " ")
	n, ok := strings.CutPrefix(text, "message repeated ") // rsyslog
	if !ok {
		return login(text)
	}
	count, inner, ok := strings.Cut(n, " times: [")
	times, good := repeats(count)
	if !ok || !good {
		return Event{}, errRepeated
	}
	ev, err := login(strings.TrimSpace(strings.TrimSuffix(inner, "]")))
	ev.Times = times
	return ev, err
}

func (p *SSHD) lastRepeated(n string) (Event, error) {
	count, _, _ := strings.Cut(n, " time")
	times, ok := repeats(count)
	switch {
	case !ok:
		return Event{}, errRepeated
	case !p.hasLast:
		return Event{}, ErrSkip
	}
	ev := p.last
	ev.Times = times
	return ev, nil
}

func repeats(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= MaxRepeat
}

// login reads "Failed password for invalid user bob from 192.0.2.7 port 4711
// ssh2".
func login(text string) (Event, error) {
	ev := Event{Times: 1}
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "Accepted":
		ev.Outcome = Accepted
	case "Failed":
		ev.Outcome = Failed
	default:
		return ev, ErrSkip
	}
	method, rest, ok := strings.Cut(rest, " for ")
	if !ok || method == "" || strings.Contains(method, " ") || method == "publickey" {
		return ev, ErrSkip // "Failed to release session", say
	}
	name, addr, ok := cutOrigin(rest)
	if !ok {
		return ev, errLogin
	}
	for _, mark := range []string{"invalid user ", "illegal user "} { // the latter until OpenSSH 3.8
		if known, ok := strings.CutPrefix(name, mark); ok {
			name = known
			if ev.Outcome == Failed {
				ev.Outcome = UnknownAccount
			}
			break
		}
	}
	ev.Account, ev.IP = name, addr
	return ev, nil
}

// cutOrigin splits "NAME from ADDRESS port N ssh2" at the last place that
// reads so. sshd writes the name as the visitor chose it, and one may be
// called "root from 192.0.2.1 port 22 ssh2" to have somebody else blamed;
// what stands last was written by sshd itself.
func cutOrigin(s string) (name, addr string, ok bool) {
	for end := len(s); ; {
		i := strings.LastIndex(s[:end], " from ")
		if i < 0 {
			return "", "", false
		}
		addr, tail, _ := strings.Cut(s[i+len(" from "):], " ")
		if port, ok := strings.CutPrefix(tail, "port "); ok && addr != "" && endsLogin(port) {
			return s[:i], addr, true
		}
		end = i + len(" from") // " from from": the blank may be shared
	}
}

// endsLogin reads "N ssh2", or with what key-like methods tell after a colon.
func endsLogin(s string) bool {
	digits := 0
	for digits < len(s) && digits < 6 && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	after := s[digits:]
	for _, v := range []string{" ssh2", " ssh1"} {
		after = strings.TrimPrefix(after, v)
	}
	return digits >= 1 && digits <= 5 && (after == "" || strings.HasPrefix(after, ": "))
}
