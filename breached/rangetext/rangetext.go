// Package rangetext reads the answers of a range service: SUFFIX:COUNT lines.
//
// It is the one reader of whoever asks such a service, be it the public one,
// guardd or what a proxy made of either. Nothing is assumed of the order, of
// the number of rows or of where padding stands, and what is not wholly rows is
// an error: a login page that is answered with 200 says neither that a password
// is safe nor that it is known.
package rangetext

import (
	"bytes"
	"errors"
	"math"
)

// MaxBody is the most that is read of an answer: ten times what 2.2 billion
// rows and padding come to.
const MaxBody = 1 << 20

// ErrMalformed: that is no answer of a range service. It repeats nothing of it.
var ErrMalformed = errors.New("not a well-formed range")

var bom = []byte("\xEF\xBB\xBF")

// Find returns how often the password was seen whose hash ends in suffix (35
// or 27 hex digits, upper case), 0 for never. Every row of the body is held to
// the grammar: digits in either case, ends of CRLF or LF. A row whose count is
// 0 is padding, and is never found. An empty body is malformed: no prefix is
// without rows.
func Find(body []byte, suffix string) (count uint64, err error) {
	found := false
	err = rows(body, len(suffix), func(row []byte, n uint64) error {
		if n == 0 || !bytes.EqualFold(row[:len(suffix)], []byte(suffix)) {
			return nil
		}
		if found {
			return ErrMalformed // two rows for one hash: which one is right?
		}
		found, count = true, n
		return nil
	})
	if err != nil {
		return 0, err
	}
	return count, nil
}

// Strip returns the rows of a body as the service writes them without padding:
// upper case, CRLF between them, none after the last. digits is the length of a
// suffix.
func Strip(body []byte, digits int) ([]byte, error) {
	out := make([]byte, 0, len(body))
	err := rows(body, digits, func(row []byte, n uint64) error {
		if n == 0 {
			return nil
		}
		if len(out) > 0 {
			out = append(out, '\r', '\n')
		}
		out = append(append(out, bytes.ToUpper(row[:digits])...), row[digits:]...)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = ErrMalformed // nothing but padding
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// rows calls each with every row and its count.
func rows(body []byte, digits int, each func(row []byte, count uint64) error) error {
	body = bytes.TrimPrefix(body, bom) // a file that .NET wrote
	if len(body) == 0 || len(body) > MaxBody {
		return ErrMalformed
	}
	for len(body) > 0 {
		row := body
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			row, body = body[:end], body[end+1:]
			row = bytes.TrimSuffix(row, []byte("\r"))
		} else {
			body = nil
		}
		n, ok := countOf(row, digits)
		if !ok {
			return ErrMalformed
		}
		if err := each(row, n); err != nil {
			return err
		}
	}
	return nil
}

// countOf reads one row.
func countOf(row []byte, digits int) (n uint64, ok bool) {
	if len(row) < digits+2 || row[digits] != ':' {
		return 0, false
	}
	for _, c := range row[:digits] {
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'F' || c >= 'a' && c <= 'f') {
			return 0, false
		}
	}
	number := row[digits+1:]
	if number[0] == '0' && len(number) > 1 {
		return 0, false
	}
	for _, c := range number {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
