package keys

import "sync"

// This file is where Memory keeps what is not a bucket.
//
// Marks that visitors cause are bounded by kind, so that a flood of one never
// crowds out another, and none is dropped before its end of life. When a kind
// has no room left: waits and captchas are refused (nobody could remember that
// they were used), codes never are; an outcome is recorded but gives nothing
// back (nobody could tell a second report); a place is not remembered (its
// owner meets the ladder once more); a request is not remembered (a repeat is
// judged anew); failures of further accounts are not added up, and their wrong passwords not
// known again; a code is that of
// the quarter of an hour, at the price of an image; what a tally would count is
// refused with ErrNoStore.
//
// Records (posture, suspects, k, revocations) are set by the service's own parts,
// whose number of them is theirs to bound, and are never refused or dropped.
//
// A mark dies by the twin's own clock, as a key's TTL does, whatever times the
// asks bring; what it means is judged by the time in its value.

type mortal interface{ dies() int64 }

type end int64 // end of life by the twin's own clock

func (e end) dies() int64 { return int64(e) }

// used counts the guesses that a proof has let through.
type used struct {
	end
	n int64
}

type booked struct {
	end
	outcome Outcome
}

type place struct {
	end
	stamp int64
}

// lapses are the times of an account's last failures, oldest first.
type lapses struct {
	end
	n  int
	at [MaxFailures]int64
}

func (f *lapses) add(now int64) {
	if f.n == MaxFailures {
		copy(f.at[:], f.at[1:])
		f.n--
	}
	f.at[f.n] = now
	f.n++
}

func (f *lapses) within(now int64) (n int) {
	for _, t := range f.at[:f.n] {
		if now-t < FailureWindow {
			n++
		}
	}
	return n
}

// mistaken are an account's wrong passwords.
type mistaken struct {
	end
	wrongs
}

// reply is the first answer to a request id.
type reply struct {
	end
	body   [16]byte
	until  int64 // by the time of the asks
	shape  uint32
	answer Answer // without its Limits
	limits []LimitAnswer
}

func keepReply(a *Ask, ans *Answer, dies int64) *reply {
	r := &reply{end: end(dies), body: a.Request.Body, until: ans.Now + a.Request.life(), shape: a.Rules.shape,
		answer: *ans, limits: append([]LimitAnswer(nil), ans.Limits...)}
	r.answer.Limits = nil
	return r
}

// replay fills ans from the first answer.
func (r *reply) replay(a *Ask, now int64, ans *Answer) {
	limits := ans.Limits[:0]
	if r.body != a.Request.Body {
		*ans = Answer{Status: Conflict, Now: now, ID: a.AttemptID, Limits: limits}
		return
	}
	*ans = r.answer
	ans.Replayed = true
	ans.Limits = limits
	if r.shape == a.Rules.shape {
		ans.Limits = append(limits, r.limits...)
	}
}

// marks are one shard's marks of one kind.
type marks[V mortal] struct {
	m   map[hash]V
	max int
}

// markSweep is how many marks are looked at when one is added: enough for the
// dead to stay a small part, few enough to be cheap.
const markSweep = 8

// room reports whether a mark can be put under h.
func (k *marks[V]) room(h hash, own int64) bool {
	if _, there := k.m[h]; there || len(k.m) < k.max {
		return true
	}
	forgetDead(k.m, 4*markSweep, own)
	return len(k.m) < k.max
}

func (k *marks[V]) put(h hash, v V, own int64) {
	if k.m == nil {
		k.m = map[hash]V{}
	}
	forgetDead(k.m, markSweep, own)
	k.m[h] = v
}

// forgetDead looks at some of what is kept: a map's range begins anywhere.
func forgetDead[K comparable, V mortal](m map[K]V, n int, own int64) {
	for k, v := range m {
		if v.dies() <= own {
			delete(m, k)
		}
		if n--; n <= 0 {
			return
		}
	}
}

// keepUses remembers how many guesses a proof has let through.
func (s *shard) keepUses(h hash, p *Proof, n, now, own int64) {
	s.proofs.put(h, used{end(own + max(p.Expires-now, 0) + ProofMemory), n}, own)
}

// records are what others set and a Take reads. A Take holds the read lock over
// its whole decision, so that each sees all of a change or nothing.
type records struct {
	sync.RWMutex
	m map[string]record
}

type record struct {
	end
	value []byte
}

// get returns the live value under key, or nil.
func (r *records) get(key string, own int64) []byte {
	if key == "" || len(r.m) == 0 {
		return nil
	}
	v, ok := r.m[key]
	if !ok || v.dies() <= own {
		return nil
	}
	return v.value
}

func (r *records) put(key string, value []byte, dies, own int64) {
	forgetDead(r.m, markSweep, own)
	r.m[key] = record{end(dies), value}
}

// inForce is the facts that limits depend on.
func (r *records) inForce(stateKey string, kKeys *[2]string, now, own int64) InForce {
	f := InForce{K: [2]int64{1, 1}}
	if v := r.get(stateKey, own); v != nil {
		s := DecodeState(v)
		f.Posture, f.Baseline = s.Effective(now), s.Baseline
	}
	for i, key := range kKeys {
		if v := r.get(key, own); v != nil {
			f.K[i] = decodeK(v, now)
		}
	}
	return f
}

// revoked is the stamp under key, 0 for never.
func (r *records) revoked(key string, own int64) int64 {
	var n [1]int64
	readDoubles(r.get(key, own), n[:])
	return n[0]
}
