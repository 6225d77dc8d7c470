package keys

import (
	"bytes"
	"context"
	"strconv"
	"sync"
)

var _ Streams = (*Memory)(nil)

// streams are a Memory's. Their number is that of the parts that append, and
// each is bounded by its keep.
type streams struct {
	sync.Mutex
	m map[string]*stream
}

// stream holds entries first, first+1, ... in the order in which they came.
type stream struct {
	first   int64
	entries []streamEntry
	ttl     int64
}

type streamEntry struct {
	at    int64 // by the twin's own clock
	value []byte
}

// forget drops what is older than ttl, and all but the last keep.
func (s *stream) forget(keep int, own int64) {
	n := max(len(s.entries)-keep, 0)
	for n < len(s.entries) && s.entries[n].at <= own-s.ttl {
		n++
	}
	clear(s.entries[:n]) // the values are garbage before the array is
	s.entries, s.first = s.entries[n:], s.first+int64(n)
}

// Append implements Streams. It fails for what ValidAppend refuses only.
func (m *Memory) Append(_ context.Context, key string, values [][]byte, keep int, ttl int64) error {
	if err := ValidAppend(key, values, keep, ttl); err != nil {
		return err
	}
	m.streams.Lock()
	defer m.streams.Unlock()
	own := m.now()
	s := m.streams.m[key]
	if s == nil {
		if m.streams.m == nil {
			m.streams.m = map[string]*stream{}
		}
		s = &stream{first: 1}
		m.streams.m[key] = s
	}
	for _, v := range values {
		s.entries = append(s.entries, streamEntry{own, bytes.Clone(v)})
	}
	s.ttl = ttl
	s.forget(keep, own)
	return nil
}

// Page implements Streams. It fails for what ValidPage refuses, and for a before
// that it has not returned.
func (m *Memory) Page(_ context.Context, key, before string, most int) (values [][]byte, next string, err error) {
	if err := ValidPage(key, most); err != nil {
		return nil, "", err
	}
	m.streams.Lock()
	defer m.streams.Unlock()
	s := m.streams.m[key]
	if s == nil {
		s = &stream{}
	}
	s.forget(len(s.entries), m.now())
	at := s.first + int64(len(s.entries))
	if before != "" {
		place, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return nil, "", ErrPlace
		}
		at = min(at, place)
	}
	for at--; at >= s.first && len(values) < most; at-- {
		values = append(values, bytes.Clone(s.entries[at-s.first].value))
	}
	if at++; at > s.first && len(values) > 0 {
		next = strconv.FormatInt(at, 10)
	}
	return values, next, nil
}
