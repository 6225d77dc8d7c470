package breached

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// SourceError is what is wrong with a corpus file, and where.
type SourceError struct {
	File string // as it was given, or a file of the folder that was
	Line int64  // from 1; 0 when it is about the file
	Why  string // repeats nothing of what the file holds
}

// Error is "FILE:LINE: what is wrong".
func (e *SourceError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Why
	}
	return e.File + ":" + strconv.FormatInt(e.Line, 10) + ": " + e.Why
}

// maxLine is more than the longest line: a byte order mark, 40 digits, a colon,
// 20 digits and CRLF.
const maxLine = 80

// parser reads the rows of a corpus, which may be one file of whole hashes or
// many of one range each.
type parser struct {
	kind    Kind
	partial bool // holes are accepted
	chunk   int  // bytes read at once; 0: chunkSize

	file  string
	line  int64
	rng   int64 // the range that the file is of, -1: whole hashes
	width int   // digits of a row

	last     row // the last one, from the second on
	rows     uint64
	padding  uint64 // rows with count 0
	prefixes uint32 // that have a row
	next     int64  // the prefix after the last one's
	openEnd  bool   // the last line had no end
}

func (p *parser) errorf(format string, args ...any) error {
	return &SourceError{p.file, p.line, fmt.Sprintf(format, args...)}
}

// begin is called at the beginning of each file.
func (p *parser) begin(file string, rng int64) {
	p.file, p.rng, p.line, p.openEnd = file, rng, 0, false
	p.setWidth()
}

func (p *parser) setWidth() {
	p.width = p.kind.Digits()
	if p.rng >= 0 {
		p.width = p.kind.SuffixDigits()
	}
}

