package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// queued is a message that waits to be published, and since when.
type queued struct {
	Message
	at int64 // microseconds
}

func (q *queued) size() int64 { return int64(len(q.Key) + len(q.Value) + recordHead) }

// A spool is a queue on disk: files of records, oldest first. A record is its
// length and the CRC-32C of its body (4 bytes each, little-endian), and the body:
// time (8), length of the key (1), key, value. Whatever does not check is where
// a file was torn; what stands before it is read, the rest is counted and gone.
// It belongs to one goroutine at a time, and to one process.
type spool struct {
	dir      string
	maxBytes int64
	segments []*segment // oldest first
	next     uint64     // number of the next one
	out      *os.File   // of the last segment, while it grows
	synced   time.Time

	head     []queued // what is left to read of the first segment
	headRead bool

	bytes, events int64
	torn          uint64 // files that had a torn end
	gone          uint64 // events that were written and could not be read
}

type segment struct {
	number uint64
	bytes  int64
	events int64
	oldest int64 // at of its first message
}

const (
	recordHead   = 4 + 4 + 8 + 1
	segmentBytes = 4 << 20
	firstSegment = 1 << 40 // there is room before it, for what has to go first
	segmentEnd   = ".events"
	maxRecord    = 1 << 20
	syncEvery    = time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSpoolFull: the spool has no room for a message.
var errSpoolFull = errors.New("the spool is full")

// openSpool opens the spool in dir, and looks at all that is in it.
func openSpool(dir string, maxBytes int64) (*spool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &spool{dir: dir, maxBytes: maxBytes, next: firstSegment}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentEnd)
		number, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		g := &segment{number: number}
		records, whole, err := s.read(g)
		if err != nil {
			return nil, err
		}
		if !whole {
			s.torn++
		}
		for i := range records {
			g.bytes += records[i].size()
		}
		g.events = int64(len(records))
		if len(records) > 0 {
			g.oldest = records[0].at
		}
		s.next = max(s.next, number+1)
		s.bytes, s.events = s.bytes+g.bytes, s.events+g.events
		s.segments = append(s.segments, g)
	}
	slices.SortFunc(s.segments, func(a, b *segment) int { return int(int64(a.number) - int64(b.number)) })
	return s, nil
}

func (s *spool) path(number uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d%s", number, segmentEnd))
}

func (s *spool) empty() bool { return len(s.segments) == 0 }

// append writes messages behind all others, until there is no room, and returns
// how many it wrote.
func (s *spool) append(msgs []queued) (n int, err error) {
	for n < len(msgs) && err == nil {
		run, b := 0, []byte(nil)
		for run < len(msgs)-n && len(b) < segmentBytes && s.bytes+int64(len(b))+msgs[n+run].size() <= s.maxBytes {
			b = appendRecord(b, &msgs[n+run])
			run++
		}
		if run == 0 {
			err = errSpoolFull
		} else if err = s.write(b); err == nil {
			for i := range msgs[n : n+run] {
				s.count(s.segments[len(s.segments)-1], &msgs[n+i], 1)
			}
			n += run
		}
	}
	if s.out != nil && time.Since(s.synced) >= syncEvery {
		s.synced = time.Now()
		err = errors.Join(err, s.out.Sync())
	}
	return n, err
}

// write adds records to the last segment, which grows to segmentBytes or a
// little more.
func (s *spool) write(b []byte) error {
	if s.out != nil && s.segments[len(s.segments)-1].bytes >= segmentBytes {
		if err := s.seal(); err != nil {
			return err
		}
	}
	if s.out == nil {
		if err := s.grow(); err != nil {
			return err
		}
	}
	if _, err := s.out.Write(b); err != nil {
		// Half a record may be there: what came before it still reads.
		err = errors.Join(err, s.seal())
		if last := len(s.segments) - 1; s.segments[last].events == 0 { // or a full disk would fill with such
			err = errors.Join(err, os.Remove(s.path(s.segments[last].number)))
			s.segments = s.segments[:last]
		}
		return err
	}
	return nil
}

func (s *spool) count(g *segment, m *queued, sign int64) {
	g.bytes, s.bytes = g.bytes+sign*m.size(), s.bytes+sign*m.size()
	if sign > 0 && g.events == 0 {
		g.oldest = m.at
	}
	g.events, s.events = g.events+sign, s.events+sign
}

