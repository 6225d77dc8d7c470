package sim

import (
	"fmt"
	"math"
)

// Honest people at one moment, as Events makes them. Their chances follow from
// the parameters, so that both levels come to the same.
var (
	// strangersIn is the share of sign-ins by strangers.
	strangersIn = NewDevices * NewPlaces
	// failOdds is failures a sign-in.
	failOdds = HonestFails / (1 - HonestFails)
	// failStranger and failOther are the chances that one attempt fails.
	failStranger = chance(failOdds * ColdFails * (1 - Repeats) / strangersIn)
	failOther    = chance(failOdds * (1 - ColdFails*(1-Repeats)) / (1 - strangersIn))
)

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

func chance(odds float64) float64 { return odds / (1 + odds) }

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
func (c *crowd) moment(at int64) (logins, odds, newDevices float64) {
	logins, odds, newDevices = 1, 1, NewDevices
	for i := range c.spans {
		s := &c.spans[i]
		switch {
		case !s.on(at):
		case s.Case == FlashCrowd:
			logins, newDevices = logins*s.Factor, FlashNewDevices
			// Who comes rarely fails more often.
			odds *= FlashColdFails / ColdFails
		case s.Case == ResetDay:
			odds *= s.Factor
		}
	}
	return logins, odds, newDevices
}

// fill adds the logins that begin from from to to, ten seconds at a time.
func (c *crowd) fill(q *queue, from, to int64) {
	const step = 10 * second
	for at := from; at < to; at += step {
		logins, odds, devices := c.moment(at)
		level, wander := c.level.next(c.r), c.odds.next(c.r)
		// Sign-ins, and with them their failures.
		mean := c.perMin / 6 * (1 - HonestFails) * curve(at) * level * logins
		for range c.r.scattered(mean) {
			c.session(q, at+int64(c.r.Float64()*step), odds*wander, devices)
		}
	}
}

// session is one person's attempts until they are in, or give up.
func (c *crowd) session(q *queue, at int64, odds, devices float64) {
	who := c.people.any()
	l := login{account: who.name(), agent: agent(c.r, HonestUA), who: who, ip: who.home(c.people.offices())}
	fail, persist := failOther, persistOther
	if c.r.Float64() < devices {
		if c.r.Float64() < NewPlaces {
			l.stranger = true
			// A session's second failure is of a network that is no longer new.
			l.ip = elsewhere(c.r, c.people.n, HonestNewNetwork/HonestNewAccount)
			fail, persist = failStranger, persistStranger
		}
	} else {
		l.device = true
		if c.r.Float64() < KnownNewPlaces {
			l.ip = elsewhere(c.r, c.people.n, HonestNewNetwork)
		}
	}
	l.at = at
	c.attempts(q, l, chance(fail/(1-fail)*odds), persist)
}

// attempts adds a sign-in and the failures before it, some of which are those
// of others like them, who give up.
func (c *crowd) attempts(q *queue, l login, fail, persist float64) {
	said := wrong(c.r)
	for range tries {
		if c.r.Float64() >= fail {
			break
		}
		bad := l
		bad.breached = c.r.Float64() < HonestBreached
		if c.r.Float64() < persist {
			if c.r.Float64() >= Repeats {
				said = wrong(c.r)
			}
			bad.password = said
			l.at += int64(c.r.between(5, 25) * second)
		} else {
			bad.who = c.people.any()
			bad.account, bad.password = bad.who.name(), wrong(c.r)
			if !l.stranger {
				bad.ip = bad.who.home(c.people.offices())
			} else if c.r.Float64() < HonestUnknown/(1-persist) {
				bad.account, bad.unknown = bad.account+"x", true
			}
		}
		q.add(&bad)
	}
	l.password, l.right = l.who.password(), true
	q.add(&l)
}

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
