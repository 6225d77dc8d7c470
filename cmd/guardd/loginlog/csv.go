package loginlog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CSV reads one record a line, quoted as RFC 4180 has it; a quoted line end is
// not supported, and counts as two unparsed lines. If any column is known by
// name, the first line is a header.
type CSV struct {
	columns Columns
	clock   Clock
	words   Words
	header  bool // still to come
	at      [7]int
	comma   rune
	line    bytes.Reader
	reader  *csv.Reader
}

// NewCSV makes a parser. header says that the first line is one even when all
// columns are numbers.
func NewCSV(columns Columns, header bool, comma rune, clock Clock, words Words) *CSV {
	p := &CSV{columns: columns, clock: clock, words: words, header: header, comma: comma}
	for i, f := range Fields {
		n, err := strconv.Atoi(columns[f])
		switch named := err != nil || n < 1; {
		case !named:
			p.at[i] = n
		case i < needed || columns[f] != f:
			p.header = true
		}
	}
	p.reset()
	return p
}

func (p *CSV) reset() {
	p.reader = csv.NewReader(&p.line)
	p.reader.Comma, p.reader.FieldsPerRecord, p.reader.ReuseRecord = p.comma, -1, true
}

var errCSV = errors.New("not a CSV record")

// Parse reads one line.
func (p *CSV) Parse(line []byte) (Event, error) {
	p.line.Reset(line)
	record, err := p.reader.Read()
	if err != nil {
		p.reset()
		return Event{}, errCSV
	}
	if p.header {
		p.header = false
		return Event{}, p.find(record)
	}
	var text [7]string
	for i, n := range p.at {
		switch {
		case n >= 1 && n <= len(record):
			text[i] = record[n-1]
		case i < needed:
			return Event{}, fmt.Errorf("no column %d (%s)", n, Fields[i])
		}
	}
	return event(&text, &p.clock, p.words)
}

// find looks the named columns up in the header.
func (p *CSV) find(header []string) error {
	names := slices.Clone(header)
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	for i, f := range Fields {
		if p.at[i] > 0 {
			continue
		}
		p.at[i] = slices.Index(names, p.columns[f]) + 1
		if p.at[i] == 0 && (i < needed || p.columns[f] != f) {
			return fmt.Errorf("%w: no column %q for %s; there are %q (say which with --columns %s=NAME, or numbers)", ErrHeader, p.columns[f], f, names, f)
		}
	}
	return ErrSkip
}