// oldest is since when the first message waits; 0 when there is none.
func (s *spool) oldest() int64 {
	switch {
	case len(s.head) > 0:
		return s.head[0].at
	case s.empty():
		return 0
	}
	return s.segments[0].oldest
}

// grow begins a new last segment.
func (s *spool) grow() error {
	number := s.next
	f, err := os.OpenFile(s.path(number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.next++
	s.out, s.segments = f, append(s.segments, &segment{number: number})
	return nil
}

// seal ends the growing of the last segment.
func (s *spool) seal() error {
	if s.out == nil {
		return nil
	}
	err := errors.Join(s.out.Sync(), s.out.Close())
	s.out = nil
	return err
}

// prepend writes messages before all others, as a segment of their own, whatever
// room there is: they are older, and were in hand already.
func (s *spool) prepend(msgs []queued) error {
	number := s.next
	if len(s.segments) > 0 {
		number = s.segments[0].number - 1
	} else {
		s.next++
	}
	g := &segment{number: number}
	var b []byte
	for i := range msgs {
		b = appendRecord(b, &msgs[i])
	}
	f, err := os.OpenFile(s.path(number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(s.path(number)))
	}
	for i := range msgs {
		s.count(g, &msgs[i], 1)
	}
	s.segments = append([]*segment{g}, s.segments...)
	s.head, s.headRead = nil, false
	return nil
}

// peek returns the oldest messages, at most n and of one segment; none when the
// spool is empty.
func (s *spool) peek(n int) ([]queued, error) {
	for !s.empty() {
		if !s.headRead {
			if len(s.segments) == 1 {
				if err := s.seal(); err != nil {
					return nil, err
				}
			}
			head, _, err := s.read(s.segments[0])
			if err != nil {
				return nil, err
			}
			s.head, s.headRead = head, true
		}
		if len(s.head) > 0 {
			return s.head[:min(n, len(s.head))], nil
		}
		if err := s.drop(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// advance takes away the n oldest messages.
func (s *spool) advance(n int) error {
	for i := range s.head[:n] {
		s.count(s.segments[0], &s.head[i], -1)
	}
	s.head = s.head[n:]
	if len(s.head) > 0 {
		return nil
	}
	return s.drop()
}

// drop deletes the first segment.
func (s *spool) drop() error {
	g := s.segments[0]
	s.segments, s.head, s.headRead = s.segments[1:], nil, false
	s.bytes, s.events = s.bytes-g.bytes, s.events-g.events
	s.gone += uint64(g.events)
	if err := os.Remove(s.path(g.number)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// read returns the records of a segment, and whether nothing else is in it.
func (s *spool) read(g *segment) (records []queued, whole bool, err error) {
	b, err := os.ReadFile(s.path(g.number))
	if errors.Is(err, fs.ErrNotExist) { // somebody tidied up: what was in it is gone
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for len(b) > 0 {
		r, n := readRecord(b)
		if n == 0 {
			return records, false, nil
		}
		records, b = append(records, r), b[n:]
	}
	return records, true, nil
}

// close keeps everything for the next process.
func (s *spool) close() error { return s.seal() }

func appendRecord(b []byte, m *queued) []byte {
	at := len(b)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.at))
	b = append(b, byte(len(m.Key)))
	b = append(b, m.Key...)
	b = append(b, m.Value...)
	body := b[at+8:]
	binary.LittleEndian.PutUint32(b[at:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(body, castagnoli))
	return b
}

// readRecord reads the first record of b and its length; 0 where there is none.
func readRecord(b []byte) (m queued, n int) {
	if len(b) < recordHead {
		return m, 0
	}
	size, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if size < 9 || size > maxRecord || int(size) > len(b)-8 {
		return m, 0
	}
	body := b[8 : 8+size]
	if crc32.Checksum(body, castagnoli) != sum || 9+int(body[8]) > len(body) {
		return m, 0
	}
	m.at = int64(binary.LittleEndian.Uint64(body))
	m.Key = string(body[9 : 9+int(body[8])])
	m.Value = body[9+int(body[8]):]
	return m, 8 + int(size)
}
