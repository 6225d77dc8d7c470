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
	now := p.now()
	took := now.Sub(p.since)
	if took < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	p.show(p.line(took))
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
		left := time.Duration(float64(took) * float64(p.size-p.read) / float64(p.read))
		s += "  " + max(left, 0).Round(time.Second).String() + " left"
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
