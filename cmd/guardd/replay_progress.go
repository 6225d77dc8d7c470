package main

import (
	"fmt"
	"io"
	"time"

	"github.com/guardd/guardd/cmd/guardd/loginlog"
)

// progress is one line on a terminal that says how far a long reading has
// come. A nil *progress shows nothing.
type progress struct {
	out   io.Writer
	now   func() time.Time
	doing string
	size  int64 // bytes; 0 when not known
	read  int64
	lines *loginlog.Counts
	since time.Time
	shown time.Time
	wide  int // of what stands on the terminal
}

// Short readings show nothing; long ones a new line five times a second.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

func newProgress(out io.Writer, now func() time.Time) *progress { return &progress{out: out, now: now} }

// begin starts over.
func (p *progress) begin(doing string, size int64) {
	if p == nil {
		return
	}
	p.doing, p.size, p.read, p.lines, p.since = doing, size, 0, nil, p.now()
}

// counts says where the lines are counted.
func (p *progress) counts(c *loginlog.Counts) {
	if p != nil {
		p.lines = c
	}
}

// add says that n more bytes were read.
func (p *progress) add(n int64) {
	if p == nil {
		return
	}
	p.read += n
	if took, due := p.due(); due {
		p.show(p.line(took))
	}
}

// part says that a share of it is done, and of how many rows, when it is rows.
func (p *progress) part(done float64, rows int64) {
	if p == nil {
		return
	}
	took, due := p.due()
	if !due {
		return
	}
	s := fmt.Sprintf("%s  %3.0f %%", p.doing, 100*min(done, 1))
	if rows > 0 {
		s += fmt.Sprintf("  %s rows  %s/s", thousands(rows), thousands(int64(float64(rows)/took.Seconds())))
	}
	if done > 0 {
		s += "  " + left(took, done) + " left"
	}
	p.show(s)
}

func left(took time.Duration, done float64) string {
	return max(time.Duration(float64(took)*(1-done)/done), 0).Round(time.Second).String()
}

// due reports whether it is time for another line, and how long it has taken
// so far.
func (p *progress) due() (took time.Duration, due bool) {
	now := p.now()
	took = now.Sub(p.since)
	if took < progressAfter || now.Sub(p.shown) < progressEvery {
		return took, false
	}
	p.shown = now
	return took, true
}

func (p *progress) line(took time.Duration) string {
	s := p.doing
	if p.size > 0 {
		s += fmt.Sprintf("  %3d %%", min(100*p.read/p.size, 100))
	}
	if p.lines != nil {
		s += fmt.Sprintf("  %s lines  %s/s", thousands(p.lines.Lines), thousands(int64(float64(p.lines.Lines)/took.Seconds())))
	}
	if p.size > 0 && p.read > 0 {
		s += "  " + left(took, float64(p.read)/float64(p.size)) + " left"
	}
	return s
}

func (p *progress) show(s string) {
	fmt.Fprintf(p.out, "\r%-*s", p.wide, s)
	p.wide = len(s)
}

// end clears the line.
func (p *progress) end() {
	if p != nil && p.wide > 0 {
		p.show("")
		fmt.Fprint(p.out, "\r")
	}
}
