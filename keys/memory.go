package keys

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// MemoryConfig bounds a Memory. Zero fields mean the defaults.
type MemoryConfig struct {
	// Buckets is how many spent buckets are kept (about 80 bytes each for two
	// limits), 0 = DefaultBuckets. Devices, whose tokens are authentic, may take
	// an eighth more.
	Buckets int
	// Marks is how many outcomes, proofs, places, failures and requests are
	// kept, 0 = DefaultMarks. Of codes, senders and tallies half as many are, and
	// of accounts with wrong passwords, and of occupied slots, an eighth.
	Marks int
	// Now is the clock in microseconds since the Unix epoch; nil is the
	// machine's.
	Now func() int64
}

// EntryBytes is what a Memory needs at most for each bucket and mark of a
// MemoryConfig that has as many of both, when it is full of everything that
// visitors can cause. (Mostly it is buckets, of 80 to 100 bytes.)
const EntryBytes = 600

// The bounds unless MemoryConfig says otherwise.
const (
	DefaultBuckets = 1 << 20
	DefaultMarks   = 1 << 20
	// OverflowBuckets is how many buckets newcomers share when there is no room
	// for one of their own.
	OverflowBuckets = 1 << 16
)

const shardCount = 64 // one bit each of a lock mask

// Memory is the in-process twin of the shared store: the store of an instance
// on its own, and what answers while the shared one is gone. It obeys the same
// score sheet, step by step.
//
// It is bounded. Only buckets that are full again are evicted, so that a flood
// of new names never frees a spent one; when none is, newcomers share overflow
// buckets, which never ask for more than a captcha, so that the flood locks no
// newcomer out either. It is safe for concurrent use, and never blocks on
// anything but its own locks; contexts are not looked at.
type Memory struct {
	now     func() int64
	seeds   [2]maphash.Seed
	room    int // buckets of one key per shard
	records records
	streams streams
	shards  [shardCount]shard
	pool    sync.Pool // *work

	places     int64 // most places that can be occupied in all slotSets
	occupied   atomic.Int64
	overflowed atomic.Uint64
	unkept     atomic.Uint64
}

type shard struct {
	sync.Mutex
	buckets  table
	proofs   marks[used]
	outcomes marks[booked]
	places   marks[place]
	lapses   marks[*lapses]
	wrongs   marks[*mistaken]
	requests marks[*reply]
	codes    marks[*codeMark]
	senders  marks[*senderMark]
	tallies  marks[tally]
	slots    slotSets
	_        [64]byte // the next shard's lock is on another cache line
}

