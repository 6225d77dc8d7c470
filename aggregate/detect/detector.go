package detect

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// Detector is everything that watches one realm. Show it each Sight as it
// comes, count the sight in its Bin, and give it each bin once it is over.
type Detector struct {
	Watch     *Watch
	Control   Control
	Campaigns *Campaigns
	Accounts  *Accounts
	Sources   *Sources
	Spray     *Spray

	seed        uint64 // of what is seen
	novelty     *Novelty
	attribution *Attribution
	suspects    map[netip.Prefix]int64 // until
	tags        map[string]int64
	takeovers   dayCount
	sized       int64
	last        int64 // end of the last bin
}

// Suspects last so long after the last sign, and are few: each is a record that is
// written again and again. Those with the oldest sign make room for others, or who
// keeps as many alive as there is room for would have what he does next overlooked.
const (
	suspectFor   = 15 * minute
	suspectsMost = 256
	tagFor       = day
	tagsMost     = 1024
	// sizeEvery is how often the global tier is sized anew.
	sizeEvery = 5 * minute
	// lapse is how long without a bin a level is not in force any more: what was set
	// of it has lapsed by itself, and to go on would be to set it anew.
	lapse = 15 * minute
	// rereadMost is how far back a successor may be given bins again. Further back is
	// a clock that was ahead and has been set back.
	rereadMost = 3 * hour
)

// New has seen nothing. seed is a secret of the process: visitors choose what is
// hashed.
func New(seed uint64) *Detector {
	return &Detector{seed: seed, Watch: NewWatch(), Campaigns: NewCampaigns(), Accounts: NewAccounts(seed + 1), Sources: NewSources(seed + 2),
		Spray: NewSpray(seed + 3), novelty: NewNovelty(seed), attribution: NewAttribution(),
		suspects: map[netip.Prefix]int64{}, tags: map[string]int64{}}
}

// See takes a sight before its bin counts it: it sets what is new about it.
func (d *Detector) See(s *Sight) {
	d.novelty.Mark(s)
	d.attribution.See(s)
	if s.Class.Failed() && !d.suspicious(s) {
		d.attribution.Untied(s)
	}
	if f, ok := d.Accounts.See(s); ok {
		k := d.Campaigns.find(&f)
		if f.New {
			k.did(s.At, "told")
		}
	}
	if f, ok := d.Sources.See(s); ok {
		k := d.Campaigns.find(&f)
		d.suspect(f.Source, s.At, k)
	}
	if p, ok := d.Spray.See(s); ok {
		k := d.Campaigns.spray(s, p)
		if d.tags[p.Tag] == 0 {
			k.did(s.At, "password suspect")
		}
		d.suspectTag(p.Tag, s.At)
	}
	if s.Class == Success && s.Stranger && d.suspicious(s) {
		d.takeovers.add(s.At)
	}
}

// suspicious: it comes from a suspect, or with a sprayed password.
func (d *Detector) suspicious(s *Sight) bool {
	return d.suspects[s.Source] > s.At || d.suspects[s.Wide] > s.At || s.Tag != "" && d.tags[s.Tag] > s.At
}

func (d *Detector) suspect(p netip.Prefix, at int64, k *Campaign) {
	if _, known := d.suspects[p]; !known {
		k.did(at, "suspect "+p.String())
	}
	suspectUntil(d.suspects, p, at+suspectFor, suspectsMost, netip.Prefix.Compare)
}

func (d *Detector) suspectTag(tag string, at int64) {
	suspectUntil(d.tags, tag, at+tagFor, tagsMost, strings.Compare)
}

// suspectUntil keeps the later of two ends: signs that come late shorten nothing.
func suspectUntil[K comparable](list map[K]int64, k K, until int64, most int, compare func(a, b K) int) {
	was, known := list[k]
	if !known && len(list) >= most {
		for _, oldest := range least(list, func(until int64) int64 { return until }, compare) {
			delete(list, oldest)
		}
	}
	list[k] = max(was, until)
}