// parse appends the rows of whole lines, each with its end.
func (p *parser) parse(text []byte, out []row) ([]row, error) {
	if p.kind == 0 && len(text) > 0 {
		p.learnKind(firstLine(bytes.TrimPrefix(text, bom)))
	}
	for i := 0; i < len(text); {
		p.line++
		// .NET's StreamWriter begins with a byte order mark, and the official
		// downloader makes one for each range: there may be one before any line.
		if text[i] == 0xEF && bytes.HasPrefix(text[i:], bom) {
			i += len(bom)
		}
		var r row
		n := p.row(text[i:], &r)
		if n == 0 {
			return out, p.errorf("%s", p.diagnose(text[i:]))
		}
		i += n
		if r.count == 0 { // padding: random hashes that nobody's password has
			p.padding++
			continue
		}
		if err := p.order(&r); err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

var bom = []byte("\xEF\xBB\xBF")

// row reads one line, and is 0 when it is none.
func (p *parser) row(text []byte, r *row) (length int) {
	w := p.width
	if len(text) < w+len(":1\n") || text[w] != ':' || !p.digits(text, r) {
		return 0
	}
	i := w + 1
	first := text[i] - '0'
	if first > 9 {
		return 0
	}
	r.count = uint64(first)
	// The text ends with a line's end, which stops every loop.
	for i++; text[i]-'0' <= 9; i++ {
		d := uint64(text[i] - '0')
		if first == 0 || r.count > (math.MaxUint64-d)/10 {
			return 0
		}
		r.count = r.count*10 + d
	}
	if text[i] == '\r' {
		i++
	}
	if i >= len(text) || text[i] != '\n' {
		return 0
	}
	return i + 1
}

// digits reads the hash of a line that is long enough.
func (p *parser) digits(text []byte, r *row) bool {
	w := p.width
	a, b1 := hex8(text)
	b, b2 := hex8(text[8:])
	c, b3 := hex8(text[16:])
	z, b4 := hex8(text[w-8:]) // the last eight, which may overlap
	bad := b1 | b2 | b3 | b4
	switch w {
	case 40:
		d, b5 := hex8(text[24:])
		bad |= b5
		r.hi, r.mid, r.lo = uint64(a)<<32|uint64(b), uint64(c)<<32|uint64(d), z
	case 32:
		r.hi, r.mid = uint64(a)<<32|uint64(b), uint64(c)<<32|uint64(z)
	case 35: // 20 bits are known: 20+32+12, 20+32+12, 20+12
		d, b5 := hex8(text[24:])
		bad |= b5
		r.hi = uint64(p.rng)<<44 | uint64(a)<<12 | uint64(b)>>20
		r.mid = uint64(b)<<44 | uint64(c)<<12 | uint64(d)>>20
		r.lo = d<<12 | z&0xFFF
	case 27:
		r.hi = uint64(p.rng)<<44 | uint64(a)<<12 | uint64(b)>>20
		r.mid = uint64(b)<<44 | uint64(c)<<12 | uint64(z&0xFFF)
	}
	return bad == 0
}

// order holds the rows to ascending order without holes.
func (p *parser) order(r *row) error {
	if p.rows > 0 {
		switch c := r.compare(&p.last); {
		case c == 0:
			return p.errorf("the same hash as in the row before")
		case c < 0:
			return p.errorf("not in ascending order of hashes; sort it first")
		}
	}
	if at := int64(r.prefix()); at >= p.next {
		if at > p.next && !p.partial {
			return p.errorf("%s before this; --partial accepts that", missing(p.next, at))
		}
		p.prefixes++
		p.next = at + 1
	}
	p.rows++
	p.last = *r
	return nil
}

// missing names the prefixes from one to before another.
func missing(from, to int64) string {
	if to == from+1 {
		return fmt.Sprintf("prefix %05X is missing", from)
	}
	return fmt.Sprintf("prefixes %05X to %05X are missing", from, to-1)
}

// end is called at the end of each file.
func (p *parser) end() error {
	if p.rng >= 0 && p.next != p.rng+1 && !p.partial {
		p.line = 0
		return p.errorf("there is no row in it; --partial accepts that")
	}
	return nil
}

// finish is called after the last file.
func (p *parser) finish() error {
	switch {
	case p.rows == 0:
		p.line = 0
		return p.errorf("there is no row in it")
	case p.next < Prefixes && !p.partial:
		return p.errorf("it ends here, with %d of %d prefixes: %s; --partial accepts that",
			p.prefixes, Prefixes, missing(p.next, Prefixes))
	}
	return nil
}

// learnKind goes by the first line's width, and takes it for SHA-1 where that
// is neither's.
func (p *parser) learnKind(line []byte) {
	for _, k := range []Kind{NTLM, SHA1} {
		p.kind = k
		p.setWidth()
		if len(line) > p.width && line[p.width] == ':' {
			return
		}
	}
}

func firstLine(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return bytes.TrimSuffix(text, []byte("\r"))
}

// strangers are what people have taken for a corpus.
var strangers = []struct{ begins, what string }{
	{"<", "a web page"},
	{"7z\xBC\xAF", "a 7z archive: unpack it"},
	{"PK\x03\x04", "a zip archive: unpack it"},
	{"\xFF\xFE", "UTF-16: convert it to ASCII"},
	{"\xFE\xFF", "UTF-16: convert it to ASCII"},
	{magic, "an index that guardd built, not what one is built from"},
}

// diagnose says why a line is no row.
func (p *parser) diagnose(text []byte) string {
	line := firstLine(text)
	if p.kind == 0 {
		p.learnKind(line)
	}
	for _, s := range strangers {
		if bytes.HasPrefix(line, []byte(s.begins)) {
			return "this is " + s.what
		}
	}
	colon := bytes.IndexByte(line, ':')
	digits := 0
	for digits < len(line) && hexDigit[line[digits]] >= 0 {
		digits++
	}
	switch {
	case len(line) == 0:
		return "an empty line"
	case colon < 0 && digits == len(line):
		return fmt.Sprintf("cut off after %d hex digits", digits)
	case colon < 0:
		return "not HASH:COUNT"
	case colon != digits:
		return "not hex digits before the colon"
	case colon != p.width:
		return p.wrongWidth(colon)
	}
	count := line[colon+1:]
	switch {
	case len(count) == 0:
		return "cut off: no count after the colon"
	case len(count) > 1 && count[0] == '0':
		return "the count has a leading zero"
	}
	for _, c := range count {
		if c < '0' || c > '9' {
			return "the count is not a number"
		}
	}
	return "the count is too large"
}

func (p *parser) wrongWidth(digits int) string {
	for _, k := range Kinds {
		switch {
		case digits == k.Digits() && p.rng < 0:
			return fmt.Sprintf("%v (%d digits) among %v (%d digits)", k, digits, p.kind, p.width)
		case digits == k.SuffixDigits() && p.rng >= 0:
			return fmt.Sprintf("a range of %v (%d digits) among those of %v (%d digits)", k, digits, p.kind, p.width)
		case digits == k.SuffixDigits():
			return fmt.Sprintf("%d digits are a hash without its prefix: give the folder of range files, not one of them", digits)
		case digits == k.Digits():
			return fmt.Sprintf("%d digits are a whole hash; a range file's rows have %d or %d", digits, SHA1.SuffixDigits(), NTLM.SuffixDigits())
		}
	}
	return fmt.Sprintf("%d hex digits, not %d", digits, p.width)
}