// NewMemory returns an empty Memory.
func NewMemory(c MemoryConfig) *Memory {
	if c.Buckets <= 0 {
		c.Buckets = DefaultBuckets
	}
	if c.Marks <= 0 {
		c.Marks = DefaultMarks
	}
	if c.Now == nil {
		c.Now = func() int64 { return time.Now().UnixMicro() }
	}
	m := &Memory{now: c.Now, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	m.room = max(c.Buckets/shardCount, 1)
	m.records.m = map[string]record{}
	m.pool.New = func() any { return new(work) }
	quarter, eighth := max(c.Marks/4/shardCount, 1), max(c.Marks/8/shardCount, 1)
	for i := range m.shards {
		s := &m.shards[i]
		s.proofs.max, s.outcomes.max, s.places.max = quarter, quarter, quarter
		s.lapses.max, s.requests.max, s.wrongs.max = eighth, eighth, eighth
		s.codes.max, s.senders.max, s.tallies.max = eighth, eighth, quarter
		s.slots.max = eighth
	}
	m.places = int64(max(c.Marks/8, 1))
	return m
}

// work is what one call needs while it runs; pooled, so that a Take allocates
// nothing.
type work struct {
	facts   facts
	tiers   [MaxTiers]hash
	at      [MaxTiers]int // where each was found
	buckets [MaxTiers]Bucket
	cells   [MaxTiers][MaxCells]Cell
	after   [MaxCells]Cell
	place   hash
	proof   hash
	request hash
	wrong   hash
	locks   uint64
}

// begin is a call's work, to be put back into the pool.
func (m *Memory) begin() *work {
	w := m.pool.Get().(*work)
	w.locks = 0
	return w
}

// times are that of a call, which may be given, and the twin's own.
func (m *Memory) times(given int64) (now, own int64) {
	own = m.now()
	if given == 0 {
		given = own
	}
	return given, own
}

func (m *Memory) hash(key string) hash {
	return hash{maphash.String(m.seeds[0], key), maphash.String(m.seeds[1], key)}
}

func shardOf(h hash) uint64 { return h[0] >> 58 }

func (m *Memory) shard(h hash) *shard { return &m.shards[shardOf(h)] }

// mark hashes a key and notes its shard as one to lock. "" stays zero.
func (m *Memory) mark(w *work, key string) (h hash) {
	if key != "" {
		h = m.hash(key)
		w.locks |= 1 << shardOf(h)
	}
	return h
}

// markTiers marks the buckets of a call.
func (m *Memory) markTiers(w *work, keys []string) {
	for t, key := range keys {
		w.tiers[t] = m.mark(w, key)
	}
}

// lock takes all locks of a call in one order, so that two calls never wait for
// each other.
func (m *Memory) lock(w *work) {
	m.records.RLock()
	for l := w.locks; l != 0; l &= l - 1 {
		m.shards[bits.TrailingZeros64(l)].Lock()
	}
}

func (m *Memory) unlock(w *work) {
	for l := w.locks; l != 0; l &= l - 1 {
		m.shards[bits.TrailingZeros64(l)].Unlock()
	}
	m.records.RUnlock()
}

// Take implements Store.
func (m *Memory) Take(_ context.Context, a *Ask, ans *Answer) error {
	if err := a.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	m.markTiers(w, a.Keys)
	w.place, w.proof, w.request, w.wrong = m.mark(w, a.PlaceKey), m.mark(w, a.Proof.Key), m.mark(w, a.Request.Key), m.mark(w, a.WrongKey)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(a.Now)
	if a.Request.Key != "" && !late(a.Deadline, now) {
		if r, ok := m.shard(w.request).requests.m[w.request]; ok && now < r.until {
			r.replay(a, now, ans)
			return nil
		}
	}
	m.gather(w, a, now, own)
	judge(a, &w.facts, now, ans)
	m.store(w, a, ans, own)
	return nil
}

// gather reads everything that bears on an ask.
func (m *Memory) gather(w *work, a *Ask, now, own int64) {
	f := &w.facts // by field: clearing and copying all of it took a fifth of a call
	f.revoked = m.records.revoked(a.RevokedKey, own)
	f.place, f.used, f.wrong, f.refuseProof = 0, 0, nil, false
	f.inForce = m.records.inForce(a.StateKey, &a.KKeys, now, own)
	for i, key := range a.SuspectKeys {
		f.suspect[i] = decodeUntil(m.records.get(key, own), now)
	}
	if a.PlaceKey != "" {
		f.place = m.shard(w.place).places.m[w.place].stamp
	}
	if a.WrongKey != "" {
		if k := m.shard(w.wrong).wrongs.m[w.wrong]; k != nil {
			f.wrong = &k.wrongs
		}
	}
	if a.Proof.Key != "" {
		p := &m.shard(w.proof).proofs
		f.used = p.m[w.proof].n
		f.refuseProof = a.Proof.Rung < Verify && !p.room(w.proof, own)
	}
	for t := range a.Rules.tiers {
		f.buckets[t], f.overflow[t] = nil, false
		tab := &m.shard(w.tiers[t]).buckets
		at := tab.find(w.tiers[t])
		if at < 0 && !m.fits(tab, a.Rules.tiers[t].Role, own) {
			f.overflow[t] = true
			w.tiers[t] = overflow(w.tiers[t], a.Rules.tiers[t].Tier)
			at = tab.find(w.tiers[t])
		}
		if w.at[t] = at; at >= 0 {
			w.buckets[t] = tab.read(at, w.cells[t][:])
			f.buckets[t] = &w.buckets[t]
		}
	}
}

const (
	// bucketSweep is how many buckets of a shard one newcomer looks at when there
	// is no room: bounded, and several full buckets when a tenth are.
	bucketSweep = 32
	// tidySweep is how many each bucket that is added looks at: those that have
	// been full for a while come to at most a quarter.
	tidySweep = 4
)

// fits reports whether a newcomer can have a bucket of its own.
func (m *Memory) fits(t *table, role Role, own int64) bool {
	room := m.room
	if role&deviceRoles != 0 {
		room += max(room/8, 1) // a flood of names does not touch known devices
	}
	return t.live < room || t.sweep(bucketSweep, own)
}

// overflow is the bucket that h shares with other newcomers of its tier: one of
// 4,096 for each of 16 tiers, in the same shard.
func overflow(h hash, t Tier) hash {
	const six = 1<<6 - 1
	return hash{h[0]&(six<<58) | h[0]>>52&six<<4 | uint64(t)&15, 0}
}

// store writes what judge has decided.
func (m *Memory) store(w *work, a *Ask, ans *Answer, own int64) {
	if ans.Status != Decided {
		return
	}
	for t := range a.Rules.tiers {
		if !ans.tiers[t].write {
			continue
		}
		b, full := ans.after(a.Rules, t, w.facts.buckets[t], w.after[:])
		tab := &m.shard(w.tiers[t]).buckets
		tab.write(w.tiers[t], w.at[t], &b, own+max(full-ans.Now, 0), own, w.facts.overflow[t])
		if w.facts.overflow[t] {
			m.overflowed.Add(1)
		}
	}
	if ans.Proof == ProofUsed && !a.Shadow && a.Cost > 0 {
		m.shard(w.proof).keepUses(w.proof, &a.Proof, w.facts.used+1, ans.Now, own)
	}
	if a.Request.Key != "" && ans.Taken {
		r := &m.shard(w.request).requests
		if !r.room(w.request, own) {
			m.unkept.Add(1)
			return
		}
		r.put(w.request, keepReply(a, ans, own+a.Request.life()+Slack), own)
	}
}

// Give implements Store.
func (m *Memory) Give(_ context.Context, r *Return, rcp *Receipt) error {
	if err := r.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	if len(r.Took) > 0 {
		m.markTiers(w, r.Keys)
	}
	outcome, where, fails := m.mark(w, r.OutcomeKey), m.mark(w, r.PlaceKey), m.mark(w, r.FailuresKey)
	w.wrong = m.mark(w, r.WrongKey)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(r.Now)
	*rcp = Receipt{Now: now}
	if late(r.Deadline, now) {
		rcp.Status = Late
		return nil
	}
	if rcp.Expired = now >= r.Expires; rcp.Expired {
		return nil
	}
	marks := &m.shard(outcome).outcomes
	rcp.Prior = marks.m[outcome].outcome
	if rcp.Duplicate = !r.Outcome.Follows(rcp.Prior); rcp.Duplicate {
		return nil
	}
	rcp.Recorded = true
	once := marks.room(outcome, own)
	if once {
		marks.put(outcome, booked{end(own + r.Expires - now + Slack), r.Outcome}, own)
	} else {
		m.unkept.Add(1)
	}
	if r.FailuresKey != "" {
		rcp.Failures = m.fail(fails, r.Outcome, now, own)
	}
	m.know(w.wrong, r, rcp.Prior, now, own)
	if r.Outcome.GivesBack() && rcp.Prior == 0 && once && len(r.Took) > 0 {
		rcp.Gave = m.giveBack(w, r, now, own)
	}
	if r.Outcome == Success && r.PlaceKey != "" {
		m.welcome(where, r.Stamp, now, own)
	}
	return nil
}

// fail adds up an account's failures.
func (m *Memory) fail(h hash, o Outcome, now, own int64) int {
	k := &m.shard(h).lapses
	f := k.m[h]
	if o.Fails() {
		if f == nil {
			if !k.room(h, own) {
				m.unkept.Add(1)
				return 1
			}
			f = new(lapses)
		}
		f.add(now)
		f.end = end(own + FailureWindow + Slack)
		k.put(h, f, own)
	}
	if f == nil {
		return 0
	}
	return f.within(now)
}

// know takes in what an outcome says about the password.
func (m *Memory) know(h hash, r *Return, prior Outcome, now, own int64) {
	if r.WrongKey == "" || !r.Outcome.JudgesTag() || r.Outcome.Fails() && prior != 0 {
		return
	}
	k := &m.shard(h).wrongs
	had := k.m[h]
	switch {
	case r.Outcome.proves():
		if had != nil {
			had.drop(&r.Tags, now)
		}
		return
	case had == nil && !k.room(h, own):
		m.unkept.Add(1)
		return
	case had == nil:
		had = new(mistaken)
	}
	had.add(&r.Tags, r.Stamp, now)
	had.end = end(own + WrongLifetime + Slack)
	k.put(h, had, own)
}

func (m *Memory) giveBack(w *work, r *Return, now, own int64) (gave int) {
	f := m.records.inForce(r.StateKey, &r.KKeys, now, own)
	for t := range r.Rules.tiers {
		h, tab := w.tiers[t], &m.shard(w.tiers[t]).buckets
		at, shared := tab.find(h), false
		if at < 0 {
			h, shared = overflow(h, r.Rules.tiers[t].Tier), true
			at = tab.find(h)
		}
		if at < 0 {
			continue
		}
		b := tab.read(at, w.cells[t][:])
		after, full, n := giveBack(r, t, &f, &b, now, w.after[:])
		if n > 0 {
			tab.write(h, at, &after, own+max(full-now, 0), own, shared)
			gave += n
		}
	}
	return gave
}

// welcome remembers that the account signed in from this address.
func (m *Memory) welcome(h hash, stamp, now, own int64) {
	k := &m.shard(h).places
	if k.m[h].stamp >= stamp {
		return
	}
	if !k.room(h, own) {
		m.unkept.Add(1)
		return
	}
	k.put(h, place{end(own + max(stamp-now, 0) + PlaceLifetime + Slack), stamp}, own)
}

// Put implements Records. It never fails.
func (m *Memory) Put(_ context.Context, key string, value []byte, ttl int64) error {
	m.records.Lock()
	defer m.records.Unlock()
	own := m.now()
	m.records.put(key, append([]byte(nil), value...), own+ttl, own)
	return nil
}

// Revoke implements Records. It never fails.
func (m *Memory) Revoke(_ context.Context, key string, now, ttl int64) (int64, error) {
	m.records.Lock()
	defer m.records.Unlock()
	now, own := m.times(now)
	now = max(now, m.records.revoked(key, own)+1)
	m.records.put(key, doubles(now), own+ttl, own)
	return now, nil
}

// learnRevoked takes over a revocation of the shared store.
func (m *Memory) learnRevoked(key string, stamp, ttl int64) {
	m.records.Lock()
	defer m.records.Unlock()
	own := m.now()
	if stamp > m.records.revoked(key, own) {
		m.records.put(key, doubles(stamp), own+ttl, own)
	}
}

// Forget removes whatever is under key, as if it had never been.
func (m *Memory) Forget(key string) {
	m.records.Lock()
	delete(m.records.m, key)
	m.records.Unlock()
	h := m.hash(key)
	s := m.shard(h)
	s.Lock()
	defer s.Unlock()
	if at := s.buckets.find(h); at >= 0 {
		s.buckets.remove(at)
	}
	delete(s.proofs.m, h)
	delete(s.outcomes.m, h)
	delete(s.places.m, h)
	delete(s.lapses.m, h)
	delete(s.wrongs.m, h)
	delete(s.requests.m, h)
	delete(s.codes.m, h)
	delete(s.senders.m, h)
	delete(s.tallies.m, h)
	if set := s.slots.m[h]; set != nil {
		m.occupied.Add(-int64(len(set.held)))
		delete(s.slots.m, h)
	}
}

// MemoryStats is how full a Memory is.
type MemoryStats struct {
	Buckets    int    // buckets of one key
	Shared     int    // overflow buckets in use
	Marks      int    // all else that visitors cause
	Slots      int    // places occupied
	Records    int    // posture, suspects, k and revocations
	Overflowed uint64 // times that a bucket was written which newcomers share
	Unkept     uint64 // marks not kept for want of room
}

// Stats counts what is held now.
func (m *Memory) Stats() MemoryStats {
	st := MemoryStats{Slots: int(m.occupied.Load()), Overflowed: m.overflowed.Load(), Unkept: m.unkept.Load()}
	for i := range m.shards {
		s := &m.shards[i]
		s.Lock()
		st.Buckets += s.buckets.live
		st.Shared += s.buckets.shared
		st.Marks += len(s.proofs.m) + len(s.outcomes.m) + len(s.places.m) + len(s.lapses.m) + len(s.requests.m) + len(s.wrongs.m) +
			len(s.codes.m) + len(s.senders.m) + len(s.tallies.m)
		s.Unlock()
	}
	m.records.RLock()
	st.Records = len(m.records.m)
	m.records.RUnlock()
	return st
}

// Len is the number of buckets of one key held now.
func (m *Memory) Len() int { return m.Stats().Buckets }
