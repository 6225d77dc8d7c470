package detect

import "math"

// Channel is a property that cold failures have more often in an attack.
type Channel uint8

// The channels.
const (
	ChannelUnknown  Channel = iota // accounts that do not exist
	ChannelNetwork                 // networks never seen
	ChannelAccount                 // each account once
	ChannelBreached                // leaked passwords
	ChannelUA                      // one class of user agent
	Channels
)

var channelNames = [Channels]string{"unknown_accounts", "new_networks", "accounts_per_failure", "breached_passwords", "user_agent"}

// String returns the channel's name in findings.
func (c Channel) String() string { return channelNames[c] }

// shifted is how large a part of cold failures the attack is that a channel
// is made for: with that part all having the property, its share grows from p
// to p + shifted x (1-p). A smaller attack takes longer, a larger one less.
const shifted = 0.30

// mixed is the least factor on a limit for counts that come in clumps (the same
// person's next failure has the same network and user agent).
const mixed = 1.5

// tells is the share that a property may have of usual failures for more of it
// to say anything: an attack moves what nearly all have by less than the
// expectation is off, and a site of one application would be over its limit for
// good.
const tells = 0.90

// bernoulli is a CUSUM over single failures with or without a property.
type bernoulli struct {
	sum    cusum
	spread spread

	n5, x5, want5 float64 // five minutes, for the spread
	bins          int
}

// step takes a bin: x of n have it, where p of them are expected to.
func (b *bernoulli) step(n, x, p, rate float64, calm bool) {
	if p > tells {
		b.sum.value = 0
		return
	}
	p = max(p, 0.01)
	q := p + shifted*(1-p)
	b.sum.limit = limitFor(rate) * max(mixed, b.spread.factor())
	b.sum.add(x*math.Log(q/p) + (n-x)*math.Log((1-q)/(1-p)))

	b.n5 += n * p * (1 - p)
	b.x5 += x
	b.want5 += n * p
	if b.bins++; b.bins < slowBins {
		return
	}
	if calm && b.n5 > 0.5 {
		b.spread.add((b.x5 - b.want5) / math.Sqrt(b.n5))
	}
	b.n5, b.x5, b.want5, b.bins = 0, 0, 0, 0
}

// limitFor is the limit at which failures that come one by one give a false
// alarm in four weeks: rate is failures a bin.
func limitFor(rate float64) float64 {
	const bins = 28 * day / Width
	return math.Log(max(rate, 0.05) * bins)
}

// structure watches what cold failures are made of.
type structure struct {
	one [Channels - 1]bernoulli
	ua  [Groups]bernoulli
}

func newStructure() *structure {
	s := &structure{}
	for i := range s.one {
		s.one[i].spread = newSpread(288)
	}
	for i := range s.ua {
		s.ua[i].spread = newSpread(288)
	}
	return s
}

// step takes a bin. base says how much of everything is normal.
func (s *structure) step(b *Bin, base *Baseline, calm bool) {
	x, y := values(b)
	at := b.Start
	failed := max(base.expect(yFailed, at, x), 0.01)
	cold := max(base.expect(yCold, at, x), 0.01)

	// Of who was refused nobody knows whether the account exists, and honest
	// people's first refusal would look like an attacker's next account.
	for _, c := range [...]struct {
		ch Channel
		y  int
	}{{ChannelUnknown, yUnknown}, {ChannelAccount, yAccount}} {
		s.one[c.ch].step(y[yCold], y[c.y], base.expect(c.y, at, x)/cold, cold, calm)
	}
	refused := float64(b.Count[Cold] + b.Count[Unsolved])
	solved := min(float64(b.Solved), refused)
	// Whoever solved what they were asked is honest, and what they were like says
	// nothing: they count as the usual mix, and not at all.
	step := func(to *bernoulli, i int, rate float64) {
		p := base.expect(i, at, x) / failed
		n := refused - solved
		to.step(n, clamp(y[i]-solved*p, 0, n), p, rate, calm)
	}
	step(&s.one[ChannelNetwork], yNetwork, failed)
	step(&s.one[ChannelBreached], yBreached, failed)
	for i := range s.ua {
		// Which class it will be is not known before: as many more chances to be wrong.
		step(&s.ua[i], yUA+i, failed*Groups)
	}
}

// over lists the channels over their limits.
func (s *structure) over() (list []Channel) {
	for i := range s.one {
		if s.one[i].sum.over() {
			list = append(list, Channel(i))
		}
	}
	for i := range s.ua {
		if s.ua[i].sum.over() {
			return append(list, ChannelUA)
		}
	}
	return list
}

// reset forgets what was added up.
func (s *structure) reset() {
	for i := range s.one {
		s.one[i].sum.value = 0
	}
	for i := range s.ua {
		s.ua[i].sum.value = 0
	}
}
