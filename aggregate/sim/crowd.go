package sim

import (
	"fmt"
	"math"
)

// failOdds is failures a sign-in.
const failOdds = HonestFails / (1 - HonestFails)

// doing is a moment's honest people: who comes, and how they do. Their chances
// follow from the parameters, so that both levels come to the same.
type doing struct {
	logins     float64 // sign-ins, of what is usual
	newDevices float64 // share of them
	stranger   float64 // failures a stranger's sign-in, without repeats
	other      float64 // and anybody else's
}

// doingOf is what newDevices of sign-ins, and cold of failures, come to; there
// are as many failures a sign-in whoever comes.
func doingOf(newDevices, cold float64) doing {
	strangers := newDevices * NewPlaces
	const odds = failOdds * (1 - Repeats)
	return doing{logins: 1, newDevices: newDevices, stranger: odds * cold / strangers, other: odds * (1 - cold) / (1 - strangers)}
}

// persistStranger and persistOther are the shares of failures after which the
// same person tries again until they are in; the rest give up. The first is
// such that HonestNewAccount of cold failures are an account's first of the day:
// of 1.25 failures a sign-in 0.25 are given up, and 0.5 are the first of a session.
const (
	persistStranger = 0.80
	persistOther    = 0.95
	// tries is how often anybody does.
	tries = 8
)

// soon and late are the seconds from a failure to the same person's next try.
const soon, late = 5, 25

func chance(odds float64) float64 { return odds / (1 + odds) }

// firstFresh is the chance that a stranger's network is new, such that share of
// all failures are from one: the second of a session no longer is.
func firstFresh(share, odds float64) float64 { return min(1, share*odds/chance(odds)) }

// crowd makes honest people's logins of a time.
type crowd struct {
	r      random
	people *people
	perMin float64 // mean attempts a minute
	spans  []Span
	odds   drift
	level  drift
}

func newCrowd(perDay float64, seed int64, p *people, spans []Span) *crowd {
	r := newRandom(seed, 12)
	return &crowd{r: r, people: p, perMin: perDay / (24 * 60), spans: spans,
		odds: newDrift(r, OddsDrift, OddsHours, 10), level: newDrift(r, LevelDrift, LevelHours, 10)}
}

// moment is what the cases make of a time.
func (c *crowd) moment(at int64) doing {
	d, logins, odds := doingOf(NewDevices, ColdFails), 1.0, 1.0
	for i := range c.spans {
		s := &c.spans[i]
		switch {
		case !s.on(at):
		case s.Case == FlashCrowd:
			d, logins = doingOf(FlashNewDevices, FlashColdFails), logins*s.Factor
		case s.Case == ResetDay:
			odds *= s.Factor
		}
	}
	d.logins = logins
	d.stranger *= odds
	d.other *= odds
	return d
}

// fill adds the logins that begin from from to to, ten seconds at a time.
func (c *crowd) fill(q *queue, from, to int64) {
	const step = 10 * second
	for at := from; at < to; at += step {
		d := c.moment(at)
		level, wander := c.level.next(c.r), c.odds.next(c.r)
		// Sign-ins, and with them their failures.
		mean := c.perMin / 6 * (1 - HonestFails) * curve(at) * level * d.logins
		for range c.r.scattered(mean) {
			c.session(q, at+int64(c.r.Float64()*step), d, wander)
		}
	}
}

// session is one person's attempts until they are in, or give up.
func (c *crowd) session(q *queue, at int64, d doing, wander float64) {
	who := c.people.any()
	l := login{account: who.name(), agent: agent(c.r, HonestUA), who: who, ip: who.home(c.people.offices())}
	odds, persist := d.other, persistOther
	if c.r.Float64() < d.newDevices {
		if c.r.Float64() < NewPlaces {
			l.stranger = true
			odds, persist = d.stranger, persistStranger
			l.ip = elsewhere(c.r, c.people.n, firstFresh(HonestNewNetwork, d.stranger))
		}
	} else {
		l.device = true
		if c.r.Float64() < KnownNewPlaces {
			l.ip = elsewhere(c.r, c.people.n, HonestNewNetwork)
		}
	}
	l.at = at
	c.attempts(q, l, chance(odds*wander), persist)
}

// attempts adds a sign-in and the failures before it, some of which are those
// of others like them, who give up. What was wrong is said again by some.
func (c *crowd) attempts(q *queue, l login, fail, persist float64) {
	for range tries {
		if c.r.Float64() >= fail {
			break
		}
		bad := l
		bad.password, bad.breached = wrong(c.r), c.r.Float64() < HonestBreached
		if c.r.Float64() >= persist {
			bad.who = c.people.any()
			bad.account = bad.who.name()
			if !l.stranger {
				bad.ip = bad.who.home(c.people.offices())
			} else if c.r.Float64() < HonestUnknown/(1-persist) {
				bad.account, bad.unknown = bad.account+"x", true
			}
		}
		q.add(&bad)
		for l.at += c.pause(); c.r.Float64() < Repeats; l.at += c.pause() {
			again := bad
			again.at = l.at
			q.add(&again)
		}
	}
	l.password, l.right = l.who.password(), true
	q.add(&l)
}

// pause is until the next try.
func (c *crowd) pause() int64 { return int64(c.r.between(soon, late) * second) }

// background adds the scan's guesses.
func background(q *queue, r random, p *people, perDay float64, from, to int64) {
	sources := make([]uint32, ScanSources)
	for i := range sources {
		sources[i] = r.Uint32()
	}
	wander := newDrift(r, ScanDrift, ScanHours, 10)
	for at := from; at < to; at += 10 * second {
		for range r.scattered(perDay / (24 * 360) * Scan * wander.next(r)) {
			n := sources[r.IntN(len(sources))]
			l := &login{scan: true, at: at + int64(r.Float64()*10*second), agent: agent(r, ScanUA), password: common(r),
				breached: r.Float64() < ScanBreached, ip: scanAddress(n)}
			if r.Float64() < ScanNewNetwork {
				l.ip = newAddress(r)
			}
			if l.unknown = r.Float64() < ScanUnknown; l.unknown {
				l.account = scanned(r)
			} else {
				l.account = p.of(int(math.Pow(r.Float64(), 8) * float64(p.n))).name() // the same ones again and again
			}
			q.add(l)
		}
	}
}

// scanned is a name that the background guesses at and that does not exist: one
// of a dictionary's, or one that was not tried before, by halves, so that
// ScanNewAccount of all its guesses are an account's first of the day.
func scanned(r random) string {
	if r.Float64() < 0.5 {
		return "admin" + common(r)
	}
	return fmt.Sprintf("admin%d", r.Int64())
}
