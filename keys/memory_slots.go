package keys

import "context"

var _ Slots = (*Memory)(nil)

// slotSet are the occupied places of one key.
type slotSet struct {
	end
	held map[[16]byte]int64 // when each falls free
	// first is not after the first of them to fall free, and last not before the
	// last: most calls need look at none.
	first, last int64
}

// tidy frees what has expired, and cuts what would outlive life: a place that
// was given before the clock stepped back.
func (s *slotSet) tidy(now, life int64) (freed int) {
	if len(s.held) == 0 || now < s.first && s.last <= now+life {
		return 0
	}
	s.first, s.last = now+life, 0
	for id, expires := range s.held {
		switch {
		case expires <= now:
			delete(s.held, id)
			freed++
			continue
		case expires > now+life:
			expires = now + life
			s.held[id] = expires
		}
		s.first, s.last = min(s.first, expires), max(s.last, expires)
	}
	return freed
}

// occupy gives id a place until expires.
func (s *slotSet) occupy(id [16]byte, expires int64) {
	if len(s.held) == 0 {
		s.first, s.last = expires, 0
	}
	if s.held == nil {
		s.held = map[[16]byte]int64{}
	}
	s.held[id] = expires
	s.first, s.last = min(s.first, expires), max(s.last, expires)
}

// slotSets are one shard's sets.
type slotSets struct {
	m   map[hash]*slotSet
	max int // sets
}

// room reports whether there can be a set under h. freed is how many places were
// freed in sets that are long over.
func (k *slotSets) room(h hash, own int64) (ok bool, freed int) {
	n := markSweep
	if _, there := k.m[h]; !there && len(k.m) >= k.max {
		n *= 4
	}
	for other, s := range k.m { // a map's range begins anywhere
		if s.dies() <= own {
			freed += len(s.held)
			delete(k.m, other)
		}
		if n--; n <= 0 {
			break
		}
	}
	_, there := k.m[h]
	return there || len(k.m) < k.max, freed
}

func (k *slotSets) put(h hash, s *slotSet) {
	if k.m == nil {
		k.m = map[hash]*slotSet{}
	}
	k.m[h] = s
}

// Acquire implements Slots. It never fails but for a bad ask, and where there is
// no room to remember a place.
func (m *Memory) Acquire(_ context.Context, a *SlotAsk, ans *SlotAnswer) error {
	return m.acquire(a, ans, byCap)
}

// newcomers says which of them get a place.
type newcomers uint8

const (
	byCap  newcomers = iota // while there is one
	nobody                  // the shared store is gone, and the rule is closed then
	anyway                  // it is occupied already, elsewhere
)

func (m *Memory) acquire(a *SlotAsk, ans *SlotAnswer, who newcomers) error {
	if err := a.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	m.markTiers(w, a.Keys)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(a.Now)
	if late(a.Deadline, now) {
		return ErrLate
	}
	ans.begin(a, now)
	free, mine := true, true
	for i := range a.Keys {
		s := m.slotSet(w.tiers[i], now, a.Lives[i])
		_, has := s.held[a.ID]
		mine = mine && has
		free = free && (has || int64(len(s.held)) < a.Caps[i])
		ans.InUse = append(ans.InUse, int64(len(s.held)))
	}
	if !mine && (who == nobody || who == byCap && !free) {
		return nil
	}
	if !mine && !m.slotRoom(w, len(a.Keys), own) {
		return ErrNoStore
	}
	ans.Allowed, ans.Renewed, ans.Expires = true, mine, a.Expires(now)
	for i := range a.Keys {
		h := w.tiers[i]
		s := m.slotSet(h, now, a.Lives[i])
		if _, has := s.held[a.ID]; !has {
			m.occupied.Add(1)
			ans.InUse[i]++
		}
		s.occupy(a.ID, now+min(a.TTL, a.Lives[i]))
		s.end = end(max(s.last, s.first) - now + own + Slack)
		m.shard(h).slots.put(h, s)
	}
	return nil
}

// Release implements Slots. It never fails but for a bad return.
func (m *Memory) Release(_ context.Context, r *SlotReturn) (released, degraded bool, err error) {
	if err := r.Validate(); err != nil {
		return false, false, err
	}
	w := m.begin()
	defer m.pool.Put(w)
	m.markTiers(w, r.Keys)
	m.lock(w)
	defer m.unlock(w)
	now, _ := m.times(r.Now)
	if late(r.Deadline, now) {
		return false, false, ErrLate
	}
	for i := range r.Keys {
		h := w.tiers[i]
		s := m.shard(h).slots.m[h]
		if s == nil {
			continue
		}
		expires, has := s.held[r.ID]
		if !has {
			continue
		}
		released = released || expires > now
		delete(s.held, r.ID)
		m.occupied.Add(-1)
		if len(s.held) == 0 {
			delete(m.shard(h).slots.m, h)
		}
	}
	return released, false, nil
}

// slotSet is what is occupied under h, tidied; never nil.
func (m *Memory) slotSet(h hash, now, life int64) *slotSet {
	s := m.shard(h).slots.m[h]
	if s == nil {
		return new(slotSet)
	}
	m.occupied.Add(-int64(s.tidy(now, life)))
	return s
}

// slotRoom reports whether as many more places can be remembered. A flood of keys
// takes no place from who has one.
func (m *Memory) slotRoom(w *work, more int, own int64) bool {
	for i := range more {
		ok, freed := m.shard(w.tiers[i]).slots.room(w.tiers[i], own)
		m.occupied.Add(-int64(freed))
		if !ok {
			return false
		}
	}
	return m.occupied.Load()+int64(more) <= m.places
}
