package keys

import (
	"context"
	"fmt"
	"slices"
)

var (
	_ Codes   = (*Memory)(nil)
	_ Tallies = (*Memory)(nil)
)

// codeMark and senderMark are never changed once they are put.
type codeMark struct {
	end
	codeRecord
}

type senderMark struct {
	end
	senderRecord
}

// SendCode implements Codes. When there is no room for the account, the code is
// that of the quarter of an hour (ErrNoStore) and costs an image; when there is
// none for the image either, it counts all the same: who proves that he reads
// the account's mail is never refused.
func (m *Memory) SendCode(_ context.Context, a *CodeAsk, ans *CodeAnswer) error {
	return m.sendCode(a, ans, false)
}

// sendCode is SendCode; with quarters the codes are those of the quarter of an
// hour, whatever room there is.
func (m *Memory) sendCode(a *CodeAsk, ans *CodeAnswer, quarters bool) error {
	if err := a.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	code, sender, proof := m.mark(w, a.Key), m.mark(w, a.SenderKey), m.mark(w, a.Proof.Key)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(a.Now)
	if late(a.Deadline, now) {
		return ErrLate
	}
	codes, senders, proofs := &m.shard(code).codes, &m.shard(sender).senders, &m.shard(proof).proofs
	f := codeFacts{quarters: quarters, revoked: m.records.revoked(a.RevokedKey, own),
		noCode: !codes.room(code, own), noSender: !senders.room(sender, own)}
	f.code = m.shard(code).code(code)
	if s := senders.m[sender]; s != nil {
		f.sender = s.senderRecord
	}
	if a.Proof.Key != "" {
		f.used = proofs.m[proof].n
	}
	wroteCode, wroteSender := sendCode(a, &f, now, ans)
	if wroteCode {
		m.shard(code).keepCode(code, f.code, now, own)
	}
	if wroteSender {
		senders.put(sender, &senderMark{end(own + CodeWindow + Slack), f.sender}, own)
	}
	if ans.Proof == ProofUsed {
		if proofs.room(proof, own) {
			m.shard(proof).keepUses(proof, &a.Proof, f.used+1, now, own)
		} else {
			m.unkept.Add(1)
		}
	}
	if f.noCode {
		m.unkept.Add(1)
		return fmt.Errorf("codes: no room: %w", ErrNoStore)
	}
	return nil
}

// code returns a copy of the account's record, zero when there is none.
func (s *shard) code(h hash) (r codeRecord) {
	if c := s.codes.m[h]; c != nil {
		r = c.codeRecord
		r.sends = slices.Clone(r.sends)
	}
	return r
}

// keepCode stores the record for as long as it counts for anything.
func (s *shard) keepCode(h hash, r codeRecord, now, own int64) {
	s.codes.put(h, &codeMark{end(own + max(r.Serial-now, 0) + CodeWindow + Slack), r}, own)
}

// LiveCode implements Codes. It never fails.
func (m *Memory) LiveCode(_ context.Context, key string, now int64) (live Code, err error) {
	err = m.withCode(key, 0, now, func(r *codeRecord, now int64) bool {
		live = r.live(now)
		return false
	})
	return live, err
}

// SpendCode implements Codes. It never fails.
func (m *Memory) SpendCode(_ context.Context, key string, serial, now int64) (spent bool, err error) {
	err = m.withCode(key, serial, now, func(r *codeRecord, now int64) bool {
		spent = r.spend(serial, now)
		return spent
	})
	return spent, err
}

// ConfirmCode implements Codes. It never fails.
func (m *Memory) ConfirmCode(_ context.Context, key string, serial, now int64) error {
	return m.withCode(key, serial, now, func(r *codeRecord, _ int64) bool { return r.confirm(serial) })
}

// UnsendCode implements Codes. It never fails.
func (m *Memory) UnsendCode(_ context.Context, key string, serial, now int64) error {
	return m.withCode(key, serial, now, func(r *codeRecord, _ int64) bool { return r.unsend(serial) })
}

// withCode lets do see and change the account's record; what it changes is kept
// when it says so.
func (m *Memory) withCode(key string, serial, now int64, do func(r *codeRecord, now int64) bool) error {
	if err := ValidCode(key, serial, now); err != nil {
		return err
	}
	h := m.hash(key)
	s := m.shard(h)
	s.Lock()
	defer s.Unlock()
	now, own := m.times(now)
	r := s.code(h)
	if do(&r, now) {
		s.keepCode(h, r, now, own)
	}
	return nil
}

// tally counts events in one window.
type tally struct {
	end
	until     int64 // when the window ends
	n, before int64
}

// next counts one more event at now.
func (t *tally) next(now, window int64) {
	switch {
	case t.n == 0 || t.until-now > 2*window || now-t.until >= window:
		// None, one of a broken clock, or one long over.
		t.n, t.before, t.until = 1, 0, now+window
	case now >= t.until:
		t.n, t.before, t.until = 1, t.n, now+window
	default:
		t.n++
	}
}

// Tally implements Tallies. It fails only with ErrNoStore: there is no room.
func (m *Memory) Tally(_ context.Context, key string, now, window int64) (n, before int64, err error) {
	if err := ValidTally(key, now, window); err != nil {
		return 0, 0, err
	}
	h := m.hash(key)
	s := m.shard(h)
	s.Lock()
	defer s.Unlock()
	now, own := m.times(now)
	if !s.tallies.room(h, own) {
		m.unkept.Add(1)
		return 0, 0, fmt.Errorf("tallies: no room: %w", ErrNoStore)
	}
	t := s.tallies.m[h]
	t.next(now, window)
	t.end = end(own + t.until - now + window + Slack)
	s.tallies.put(h, t, own)
	return t.n, t.before, nil
}
