package keys

// This file is what the twin takes over from healthy replies of the shared
// store, so that an outage is no fresh burst: a bucket's cells are kept as they
// are there, against the whole capacity, and when the twin comes to judge by this
// instance's share the spent fraction is kept, rounded against the caller, as
// with any limit that changes.

// postureLifetime is how long a posture that was seen in a reply outlives it.
const postureLifetime = 15 * 60 * Second

// mirror takes over what a fresh answer of the shared store says. What there is
// no room for is left out: it never crowds out what an outage will need. buckets
// is false while the shared store is still owed what was let through here: its
// buckets would look fuller than they are, and that be granted here once more.
func (m *Memory) mirror(a *Ask, ans *Answer, buckets bool) {
	if ans.Status != Decided || ans.Replayed || len(ans.Limits) != a.Rules.limits {
		return
	}
	w := m.begin()
	defer m.pool.Put(w)
	m.markTiers(w, a.Keys)
	uses := ans.Proof == ProofUsed && ans.Taken && !a.Shadow || ans.Proof == ProofSpent
	if uses {
		w.proof = m.mark(w, a.Proof.Key)
	}
	m.lock(w)
	own := m.now()
	if buckets {
		for t := range a.Rules.tiers {
			m.mirrorTier(w, a, ans, t, own)
		}
	}
	if uses {
		m.mirrorProof(w, a, ans, own)
	}
	changed := m.differs(a, ans, own)
	m.unlock(w)
	if changed {
		m.mirrorRecords(a, ans)
	}
}

func (m *Memory) mirrorTier(w *work, a *Ask, ans *Answer, t int, own int64) {
	role := a.Rules.tiers[t].Role
	b := Bucket{Stamp: ans.Now, Cells: w.after[:0]}
	full, spent := ans.Now, false
	for i := range ans.Limits {
		l := &ans.Limits[i]
		if l.Tier != t || l.Limit.Zero() {
			continue
		}
		if _, counted := a.Rules.Whole(t, l.Index, &ans.InForce); !counted {
			continue
		}
		u := l.Limit.Units()
		c := Cell{ID: a.Rules.tiers[t].Limits[l.Index].id, Spent: u - l.Left, Units: u}
		spent = spent || c.Spent > 0
		b.Cells = append(b.Cells, c)
		full = max(full, ans.Now+ceilDiv(c.Spent, l.Limit.Count))
	}
	if len(b.Cells) == 0 {
		return
	}
	tab := &m.shard(w.tiers[t]).buckets
	at := tab.find(w.tiers[t])
	if at < 0 && (!spent || !m.spare(tab, own)) {
		return
	}
	if at >= 0 {
		old := tab.read(at, w.cells[t][:])
		if old.Stamp > b.Stamp {
			return // replies crossed
		}
		b.Distrust = old.Distrust && spent
		for i := range b.Cells {
			if c, ok := old.cell(b.Cells[i].ID, i); ok && old.stamp(&c) == b.Stamp && c.Units == b.Cells[i].Units {
				b.Cells[i].Spent = max(b.Cells[i].Spent, c.Spent)
			}
		}
		b.keep(&old)
	}
	if role&DeviceOwn != 0 && a.Device.Issued != 0 {
		b.Distrust = distrusts(a, ans, b.Distrust)
	}
	tab.write(w.tiers[t], at, &b, own+max(full-ans.Now, 0), own, false)
}

// distrusts reports whether a device's own bucket bears the flag, as far as an
// answer shows it: where the account's shared limit has run out, too, it does
// not, and what was known stands.
func distrusts(a *Ask, ans *Answer, known bool) bool {
	own, shared := false, false
	for i := range ans.Limits {
		l := &ans.Limits[i]
		if empty := l.Left < l.Limit.Period; empty {
			own = own || a.Rules.tiers[l.Tier].Role&DeviceOwn != 0
			shared = shared || a.Rules.tiers[l.Tier].Role&DeviceShared != 0
		}
	}
	switch {
	case own:
		return true
	case ans.Device == DeviceKnown:
		return false
	case ans.Device == DeviceSpent && !shared:
		return true
	}
	return known
}

// spare reports whether there is room for one more mirrored bucket. A quarter is
// kept for those that an outage brings.
func (m *Memory) spare(t *table, own int64) bool {
	return t.live < m.room-m.room/4 || t.sweep(bucketSweep, own) && t.live < m.room-m.room/4
}

// mirrorProof remembers a use that the shared store knows of, so that the proof
// is not worth it again here.
func (m *Memory) mirrorProof(w *work, a *Ask, ans *Answer, own int64) {
	s, n := m.shard(w.proof), a.Proof.Uses
	if ans.Proof == ProofUsed {
		n = s.proofs.m[w.proof].n + 1
	}
	if !s.proofs.room(w.proof, own) {
		m.unkept.Add(1)
		return
	}
	s.keepUses(w.proof, &a.Proof, n, ans.Now, own)
}

// differs reports whether the twin's records are not those of the answer.
func (m *Memory) differs(a *Ask, ans *Answer, own int64) bool {
	return m.records.inForce(a.StateKey, &a.KKeys, ans.Now, own) != ans.InForce ||
		m.records.revoked(a.RevokedKey, own) < ans.Revoked
}

// mirrorRecords takes over posture, baseline, sizes and revocations. They are
// as many as the service's own parts have set.
func (m *Memory) mirrorRecords(a *Ask, ans *Answer) {
	m.records.Lock()
	defer m.records.Unlock()
	own := m.now()
	had := m.records.inForce(a.StateKey, &a.KKeys, ans.Now, own)
	if a.StateKey != "" && (had.Posture != ans.Posture || had.Baseline != ans.Baseline) {
		s := State{Posture: ans.Posture, Until: ans.Now + postureLifetime, Baseline: ans.Baseline}
		m.records.put(a.StateKey, s.Encode(), own+Day, own)
	}
	for i, key := range a.KKeys {
		if key != "" && had.K[i] != ans.K[i] {
			m.records.put(key, EncodeK(ans.K[i], ans.Now+Day), own+Day, own)
		}
	}
	if ans.Revoked > m.records.revoked(a.RevokedKey, own) {
		m.records.put(a.RevokedKey, doubles(ans.Revoked), own+DeviceLifetime, own)
	}
}

// mirrorOutcome remembers an outcome that the shared store has booked, the place
// that a success has made familiar, and what it says about the password.
func (m *Memory) mirrorOutcome(r *Return, rcp *Receipt) {
	if rcp.Status != Decided || rcp.Expired {
		return
	}
	w := m.begin()
	defer m.pool.Put(w)
	h, where := m.mark(w, r.OutcomeKey), m.mark(w, r.PlaceKey)
	w.wrong = m.mark(w, r.WrongKey)
	m.lock(w)
	defer m.unlock(w)
	own, outcome := m.now(), r.Outcome
	if rcp.Duplicate {
		outcome = rcp.Prior
	}
	if marks := &m.shard(h).outcomes; marks.room(h, own) {
		marks.put(h, booked{end(own + max(r.Expires-rcp.Now, 0) + Slack), outcome}, own)
	} else {
		m.unkept.Add(1)
	}
	if rcp.Recorded && outcome == Success && r.PlaceKey != "" {
		m.welcome(where, r.Stamp, rcp.Now, own)
	}
	if rcp.Recorded {
		m.know(w.wrong, r, rcp.Prior, rcp.Now, own)
	}
}
