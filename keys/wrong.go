package keys

// This file knows repeats: attempts with a password that has been wrong for the
// account of late, as an application that still has an old one makes them, day and
// night. Such a guess tells whoever makes it nothing, so it takes nothing.
//
// What makes it a repeat is chosen so that nobody is let guess by it. A password
// is known to have been wrong by the outcome of an attempt, so it has been
// counted as a guess before. It may have become right since: an attempt from
// before a revocation, which is told after a password was changed, says nothing,
// and what has been right is forgotten. Only few are kept of an account: who
// tries others pushes out the oldest, and its next attempt costs what it always did.

// Tag is a password as a key of the day tells it from others: HashTag of the
// handler's own, or 8 bytes that are as good.
type Tag [8]byte

const (
	// MaxWrong is how many wrong passwords of an account are known.
	MaxWrong = 8
	// WrongLifetime is how long, since the last attempt with one of them: as long
	// as it can be told, because the key of yesterday is the oldest that there is.
	WrongLifetime = Day
)

// wrongs are the passwords that were wrong for an account, the last to be told
// of at the end. at is the time of the latest attempt with each.
type wrongs struct {
	n   int
	tag [MaxWrong]Tag
	at  [MaxWrong]int64
}

// repeats reports whether one of tags, of the same password under the keys of
// today and yesterday, is known to have been wrong since the revocation at
// revoked. A nil wrongs knows none.
func (w *wrongs) repeats(tags *[2]Tag, revoked, now int64) bool {
	if w == nil {
		return false
	}
	for i, t := range w.tag[:w.n] {
		if (t == tags[0] || t == tags[1]) && w.at[i] > revoked && now-w.at[i] < WrongLifetime {
			return true
		}
	}
	return false
}

// drop forgets tags and what is too old, and returns the time of the latest
// attempt with tags, or -1.
func (w *wrongs) drop(tags *[2]Tag, now int64) (last int64) {
	last = -1
	kept := 0
	for i, t := range w.tag[:w.n] {
		switch {
		case t == tags[0] || t == tags[1]:
			last = max(last, w.at[i])
		case now-w.at[i] < WrongLifetime:
			w.tag[kept], w.at[kept] = t, w.at[i]
			kept++
		}
	}
	w.n = kept
	return last
}

// add knows that an attempt at stamp was wrong.
func (w *wrongs) add(tags *[2]Tag, stamp, now int64) {
	stamp = max(stamp, w.drop(tags, now))
	if w.n == MaxWrong {
		copy(w.tag[:], w.tag[1:])
		copy(w.at[:], w.at[1:])
		w.n--
	}
	w.tag[w.n], w.at[w.n] = tags[0], stamp
	w.n++
}

// proves reports whether the outcome says that the password was right.
func (o Outcome) proves() bool { return o == Success || o == SecondFactorPending }

// JudgesTag reports whether the outcome says anything about the password; a
// failure does as the first outcome only: what was right stays so, whatever
// becomes of the second factor.
func (o Outcome) JudgesTag() bool { return o.proves() || o.Fails() }
