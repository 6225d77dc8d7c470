package loginlog

import (
	"errors"
	"time"
)

// Event is one login that a log line tells of, as the log has it: names and
// addresses are neither normalised nor judged here, and may be empty.
type Event struct {
	Time    time.Time
	Account string
	IP      string
	Outcome Outcome
	// Times is how many guesses the line stands for, at least 1.
	Times int
	// Realm, Flow and UserAgent are "" where the log does not say.
	Realm, Flow, UserAgent string
}

// Outcome is what became of the login.
type Outcome uint8

// The outcomes. Their zero is none of them.
const (
	Accepted       Outcome = iota + 1
	Failed                 // wrong password
	UnknownAccount         // no such account; a failed login too
)

// MaxRepeat is the most guesses that one line may stand for. Syslog daemons
// flush their repeats every few hundred; a longer number is a broken line, and
// would keep a replay busy for days.
const MaxRepeat = 100_000

// ErrSkip is what Parse returns for a line that is understood and no login.
var ErrSkip = errors.New("not a login")

// ErrHeader is wrapped by Parse when a first line makes every other one
// unreadable, so that reading on is pointless.
var ErrHeader = errors.New("bad header")

// Parser reads one line (without its line end). It returns the event, ErrSkip,
// or the reason why the line cannot be read. Parsers carry state from line to
// line, and are for one log and one goroutine. The line is not kept.
type Parser interface {
	Parse(line []byte) (Event, error)
}

// The times that a replay can be judged at: keys counts in microseconds since
// 1970 that must stay exact in a double (2^53, the year 2255), and 0 means
// "now".
func inRange(t time.Time) bool {
	y := t.Year()
	return y >= 1970 && y <= 2254 && t.UnixMicro() > 0
}
