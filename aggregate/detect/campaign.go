package detect

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Campaign is one attack from its beginning to its end, as operators read it.
// Passwords are in it as tags of the day and accounts as keyed hashes.
type Campaign struct {
	ID     string // unique within a realm: what and when
	What   string // distributed_guessing, spray, or a Find
	Start  int64
	Last   int64 // sign of it
	End    int64 // 0: it goes on
	Level  Level // highest
	Reason string

	Guesses  int
	Accounts int // distinct, where that is counted
	Sources  int
	Peak     float64 // guesses a minute
	Groups   []Group // what most of it has in common
	Sample   []string
	Done     []Action

	// counted: what happened up to then was counted by a predecessor, and is not
	// counted again when it is read again.
	counted int64
	beyond  float64 // guesses that are not in Guesses: less than one
}

// Action is one thing that was done about a campaign.
type Action struct {
	At   int64
	What string
}

const (
	// samples and actions are how many are kept of each.
	samples, actions = 8, 64
	// campaignsOpen is how many go on at once; those without a sign for longest are closed for others.
	campaignsOpen = 1024
)

// What ends by itself ends after so long without a sign.
var ends = map[string]int64{
	distributed: 30 * minute, spraying: 6 * hour,
	FindSlow.String(): 7 * day, FindHammer.String(): hour, FindSuccess.String(): hour,
	FindAccounts.String(): hour, FindNames.String(): hour,
}

const (
	distributed = "distributed_guessing"
	spraying    = "spray"
)

// Campaigns keeps them.
type Campaigns struct {
	open    map[string]*Campaign // by what and whom
	changed map[string]*Campaign // since taken
	closed  map[string]int64     // last signs of those that have ended
}

// NewCampaigns has none.
func NewCampaigns() *Campaigns {
	return &Campaigns{map[string]*Campaign{}, map[string]*Campaign{}, map[string]int64{}}
}

// of returns the campaign of what against whom, which begins if there is none.
func (c *Campaigns) of(what, whom string, start, at int64) *Campaign {
	key := what + " " + whom
	k := c.open[key]
	if k == nil {
		if len(c.open) >= campaignsOpen {
			c.closeOldest()
		}
		// What began before the last one of its kind had ended was told with that: who
		// comes back is another, with an id of its own.
		if end, ok := c.closed[key]; ok && start <= end {
			start = at
		}
		// The same when it is found again by a successor.
		id := what + "-" + strconv.FormatUint(hasher{}.pair(whom, strconv.FormatInt(start, 10)), 36)
		k = &Campaign{ID: id, What: what, Start: start}
		c.open[key] = k
	}
	k.Last = max(k.Last, at)
	c.changed[k.ID] = k
	return k
}

// find books a find.
func (c *Campaigns) find(f *Found) *Campaign {
	whom := f.Account
	if f.Find >= FindAccounts {
		whom = f.Source.String()
	} else if f.Find == FindHammer {
		whom += " " + f.Source.String()
	}
	k := c.of(f.Find.String(), whom, f.First, f.At)
	k.Guesses = max(k.Guesses, f.Guesses)
	k.Sources = max(k.Sources, f.Sources, one(f.Source.IsValid()))
	k.Accounts = max(k.Accounts, f.Accounts, one(f.Account != ""))
	k.sample(f.Account)
	if f.Source.IsValid() {
		k.groups([]Group{{Kind: GroupSource, Prefix: f.Source, Account: f.Account}})
	}
	return k
}

// spray books an attempt with a sprayed password.
func (c *Campaigns) spray(x *Sight, p Sprayed) *Campaign {
	whom := p.Tag
	if k := c.open[spraying+" "+x.TagBefore]; k != nil && x.TagBefore != "" && c.open[spraying+" "+whom] == nil { // midnight has passed
		delete(c.open, spraying+" "+x.TagBefore)
		c.open[spraying+" "+whom] = k
	}
	k := c.of(spraying, whom, x.At, x.At)
	k.Guesses += one(x.At > k.counted)
	k.Accounts = max(k.Accounts, p.Accounts)
	k.sample(x.Account)
	k.groups([]Group{{Kind: GroupTag, Key: p.Tag, Account: x.Account}})
	return k
}

func (k *Campaign) sample(account string) {
	if account != "" && len(k.Sample) < samples && !slices.Contains(k.Sample, account) {
		k.Sample = append(k.Sample, account)
	}
}

// groups keeps the strongest reading of each group.
func (k *Campaign) groups(list []Group) {
	for _, g := range list {
		i := slices.IndexFunc(k.Groups, func(o Group) bool { return o.Kind == g.Kind && o.Prefix == g.Prefix && o.Key == g.Key })
		switch {
		case i >= 0:
			k.Groups[i].Minute = max(k.Groups[i].Minute, g.Minute)
		case len(k.Groups) < 2*groups:
			k.Groups = append(k.Groups, g)
		}
		k.sample(g.Account)
	}
}

// did books what was done. A botnet's suspects leave room for what the posture
// does after them.
func (k *Campaign) did(at int64, what string) {
	room := actions
	if strings.HasPrefix(what, "suspect ") {
		room -= actions / 4
	}
	if len(k.Done) < room {
		k.Done = append(k.Done, Action{at, what})
	}
}

// tidy closes what has had no sign for its time.
func (c *Campaigns) tidy(at int64) {
	for key, k := range c.open {
		if at-k.Last >= ends[k.What] {
			c.close(key, k.Last)
		}
	}
}

func (c *Campaigns) close(key string, at int64) {
	k := c.open[key]
	k.End = at
	c.changed[k.ID] = k
	delete(c.open, key)
	if len(c.closed) >= campaignsOpen {
		for _, old := range least(c.closed, func(end int64) int64 { return end }, strings.Compare) {
			delete(c.closed, old)
		}
	}
	c.closed[key] = at
}

func (c *Campaigns) closeOldest() {
	for _, key := range least(c.open, func(k *Campaign) int64 { return k.Last }, strings.Compare) {
		c.close(key, c.open[key].Last)
	}
}

// Take returns what was opened, updated or closed since it was called last, by
// start.
func (c *Campaigns) Take() []Campaign {
	list := make([]Campaign, 0, len(c.changed))
	for _, k := range c.changed {
		list = append(list, k.clone())
	}
	clear(c.changed)
	slices.SortFunc(list, func(a, b Campaign) int {
		if a.Start != b.Start {
			return int(min(max(a.Start-b.Start, -1), 1))
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Open returns those that go on, the latest sign first, at most so many.
func (c *Campaigns) Open(most int) []Campaign {
	list := make([]*Campaign, 0, len(c.open))
	for _, k := range c.open {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *Campaign) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.ID, b.ID)) })
	var open []Campaign
	for _, k := range list[:min(most, len(list))] {
		open = append(open, k.clone())
	}
	return open
}

func (k *Campaign) clone() Campaign {
	one := *k
	one.Groups, one.Sample, one.Done = slices.Clone(k.Groups), slices.Clone(k.Sample), slices.Clone(k.Done)
	return one
}

// prefixes are the suspects among groups.
func prefixes(list []Group) (p []netip.Prefix) {
	for _, g := range list {
		if g.Kind == GroupSource || g.Kind == GroupNetwork {
			p = append(p, g.Prefix)
		}
	}
	return p
}

// Kinds are the words of Campaign.What.
func Kinds() []string { return slices.Sorted(maps.Keys(ends)) }
