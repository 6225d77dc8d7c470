package main

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// detector runs a replay's logins through detection, too: what it finds is
// listed, and what it does tightens the replay as it would have tightened the
// service.
type detector struct {
	inline   *aggregate.Inline
	watching map[string]*aggregate.Detection // by realm
	found    map[string]detect.Campaign      // the last state, by realm and id
	names    map[string]string               // of accounts, by hash
	flushed  int64
	err      error
}

// namesKept bounds the names that are remembered for the list.
const namesKept = 1 << 20

// newDetector watches the realms of r. providers may be nil.
func newDetector(r *replay, providers func(netip.Addr) uint32) *detector {
	d := &detector{watching: map[string]*aggregate.Detection{}, found: map[string]detect.Campaign{}, names: map[string]string{}}
	d.inline = aggregate.NewAggregator(aggregate.AggregatorConfig{
		Store: r.store,
		Shards: func(realm string) (int, bool) {
			p := r.policy.Realms[realm]
			return max(1, shardsOf(p)), p != nil
		},
		Watch: func(realm string, _ []byte) aggregate.Watch {
			w, _ := aggregate.NewDetection(aggregate.DetectionConfig{Realm: realm, Found: d.keep(realm)}, nil) // of no state nothing is wrong
			d.watching[realm] = w
			return w
		},
		Provider: providers,
		Now:      func() time.Time { return time.UnixMicro(r.clock) },
		Failed:   func(_ string, err error) { d.err = cmp.Or(d.err, err) },
	}).Inline()
	return d
}

func shardsOf(p *escalation.Realm) int {
	if p == nil {
		return 0
	}
	return p.Shards
}

func (d *detector) keep(realm string) func(*detect.Campaign) {
	return func(c *detect.Campaign) { d.found[realm+" "+c.ID] = *c }
}

// attempt and outcome tell it of what happened; a nil detector is told nothing.
func (d *detector) attempt(v *escalation.Verdict, name string) error {
	if d == nil {
		return nil
	}
	if len(d.names) < namesKept {
		d.names[v.Account.String()] = name
	}
	return d.inline.Attempt(v)
}

func (d *detector) outcome(r *escalation.Recorded) error {
	if d == nil {
		return nil
	}
	return d.inline.Outcome(r)
}

// tick has what was found take effect, at most once a second of the log.
func (d *detector) tick(ctx context.Context, now int64) error {
	if d == nil || now-d.flushed < keys.Second {
		return nil
	}
	d.flushed = now
	d.inline.Flush(ctx)
	return d.err
}

// replayCampaign is what detection found.
type replayCampaign struct {
	What     string    `json:"what"`
	Text     string    `json:"text"`
	Start    time.Time `json:"start"`
	Last     time.Time `json:"last"`
	Guesses  int       `json:"guesses"`
	Sources  int       `json:"sources,omitempty"`
	Accounts int       `json:"accounts,omitempty"`
	// Groups are the addresses, networks and providers that most of it came from.
	Groups []replayGroup `json:"groups,omitempty"`
}

// replayGroup is one of those, in the words of findings.
type replayGroup struct {
	Kind detect.GroupKind `json:"kind"` // source, network, asn
	Key  string           `json:"key"`
}

func replayGroups(all []detect.Group) (list []replayGroup) {
	for _, g := range all {
		switch g.Kind {
		case detect.GroupSource, detect.GroupNetwork:
			list = append(list, replayGroup{g.Kind, g.Prefix.String()})
		case detect.GroupASN:
			list = append(list, replayGroup{g.Kind, g.Key})
		}
	}
	return list
}

// groupsNamed is how many of a campaign's groups its line for people names.
const groupsNamed = 4

// from says where most of it came from.
func (c *replayCampaign) from() string {
	var names []string
	for _, g := range c.Groups {
		name := strings.TrimSuffix(g.Key, "/32")
		if g.Kind == detect.GroupASN {
			name = "AS" + name
		}
		if !strings.Contains(c.Text, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	if len(names) > groupsNamed {
		names = append(names[:groupsNamed], "...")
	}
	return "; most of it from " + strings.Join(names, ", ")
}

// list is how many were found, and those with the most guesses.
func (d *detector) list(most int) (found int, first []replayCampaign) {
	if d == nil {
		return 0, nil
	}
	for realm, w := range d.watching {
		for _, c := range w.Detector().Campaigns.Take() { // since the last bin
			d.keep(realm)(&c)
		}
	}
	all := slices.SortedFunc(maps.Values(d.found), func(a, b detect.Campaign) int {
		return cmp.Or(cmp.Compare(b.Guesses, a.Guesses), cmp.Compare(a.ID, b.ID))
	})
	first = []replayCampaign{}
	for _, c := range all[:min(most, len(all))] {
		first = append(first, replayCampaign{What: c.What, Text: c.Text(d.name), Start: time.UnixMicro(c.Start).UTC(), Last: time.UnixMicro(c.Last).UTC(),
			Guesses: c.Guesses, Sources: c.Sources, Accounts: c.Accounts, Groups: replayGroups(c.Groups)})
	}
	return len(all), first
}

func (d *detector) name(hash string) string {
	if n, ok := d.names[hash]; ok {
		return n
	}
	return hash
}
