package detect

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
)

// Attribution finds the few that most of the excess comes from, so that they
// are tightened and nobody else is.
type Attribution struct {
	sources *heavy[netip.Prefix]
	wides   *heavy[netip.Prefix]
	tags    *heavy[string]
	asns    *heavy[uint32]
	agents  *heavy[uint8]
	of      map[netip.Prefix]uint32 // providers of wides

	loose   float64 // failures that came from no suspect, as they weigh at looseAt
	looseAt int64
}

const (
	// groups is how many are few. Each is a record that every attempt's script
	// would have to find; an attack from more is everybody's business.
	groups = 8
	// mostOf is what they must make up of the excess, and groupLeast what each must
	// fail a minute: a few failures are anybody's.
	mostOf, groupLeast = 0.7, 3.0
	// kept is how many of each kind are weighed.
	kept = 4096
	// weighing is how long a failure weighs: as the excess that it is compared with.
	weighing = 2 * minute
)

// NewAttribution has seen nothing.
func NewAttribution() *Attribution {
	return &Attribution{newHeavy[netip.Prefix](kept, weighing), newHeavy[netip.Prefix](kept, weighing),
		newHeavy[string](kept, weighing), newHeavy[uint32](kept, weighing), newHeavy[uint8](Groups, weighing), map[netip.Prefix]uint32{}, 0, 0}
}

// See weighs a sight.
func (a *Attribution) See(s *Sight) {
	failed := s.Class.Failed()
	if !failed && s.Class != Success {
		return
	}
	a.sources.add(s.At, s.Source, failed, s.Account)
	a.wides.add(s.At, s.Wide, failed, s.Account)
	a.agents.add(s.At, s.UA, failed, s.Account)
	if s.Tag != "" {
		a.tags.add(s.At, s.Tag, failed, s.Account)
	}
	if s.ASN != 0 {
		a.asns.add(s.At, s.ASN, failed, s.Account)
		a.provider(s.Wide, s.ASN)
	}
}

// Untied says that the failure that was seen last came from no suspect.
func (a *Attribution) Untied(s *Sight) {
	a.fade(s.At)
	a.loose += math.Exp(float64(min(s.At-a.looseAt, 0)) / weighing)
	a.sources.untied(s.At, s.Source)
	a.wides.untied(s.At, s.Wide)
	if s.Tag != "" {
		a.tags.untied(s.At, s.Tag)
	}
}

func (a *Attribution) fade(at int64) {
	if at > a.looseAt {
		a.loose *= math.Exp(-float64(at-a.looseAt) / weighing)
		a.looseAt = at
	}
}

// Tie takes the failures of groups that are suspects now out of those that came
// from none.
func (a *Attribution) Tie(at int64, list []Group) {
	a.fade(at)
	for i := range list {
		switch g := &list[i]; g.Kind {
		case GroupSource:
			a.loose -= a.sources.tied(at, g.Prefix)
		case GroupNetwork:
			a.loose -= a.wides.tied(at, g.Prefix)
		case GroupTag:
			a.loose -= a.tags.tied(at, g.Key)
		}
	}
	a.loose = max(a.loose, 0)
}

// Loose is the failures a minute that came from no suspect.
func (a *Attribution) Loose(at int64) float64 {
	a.fade(at)
	return a.loose * minute / weighing
}

// provider remembers who announces a network, of those that are weighed.
func (a *Attribution) provider(wide netip.Prefix, asn uint32) {
	if a.of[wide] == asn || a.wides.at[wide] == nil {
		return
	}
	if len(a.of) >= 2*kept {
		maps.DeleteFunc(a.of, func(p netip.Prefix, _ uint32) bool { return a.wides.at[p] == nil })
	}
	a.of[wide] = asn
}

// GroupKind is what a group has in common.
type GroupKind string

// The kinds. The first three can be suspects, of an ASN its networks can; a
// user agent is only said.
const (
	GroupSource  GroupKind = "source"  // an IPv4 address or an IPv6 /64
	GroupNetwork GroupKind = "network" // a /24 or a /48
	GroupTag     GroupKind = "password"
	GroupASN     GroupKind = "asn"
	GroupUA      GroupKind = "user_agent"
)

// Group is one that makes up a part of an attack.
type Group struct {
	Kind    GroupKind
	Prefix  netip.Prefix // of a source or a network
	Key     string       // a password's tag, an ASN, the place of a class of user agent
	Minute  float64      // cold failures a minute beyond what its successes explain
	Account string       // one of those guessed at
}

// Few lists the groups, at most eight of one kind (and the networks of those that are
// providers), that make up most of so large an excess a minute; none when there are no
// such few. odds are what honest
// people fail for each success: an office is no attacker because many sign in there.
func (a *Attribution) Few(at int64, excess, odds float64) []Group {
	if excess <= 0 {
		return nil
	}
	least := max(groupLeast, excess*mostOf/groups/4)
	if g := few(a.sources.top(at, groups, least), excess, odds, ofPrefix(GroupSource)); g != nil {
		return g
	}
	if g := few(a.wides.top(at, groups, least), excess, odds, ofPrefix(GroupNetwork)); g != nil {
		return g
	}
	if g := few(a.tags.top(at, groups, least), excess, odds, func(k string) Group { return Group{Kind: GroupTag, Key: k} }); g != nil {
		return g
	}
	return a.ofProviders(at, excess, odds, least)
}

// networksMost is how many networks of providers can be suspects: half of all.
const networksMost = suspectsMost / 2

// ofProviders lists the providers that most of the excess comes from, and their
// networks that it comes from. No single network stands out where a hosting provider's
// hundreds are rented, and all of what the provider announces would be too many.
func (a *Attribution) ofProviders(at int64, excess, odds, least float64) []Group {
	all := few(a.asns.top(at, groups, least), excess, odds, ofProvider)
	if all == nil {
		return nil
	}
	theirs := func(r rate[netip.Prefix]) bool {
		n := a.of[r.key]
		return n != 0 && slices.ContainsFunc(all, func(g Group) bool { return g.Key == ofProvider(n).Key })
	}
	var top []rate[netip.Prefix]
	for _, r := range a.wides.top(at, kept, 0) {
		if theirs(r) && len(top) < networksMost {
			top = append(top, r)
		}
	}
	networks := few(top, excess, odds, ofPrefix(GroupNetwork))
	if networks == nil {
		return nil // they are from too many
	}
	return append(all, networks...)
}

// Common lists the provider and the class of user agent that most of the excess
// has in common, for operators: neither can be tightened by itself.
func (a *Attribution) Common(at int64, excess, odds float64) []Group {
	if excess <= 0 {
		return nil
	}
	one := few(a.asns.top(at, 1, 0), excess, odds, ofProvider)
	return append(one, few(a.agents.top(at, 1, 0), excess, odds, func(k uint8) Group { return Group{Kind: GroupUA, Key: strconv.Itoa(int(k))} })...)
}

func ofProvider(n uint32) Group { return Group{Kind: GroupASN, Key: strconv.FormatUint(uint64(n), 10)} }

func ofPrefix(kind GroupKind) func(netip.Prefix) Group {
	return func(p netip.Prefix) Group { return Group{Kind: kind, Prefix: p} }
}

func few[K comparable](top []rate[K], excess, odds float64, group func(K) Group) (list []Group) {
	sum := 0.0
	for _, r := range top {
		beyond := r.failed - odds*r.in
		if beyond <= 0 {
			continue
		}
		g := group(r.key)
		g.Minute, g.Account = beyond, r.account
		list = append(list, g)
		if sum += beyond; sum >= mostOf*excess {
			return list
		}
	}
	return nil
}
