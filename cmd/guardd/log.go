package main

import (
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// hidden are the attribute keys whose values never reach a log, whoever logs
// them: what visitors and operators carry. Account names and addresses are
// personal data, and a log travels further than the store does.
var hidden = map[string]bool{
	"account": true, "ip": true, "user_agent": true, "device": true, "proof": true, "attempt": true,
	"challenge": true, "token": true, "answer": true, "password": true, "password_tag": true,
	"authorization": true, "key": true, "secret": true, "pepper": true,
}

func newLogger(out io.Writer, c logConfig) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.Level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if hidden[a.Key] {
			a.Value = slog.StringValue("(hidden)")
		}
		return a
	}}
	if c.Format == "text" || c.Format == "auto" && isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, opts))
	}
	return slog.New(slog.NewJSONHandler(out, opts))
}

// quiet is how long a seldom logs nothing more.
const quiet = 10 * time.Second

// seldom keeps what fails at every request from filling the log; metrics count
// it all.
type seldom struct{ last atomic.Pointer[time.Time] }

// due reports whether it is time to log again, to one caller.
func (s *seldom) due() bool {
	last, now := s.last.Load(), time.Now()
	return (last == nil || now.Sub(*last) >= quiet) && s.last.CompareAndSwap(last, &now)
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