// Result is what a bin led to.
type Result struct {
	Reading Reading
	Decision
	// Suspects and Tags are in force, and until when.
	Suspects map[netip.Prefix]int64
	Tags     map[string]int64
	// Size is the global tier's, where it is known and due.
	Size *Size
	// Campaigns were opened, updated or closed.
	Campaigns []Campaign
}

// Step takes a bin that is over. Bins come in order; missing ones were empty.
// The maps of the Result are the detector's own, until the next call.
func (d *Detector) Step(b *Bin) Result {
	acting := d.Control.Level() > Calm || len(d.suspects) > 0
	if d.last-b.Start > rereadMost {
		d.setBack(b.Start)
	}
	r := Result{Reading: d.Watch.Step(b, acting)}
	at := r.Reading.At
	if d.last > 0 && at-d.last > lapse {
		d.Control.lapse(at)
	}
	d.last = at
	d.expire(at)

	scoped, rest := false, r.Reading
	if r.Reading.Attack() && !r.Reading.Learning {
		scoped = d.attribute(&rest)
	}
	r.Decision = d.Control.Step(&rest, scoped, d.takeovers.sum(at/hour, 2))
	d.book(&r, scoped)
	r.Suspects, r.Tags = d.suspects, d.tags
	if at-d.sized >= sizeEvery {
		if s, ok := d.Watch.Baseline().Size(at, d.Watch.volume.successes.value); ok {
			d.sized, r.Size = at, &s
		}
	}
	d.Campaigns.tidy(at)
	r.Campaigns = d.Campaigns.Take()
	return r
}

// setBack has nothing end or turn at a time that is not to come for long: what was
// learnt stays, what goes by time begins anew.
func (d *Detector) setBack(at int64) {
	d.Accounts, d.Sources, d.Spray = NewAccounts(d.seed+1), NewSources(d.seed+2), NewSpray(d.seed+3)
	d.attribution, d.takeovers, d.sized = NewAttribution(), dayCount{}, 0
	d.novelty.networks.setBack(at)
	d.novelty.accounts.setBack(at)
	d.Watch.base.h.last = min(d.Watch.base.h.last, at/hour)
	c := &d.Control
	c.since, c.sign, c.left = min(c.since, at), min(c.sign, at), min(c.left, at)
	for p, until := range d.suspects {
		d.suspects[p] = min(until, at+suspectFor)
	}
	for t, until := range d.tags {
		d.tags[t] = min(until, at+tagFor)
	}
	for _, k := range d.Campaigns.open {
		k.Start, k.Last, k.counted = min(k.Start, at), min(k.Last, at), min(k.counted, at)
	}
	clear(d.Campaigns.closed)
}

// attribute makes suspects of the few that most of the excess comes from, and
// says whether there are such few and nothing to speak of beside them: else whoever
// has a botnet guess hides it behind one host that is refused three times as often.
// What is beside them is what r says then.
func (d *Detector) attribute(r *Reading) bool {
	few := d.attribution.Few(r.At, r.Excess, d.Watch.base.fits[yFailed].odds)
	if few == nil {
		return false
	}
	k := d.Campaigns.of(distributed, "", r.At, r.At)
	k.groups(few)
	for _, p := range prefixes(few) {
		d.suspect(p, r.At, k)
	}
	for _, g := range few {
		if g.Kind == GroupTag {
			d.suspectTag(g.Key, r.At)
		}
	}
	d.attribution.Tie(r.At, few)
	rest, enough := d.attribution.Loose(r.At)-r.Expected, r.Gate
	if r.Confirmed {
		enough = min(enough, r.practical())
	}
	if rest < enough {
		return true
	}
	r.Excess, r.Rising = min(r.Excess, rest), min(r.Rising, rest)
	return false
}

