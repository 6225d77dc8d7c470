package loginlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Counts are what became of the lines so far:
// Lines = Parsed + Skipped + Unparsed.
type Counts struct{ Lines, Parsed, Skipped, Unparsed int64 }

// Unread is a line that could not be read. What it said is not kept: it may be
// anything, a password typed as a name among them.
type Unread struct {
	Line int64 // counted from 1
	Why  error
}

// samples is how many unread lines are remembered.
const samples = 3

// Scanner reads the events of a log.
type Scanner struct {
	Counts
	// First are the first lines that could not be read.
	First []Unread

	lines  *Lines
	parser Parser
}

// NewScanner reads events out of lines with the parser.
func NewScanner(lines *Lines, p Parser) *Scanner { return &Scanner{lines: lines, parser: p} }

// Next returns the next event. At the end the error is io.EOF; any other one
// (a broken file, ErrHeader) ends the reading too.
func (s *Scanner) Next() (Event, error) {
	for {
		line, err := s.lines.Next()
		if err != nil && err != errLong {
			if err != io.EOF {
				err = fmt.Errorf("reading after line %d: %w", s.Lines, err)
			}
			return Event{}, err
		}
		s.Lines++
		var ev Event
		switch {
		case err == errLong:
		case len(bytes.TrimSpace(line)) == 0:
			err = ErrSkip
		default:
			ev, err = s.parser.Parse(line)
		}
		switch {
		case err == nil:
			s.Parsed++
			return ev, nil
		case err == ErrSkip:
			s.Skipped++
		default:
			s.Unparsed++
			if errors.Is(err, ErrHeader) {
				return Event{}, err
			}
			if len(s.First) < samples {
				s.First = append(s.First, Unread{s.Lines, err})
			}
		}
	}
}
