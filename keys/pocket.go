package keys

// This file is the arithmetic of what an instance holds in advance: when it asks
// for more, for how much, and what it knows meanwhile. It is pure: time is an
// argument, in microseconds by the holder's own clock, which never goes back;
// what is by the store's clock says so.

const (
	// DemandWindow is what demand is measured over. A lease is for about as long,
	// so a busy key costs some 12 calls a second at each instance.
	DemandWindow = Second / 10
	// ShortPause is how long a bucket that had less than was wanted is left alone,
	// or a quarter less or more, so that instances take turns: at most 22 calls a
	// second of each where everything is asked for that flows back.
	ShortPause = 60 * Second / 1000
)

// Demand is how much was asked for of late. Its zero value is of nothing.
type Demand struct{ start, now, last int64 }

// Add counts n, asked for at now.
func (d *Demand) Add(now, n int64) {
	d.turn(now)
	d.now = min(d.now+n, MaxExact)
}

// PerWindow is what a DemandWindow asks for: the last whole one, or the one that
// runs, if it has more already.
func (d *Demand) PerWindow(now int64) int64 {
	d.turn(now)
	return max(d.now, d.last)
}

func (d *Demand) turn(now int64) {
	switch passed := now - d.start; {
	case passed >= 2*DemandWindow:
		d.start, d.last, d.now = now, 0, 0
	case passed >= DemandWindow:
		d.start, d.last, d.now = d.start+DemandWindow, d.now, 0
	}
}

// Hold is one lease, as its holder has it.
type Hold struct {
	ID    [16]byte
	Shard int   // of the sub-buckets that it came from
	In    Limit // of that bucket, as it was in force
	Stamp int64 // by the store's clock
	Ends  int64 // by the holder's
	// Tokens that were put in, and those that are not spent.
	Tokens, Left int64
}

// Pocket is what an instance holds of one bucket, or of its sub-buckets. It is
// not safe for concurrent use. Its zero value is empty.
type Pocket struct {
	holds []Hold
	left  int64
	Lost  int64 // tokens that ended unspent, since it was made
}

// Held is how many tokens can be spent at now.
func (p *Pocket) Held(now int64) int64 {
	for len(p.holds) > 0 && (p.holds[0].Left == 0 || now >= p.holds[0].Ends) {
		p.Lost += p.holds[0].Left
		p.left -= p.holds[0].Left
		p.holds = append(p.holds[:0], p.holds[1:]...) // few, and their array is kept
	}
	return p.left
}

// Put adds a lease. Those that end first are spent first.
func (p *Pocket) Put(h Hold) {
	h.Left = h.Tokens
	i := len(p.holds)
	for i > 0 && p.holds[i-1].Ends > h.Ends {
		i--
	}
	p.holds = append(p.holds, Hold{})
	copy(p.holds[i+1:], p.holds[i:])
	p.holds[i] = h
	p.left += h.Tokens
}

// Spent is where tokens came from.
type Spent struct {
	ID    [16]byte // of the lease that gave the first of them
	Shard int
	In    Limit
	// Stamp is of the oldest lease that gave some, by the store's clock: refill has
	// repaid since then, if anything. Ends is when the first of them ends.
	Stamp, Ends int64
}

// Spend takes n tokens, which Held has said that there are. Of 0 it says where
// the next would come from.
func (p *Pocket) Spend(n int64) (from Spent) {
	for i := range p.holds {
		h := &p.holds[i]
		if h.Left == 0 {
			continue
		}
		if from.In.Zero() {
			from = Spent{h.ID, h.Shard, h.In, h.Stamp, h.Ends}
		}
		from.Stamp, from.Ends = min(from.Stamp, h.Stamp), min(from.Ends, h.Ends)
		part := min(n, h.Left)
		h.Left -= part
		p.left -= part
		if n -= part; n == 0 {
			break
		}
	}
	return from
}

// Unspend puts back n tokens that Spend took and that were not used after all;
// false: the lease has ended.
func (p *Pocket) Unspend(now int64, from Spent, n int64) bool {
	if now >= from.Ends {
		return false
	}
	for i := range p.holds {
		if h := &p.holds[i]; h.ID == from.ID {
			h.Left += n
			p.left += n
			return true
		}
	}
	p.Put(Hold{ID: from.ID, Shard: from.Shard, In: from.In, Stamp: from.Stamp, Ends: from.Ends, Tokens: n})
	return true
}

// Drop takes out, for their tokens to be returned, the leases that end before a
// time; what is spent needs no return.
func (p *Pocket) Drop(before int64) (unspent []Hold) {
	kept := p.holds[:0]
	for _, h := range p.holds {
		switch {
		case h.Left == 0:
		case h.Ends < before:
			unspent = append(unspent, h)
			p.left -= h.Left
		default:
			kept = append(kept, h)
		}
	}
	p.holds = kept
	return unspent
}

// LeaseTerms are how a limit is leased.
type LeaseTerms struct {
	// Above is how many requests a second at one instance make it lease.
	Above int64
	// Most is how many tokens one instance holds, but where one request needs more.
	Most int64
	// Life is how long it may hold them, in microseconds.
	Life int64
}

// Busy reports whether requests of so many a DemandWindow are enough to lease for;
// leases says that they were until now: it takes half as many to go on.
func (t LeaseTerms) Busy(perWindow int64, leases bool) bool {
	above := max(ceilDiv(t.Above*DemandWindow, Second), 1)
	if leases {
		above = max(above/2, 1)
	}
	return perWindow >= above
}

// Want is how many tokens to ask for: what a window demands, as far as Most has
// room for it, and never less than is needed.
func (t LeaseTerms) Want(held, demand, need int64) int64 {
	return max(min(demand, t.Most-held), need)
}

// Low reports whether it is time to ask for more: an eighth of a window is left.
func (t LeaseTerms) Low(held, demand int64) bool { return held <= min(demand, t.Most)/8 }

// Known is what a reply said about one bucket. Its zero value knows nothing.
type Known struct {
	// Left is in units of In, at At by the holder's clock.
	Left int64
	In   Limit
	At   int64
	// Next is when to ask again. It is after At where the bucket had less than was
	// wanted: then what flows back until Next is left to others.
	Next int64
}

// Learn takes in a reply that came at now to a call that wanted so many tokens and
// got some. turn, a random number, moves the pause.
func (k *Known) Learn(now int64, in Limit, left, wanted, got int64, turn uint64) {
	*k = Known{Left: left, In: in, At: now, Next: now}
	if got >= wanted {
		return
	}
	pause := ShortPause*3/4 + int64(turn%uint64(ShortPause/2))
	pause = max(pause, min(k.back(1), Second))                            // before, there is no whole token
	k.Next = now + min(pause, max(ceilDiv(in.Units()-left, in.Count), 1)) // and after, what flows back is lost
}

// back is how long until n tokens are there.
func (k *Known) back(n int64) int64 {
	return ceilDiv(max(min(n, k.In.Capacity)*k.In.Period-k.Left, 0), k.In.Count)
}

// Units is what is left at now of a bucket that is in, in its units, as far as is
// known; all of it where nothing is.
func (k *Known) Units(now int64, in Limit) int64 {
	if k.In != in {
		return in.Units()
	}
	return in.Units() - in.Spent(in.Units()-k.Left, in.Units(), max(now-k.Next, 0))
}

// Wait is how long until n tokens are there, if nobody else takes any, and the
// bucket is asked again.
func (k *Known) Wait(now, n int64) int64 {
	if k.In.Zero() {
		return 0
	}
	return max(k.At+k.back(n)-now, k.Next-now, 0)
}