// book keeps the realm's own campaign.
func (d *Detector) book(r *Result, scoped bool) {
	// While it learns there are alerts, once it has seen a day.
	attack := r.Reading.Attack() && d.Watch.base.fits[yFailed].known
	if !attack && d.Control.Level() == Calm && !r.Changed {
		return
	}
	k := d.Campaigns.open[distributed+" "]
	if k == nil && !attack {
		return // it was closed before the level came down
	}
	if attack {
		k = d.Campaigns.of(distributed, "", r.Reading.At, r.Reading.At)
		if r.Reading.At > k.counted {
			k.beyond += max(0, r.Reading.Excess) * Width / minute
			k.Guesses += int(k.beyond) // whole ones: what is slow makes less than one a bin
			k.beyond -= math.Floor(k.beyond)
		}
		k.Peak = max(k.Peak, r.Reading.Excess)
		if k.Reason = r.Reason; k.Reason == "" {
			k.Reason = why(&r.Reading, 0)
		}
		if !scoped {
			k.groups(d.attribution.Common(r.Reading.At, r.Reading.Excess, d.Watch.base.fits[yFailed].odds))
			k.sampleOf(d.attribution)
		}
	}
	k.Level = max(k.Level, r.Level)
	if r.Changed {
		k.did(r.Reading.At, "posture "+r.Level.String())
		d.Campaigns.changed[k.ID] = k
	}
}

func (k *Campaign) sampleOf(a *Attribution) {
	if len(k.Sample) < samples {
		for _, e := range a.sources.heap {
			k.sample(e.account)
		}
	}
}

// expire forgets suspects whose time is over.
func (d *Detector) expire(at int64) {
	for p, until := range d.suspects {
		if until <= at {
			delete(d.suspects, p)
		}
	}
	for t, until := range d.tags {
		if until <= at {
			delete(d.tags, t)
		}
	}
}

// Text says what a campaign is, for reports; name turns an account's hash into
// what is to be said of it.
func (k *Campaign) Text(name func(string) string) string {
	who := ""
	if len(k.Sample) > 0 {
		who = name(k.Sample[0])
	}
	from := ""
	if len(k.Groups) > 0 && k.Groups[0].Prefix.IsValid() {
		from = k.Groups[0].Prefix.Addr().String()
	}
	switch k.What {
	case FindSlow.String():
		return fmt.Sprintf("%s: guessed at %d times from %d addresses over %s", who, k.Guesses, k.Sources, span(k.Last-k.Start))
	case FindHammer.String():
		return fmt.Sprintf("%s: guessed at %d times from %s within %s", who, k.Guesses, from, span(k.Last-k.Start))
	case FindSuccess.String():
		return fmt.Sprintf("%s: signed in to from %s after %d failures", who, from, k.Guesses)
	case FindAccounts.String():
		return fmt.Sprintf("%s: failed on %d accounts within %s", from, k.Accounts, span(k.Last-k.Start))
	case FindNames.String():
		return fmt.Sprintf("%s: tried %d names, most of which do not exist, within %s", from, k.Accounts, span(k.Last-k.Start))
	case spraying:
		return fmt.Sprintf("one password tried on %d accounts within %s", k.Accounts, span(k.Last-k.Start))
	}
	return fmt.Sprintf("%d guesses beyond what is usual, up to %.0f a minute, within %s; %s", k.Guesses, k.Peak, span(k.Last-k.Start), k.Reason)
}

func span(d int64) string {
	switch {
	case d >= 2*day:
		return strconv.Itoa(int((d+day/2)/day)) + " days"
	case d >= 2*hour:
		return strconv.Itoa(int((d+hour/2)/hour)) + " hours"
	}
	return strconv.Itoa(int((d+minute-1)/minute)) + " minutes"
}

// Meet says that a network was seen at that time: what other bookkeeping knows,
// so that it is not new.
func (d *Detector) Meet(wide netip.Prefix, at int64) {
	d.novelty.networks.add(at, d.novelty.hash.prefix(wide))
}

// Failed says that an account failed at that time, as Meet does of a network.
func (d *Detector) Failed(account string, at int64) {
	d.novelty.accounts.add(at, d.novelty.hash.text(account))
}

// SuspectsAt lists the networks and the passwords' tags that are suspects at
// that time.
func (d *Detector) SuspectsAt(at int64) (networks []netip.Prefix, tags []string) {
	for p, until := range d.suspects {
		if until > at {
			networks = append(networks, p)
		}
	}
	for t, until := range d.tags {
		if until > at {
			tags = append(tags, t)
		}
	}
	return networks, tags
}
