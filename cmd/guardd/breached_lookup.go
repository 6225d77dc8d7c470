package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/guardd/guardd/breached"
)

// maxPassword is far more than any password, and less than what a wrong file
// would take of memory.
const maxPassword = 1 << 20

func breachedLookup(ctx context.Context, f *breachedFlags, stdin io.Reader, out, errOut io.Writer) (int, error) {
	x, err := breached.Open(f.file)
	if err != nil {
		return exitFailed, err
	}
	defer x.Close()
	kind := x.Info().Kind
	if f.ntlm && kind != breached.NTLM {
		return exitUsage, fmt.Errorf("--ntlm: %s is of %v", f.file, kind)
	}
	l := &lookup{x: x, out: out, json: f.json}
	if f.hash != "" {
		h, err := breached.ParseHash(kind, f.hash)
		if err != nil {
			return exitUsage, fmt.Errorf("--hash: %w", err)
		}
		err = l.say(ctx, h)
		return l.code(err), err
	}
	err = passwords(stdin, errOut, func(p []byte) error { return l.say(ctx, breached.HashPassword(kind, p)) })
	if err == nil && l.said == 0 {
		err = errors.New("there is no password to look up")
	}
	return l.code(err), err
}

// lookup prints verdicts.
type lookup struct {
	x     *breached.Index
	out   io.Writer
	json  bool
	said  int
	found bool
}

func (l *lookup) code(err error) int {
	switch {
	case err != nil: // of the rest nobody knows
		return exitFailed
	case l.found:
		return exitBreached
	}
	return exitOK
}

func (l *lookup) say(ctx context.Context, h breached.Hash) error {
	v, err := l.x.Check(ctx, h)
	if err != nil {
		return err
	}
	l.said++
	l.found = l.found || v.Breached
	if l.json {
		// A line each, so that many can be read as they come.
		_, err = fmt.Fprintf(l.out, `{"kind":"%v","hash":"%v","breached":%t,"count":%d,"complete":%t}`+"\n", h.Kind(), h, v.Breached, v.Count, v.Complete)
		return err
	}
	if l.said > 1 {
		fmt.Fprintln(l.out)
	}
	_, err = fmt.Fprintf(l.out, "hash      %v\nbreached  %s\ncount     %d\ncomplete  %s\n", h, l.breached(v), v.Count, yes(v.Complete))
	return err
}

// breached never says "no" of a corpus that lacks some.
func (l *lookup) breached(v breached.Verdict) string {
	switch i := l.x.Info(); {
	case v.Breached || v.Complete:
		return yes(v.Breached)
	case i.Top > 0:
		return fmt.Sprintf("not in the top %s", thousands(int64(i.Top)))
	}
	return "not in this corpus, which is incomplete"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// passwords reads one from a terminal, without echo, or one a line, whose end
// (LF or CRLF) is not part of it.
func passwords(stdin io.Reader, errOut io.Writer, do func([]byte) error) error {
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(errOut, "Password (not shown): ")
		p, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(errOut)
		if err != nil {
			return err
		}
		return do(p)
	}
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, maxPassword)
	for lines.Scan() {
		if err := do(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
