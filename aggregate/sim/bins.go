package sim

import "github.com/guardd/guardd/aggregate/detect"

// Bins makes the bins of a site, one after the other.
type Bins struct {
	// Challenged: strangers are asked for something, so that guesses are refused,
	// and most honest ones solve it. Set it as the posture changes.
	Challenged bool

	perBin float64 // mean honest attempts
	cases  bool    // the weekly ones happen
	at     int64

	r                 random // what is counted
	fate              random // what happens
	theirs            random // the attacker's, so that the rest stays as it is without one
	level, odds, scan drift
	failing           failing
	spans             []Span
	attack            *Attack
	from, to          int64
	own               map[int64]int // of the attacker's successes, by hour
}

// NewBins begins at start (a multiple of detect.Width) at a site of so many
// honest attempts a day. cases: flash crowds, resets, outages and the like
// happen every week.
func NewBins(perDay float64, seed, start int64, cases bool) *Bins {
	const step = detect.Width / second
	r := newRandom(seed, 1)
	return &Bins{perBin: perDay * detect.Width / day, cases: cases, at: start,
		r: r, fate: newRandom(seed, 2), theirs: newRandom(seed, 3),
		level: newDrift(r, LevelDrift, LevelHours, step), odds: newDrift(r, OddsDrift, OddsHours, step),
		scan: newDrift(r, ScanDrift, ScanHours, step), own: map[int64]int{}}
}

// Attack has the site attacked in that time.
func (g *Bins) Attack(a Attack, from, to int64) { g.attack, g.from, g.to = &a, from, to }

// Happen adds a case that begins then.
func (g *Bins) Happen(c Case, from int64) { g.spans = append(g.spans, NewSpan(g.fate, c, from)) }

// HonestPerMinute is the mean of the site's honest attempts.
func (g *Bins) HonestPerMinute() float64 { return g.perBin * minute / detect.Width }

// Spans are the cases that the current week brought, and those before it that
// still last.
func (g *Bins) Spans() []Span { return g.spans }

// Next makes the next bin.
func (g *Bins) Next() detect.Bin {
	if g.cases && mod(g.at-monday, week) < detect.Width {
		g.turnWeek()
	}
	b := detect.Bin{Start: g.at}
	m := g.now()
	level, odds, scan := g.level.next(g.r), g.odds.next(g.r), g.scan.next(g.r)

	g.honest(&b, g.perBin*curve(g.at)*level*m.logins, odds*m.odds, m)
	g.moved(&b, m.office, odds, NewDevices)
	g.moved(&b, m.carrier, odds, 1-CarrierKnown)
	g.strangers(&b)
	g.fails(g.r, &b, g.r.scattered(g.perBin*Scan*scan), &scanMix)
	b.Count[detect.Repeat] += g.r.scattered(g.perBin * Active * StaleApps * 24 * 60 / StaleEvery * m.stale)
	g.attacked(&b)
	g.at += detect.Width
	return b
}

func (g *Bins) turnWeek() {
	kept := g.spans[:0]
	for _, s := range g.spans {
		if s.To > g.at {
			kept = append(kept, s)
		}
	}
	g.spans = append(kept, weekOf(g.fate, g.at)...)
}

// moment is what the cases of a moment make of it.
type moment struct {
	logins, odds, stale float64 // factors
	newDevices, cold    float64 // shares: of logins, of failures
	office, carrier     float64 // more attempts
	outage              Case
	quietNetwork        bool
}

func (g *Bins) now() moment {
	m := moment{logins: 1, odds: 1, stale: 1, newDevices: NewDevices, cold: ColdFails}
	for i := range g.spans {
		s := &g.spans[i]
		if !s.on(g.at) {
			continue
		}
		switch s.Case {
		case FlashCrowd:
			m.logins *= s.Factor
			m.newDevices, m.cold = FlashNewDevices, FlashColdFails
		case ResetDay:
			m.odds *= s.Factor
		case StaleApp:
			m.stale *= s.Factor
		case OfficeAtNine:
			m.office += OfficePeople * detect.Width / (OfficeMinutes * minute)
		case CarrierNAT:
			m.carrier += CarrierShare * g.perBin * day / (CarrierMinutes * minute)
		case OutageNotChecked, OutageFailures:
			m.outage = s.Case
		}
	}
	return m
}

