package detect

import (
	"net/netip"
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
		newHeavy[string](kept, weighing), newHeavy[uint32](kept, weighing), newHeavy[uint8](Groups, weighing)}
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
	}
}

// GroupKind is what a group has in common.
type GroupKind string

// The kinds. The first three can be suspects; the others are only said.
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

// Few lists the groups, at most eight of one kind, that make up most of so large
// an excess a minute; none when there are no such few. odds are what honest
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
	return few(a.tags.top(at, groups, least), excess, odds, func(k string) Group { return Group{Kind: GroupTag, Key: k} })
}

// Common lists the provider and the class of user agent that most of the excess
// has in common, for operators: neither can be tightened by itself.
func (a *Attribution) Common(at int64, excess, odds float64) []Group {
	if excess <= 0 {
		return nil
	}
	one := few(a.asns.top(at, 1, 0), excess, odds, func(k uint32) Group { return Group{Kind: GroupASN, Key: strconv.Itoa(int(k))} })
	return append(one, few(a.agents.top(at, 1, 0), excess, odds, func(k uint8) Group { return Group{Kind: GroupUA, Key: strconv.Itoa(int(k))} })...)
}

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
