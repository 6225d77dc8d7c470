package keys

import (
	"bytes"
	"context"
)

var (
	_ Documents = (*Memory)(nil)
	_ Clearer   = (*Memory)(nil)
)

// Get implements Documents. It never fails.
func (m *Memory) Get(_ context.Context, key string) ([]byte, error) {
	m.records.RLock()
	defer m.records.RUnlock()
	return bytes.Clone(m.records.get(key, m.now())), nil
}

// Swap implements Documents. It fails for want of a key or a lifetime only.
func (m *Memory) Swap(_ context.Context, key string, was, value []byte, ttl int64) (bool, error) {
	if err := ValidSwap(key, value, ttl); err != nil {
		return false, err
	}
	m.records.Lock()
	defer m.records.Unlock()
	own := m.now()
	switch {
	case !bytes.Equal(m.records.get(key, own), was):
		return false, nil
	case len(value) == 0:
		delete(m.records.m, key)
	default:
		m.records.put(key, bytes.Clone(value), own+ttl, own)
	}
	return true, nil
}

// Held implements Clearer. It never fails.
func (m *Memory) Held(_ context.Context, buckets []string) (int, error) {
	return m.eachBucket(buckets, func(*table, int) {}), nil
}

// Clear implements Clearer. It never fails. A bucket that newcomers share stays:
// it is as much others'.
func (m *Memory) Clear(_ context.Context, buckets []string) (int, error) {
	return m.eachBucket(buckets, (*table).remove), nil
}

// eachBucket calls do for each of the buckets that is there, and counts them.
func (m *Memory) eachBucket(buckets []string, do func(t *table, at int)) (n int) {
	for _, key := range buckets {
		h := m.hash(key)
		s := m.shard(h)
		s.Lock()
		if at := s.buckets.find(h); at >= 0 {
			do(&s.buckets, at)
			n++
		}
		s.Unlock()
	}
	return n
}