// honest counts so many honest attempts (a mean).
func (g *Bins) honest(b *detect.Bin, attempts, odds float64, m moment) {
	cold := m.newDevices * NewPlaces
	if m.outage != "" {
		n := g.r.scattered(attempts * (1 + OutageRetries))
		if m.outage == OutageNotChecked {
			b.NotChecked += n
			return
		}
		strangers := g.r.of(n, cold)
		b.Count[detect.Warm] += n - strangers
		g.fails(g.r, b, strangers, &honestMix)
		return
	}
	in := g.r.scattered(attempts * (1 - HonestFails))
	b.Count[detect.Success] += in
	strangers := g.r.of(in, cold)
	b.Taken += strangers
	b.Given += strangers
	if g.Challenged {
		b.Count[detect.Unsolved] += strangers
		b.Solved += g.r.of(strangers, Solves)
	}
	d := doingOf(m.newDevices, m.cold)
	fresh := HonestNewNetwork
	if m.quietNetwork {
		fresh = 0
	}
	g.failing.begin(g.r, strangers, d.stranger*odds, fresh)
	// Whoever else fails, at their own place, or says the same again.
	elsewhere := 1 - m.cold*(1-Repeats)
	failed := g.r.scattered(attempts * HonestFails * odds * elsewhere)
	again := g.r.of(failed, Repeats/elsewhere)
	b.Count[detect.Repeat] += again
	b.Count[detect.Warm] += failed - again
}

// moved counts people at addresses where nobody has signed in before: whoever
// has no known device is a stranger there, also who fails.
func (g *Bins) moved(b *detect.Bin, attempts, odds, strangers float64) {
	if attempts > 0 {
		g.honest(b, attempts, odds, moment{cold: strangers, newDevices: strangers / NewPlaces, quietNetwork: true})
	}
}

// strangers counts the failures of those who are failing.
func (g *Bins) strangers(b *detect.Bin) {
	f := g.failing.next()
	g.cold(g.r, b, f.n, &honestMix)
	b.NewNetwork += f.fresh
	for i, n := range f.ua {
		b.UA[i] += n
	}
}

// fails counts n cold failures that have nothing to do with one another.
func (g *Bins) fails(r random, b *detect.Bin, n int, mix *Mix) {
	g.cold(r, b, n, mix)
	b.NewNetwork += r.of(n, mix.NewNetwork)
	agents(r, b, n, mix)
}

// cold counts n cold failures, but not where they come from.
func (g *Bins) cold(r random, b *detect.Bin, n int, mix *Mix) {
	if g.Challenged { // most are refused before a password is compared
		refused := r.of(n, 0.9)
		b.Count[detect.Unsolved] += refused
		b.Count[detect.Cold] += n - refused
		b.Taken += n - refused
		b.Unknown += r.of(n-refused, mix.Unknown)
		b.NewAccount += r.of(n-refused, mix.NewAccount)
	} else {
		b.Count[detect.Cold] += n
		b.Taken += n
		b.Unknown += r.of(n, mix.Unknown)
		b.NewAccount += r.of(n, mix.NewAccount)
	}
	b.Breached += r.of(n, mix.Breached)
}

// agents deals n failures to the classes of user agent, in the order of
// their places: a map's order would not be the seed's.
func agents(r random, b *detect.Bin, n int, mix *Mix) {
	left := 1.0
	for i, c := range classes {
		p := mix.UA[c]
		if n == 0 || p == 0 {
			continue
		}
		k := r.of(n, p/left)
		b.UA[i] += k
		n -= k
		left -= p
		if left < 1e-9 {
			return
		}
	}
}

func (g *Bins) attacked(b *detect.Bin) {
	if g.attack == nil || g.at < g.from || g.at >= g.to {
		return
	}
	guesses := g.theirs.poisson(g.attack.rate(g.HonestPerMinute(), g.at-g.from) * detect.Width / minute)
	right := g.theirs.of(guesses, g.attack.Success)
	if g.Challenged {
		right = 0
	}
	b.Count[detect.Success] += right
	b.Taken += right
	b.Given += right
	g.fails(g.theirs, b, guesses-right, &g.attack.Mix)
	if g.attack.OwnEvery > 0 {
		// An account counts once an hour.
		h := g.at / hour
		n := min(guesses/g.attack.OwnEvery, CanaryAccounts-g.own[h])
		g.own[h] += n
		b.Count[detect.Success] += n
	}
}
