package keys

import (
	"bytes"
	"container/list"
	"context"
	"sync"
	"time"
)

// MemoryTrail is a Trail in this process's memory. It never fails.
type MemoryTrail struct {
	room int64 // bytes
	now  func() int64

	mu   sync.Mutex
	used int64
	lost int64     // rows up to here were dropped for want of room
	rows list.List // *TrailRow, in the order of Append
	of   map[Account]*[2][]*list.Element
}

var _ Trail = (*MemoryTrail)(nil)

// NewMemoryTrail returns one that takes up to about room bytes. now is the time
// in Unix microseconds; nil: the machine's.
func NewMemoryTrail(room int64, now func() int64) *MemoryTrail {
	if now == nil {
		now = func() int64 { return time.Now().UnixMicro() }
	}
	return &MemoryTrail{room: room, now: now, of: map[Account]*[2][]*list.Element{}}
}

// Append implements Trail.
func (m *MemoryTrail) Append(_ context.Context, rows []TrailRow) ([]TrailRow, error) {
	for i := range rows {
		if err := rows[i].Valid(); err != nil {
			return rows, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rows {
		r.Data = bytes.Clone(r.Data)
		m.add(&r)
	}
	for m.used > m.room && m.rows.Len() > 0 {
		r := m.rows.Front().Value.(*TrailRow)
		m.lost = max(m.lost, r.At+1)
		m.drop(r)
	}
	m.expire()
	return nil, nil
}

// expire drops what is TrailLife old.
func (m *MemoryTrail) expire() {
	over := m.now() - TrailLife.Microseconds()
	for e := m.rows.Front(); e != nil && e.Value.(*TrailRow).At <= over; e = m.rows.Front() {
		m.drop(e.Value.(*TrailRow))
	}
}

func kind(r *TrailRow) int {
	if r.Refusal {
		return 1
	}
	return 0
}

func (m *MemoryTrail) add(r *TrailRow) {
	c := m.of[r.Caller]
	if c == nil {
		c = new([2][]*list.Element)
		m.of[r.Caller] = c
		m.used += TrailOverhead
	}
	c[kind(r)] = append(c[kind(r)], m.rows.PushBack(r))
	m.used += int64(len(r.Data)) + TrailOverhead
	if r.Refusal && len(c[1]) > TrailRefusals {
		m.drop(c[1][0].Value.(*TrailRow))
	}
}

// drop takes away r, which is the first of its kind of its caller.
func (m *MemoryTrail) drop(r *TrailRow) {
	c := m.of[r.Caller]
	k := kind(r)
	m.rows.Remove(c[k][0])
	c[k][0] = nil
	c[k] = c[k][1:]
	m.used -= int64(len(r.Data)) + TrailOverhead
	if len(c[0])+len(c[1]) == 0 {
		delete(m.of, r.Caller)
		m.used -= TrailOverhead
	}
}

// Rows implements Trail.
func (m *MemoryTrail) Rows(_ context.Context, caller Account, since int64) (rows []TrailRow, whole int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if c := m.of[caller]; c != nil {
		for _, es := range c {
			for _, e := range es {
				if r := e.Value.(*TrailRow); r.At >= since {
					rows = append(rows, *r)
				}
			}
		}
	}
	return rows, m.lost, nil
}
