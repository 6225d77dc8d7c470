package escalation

import (
	"slices"

	"github.com/guardd/guardd/keys"
)

// realmRules is a realm's policy, ready to be asked by many goroutines.
type realmRules struct {
	shards    int
	normalise keys.Normalisation
	familiar  bool
	quiet     bool // no events
	clear     bool // names are told
	lists     listTable
	origins   []string
	pow       powRules
	notices   map[string]bool
	flows     [flowCount]*flowRules // as in Flows
}

const flowCount = 4 // of Flows

// flowRules are the limits of one flow, compiled once for every kind of
// attempt.
type flowRules struct {
	kinds [kindCount]*keys.Rules // nil: nothing is counted; of what operators look at only
	flood *keys.Rules            // nil: no flood guard
	pace  keys.Pace
	gone  keys.Rung // the least while the shared store is gone
	// holdBreached is Breached.Verify.
	holdBreached bool
}

// kind is which tiers an attempt is counted by.
type kind byte

const (
	kindV6     kind = 1 << iota // IPv6: tier network
	kindListed                  // on the allow list: neither ip nor network
	kindDevice                  // shows a device: tier device
	// What operators look at: an address, or an account, alone.
	kindNobody  // no account: neither pair nor account nor device
	kindNowhere // no address: neither pair nor ip nor network
	kindCount
)

func kindOf(ip keys.Address, listed, device bool) (k kind) {
	if ip.Is6() {
		k |= kindV6
	}
	if listed {
		k |= kindListed
	}
	if device {
		k |= kindDevice
	}
	return k
}

// tierOf says how the tier of a row takes part.
func tierOf(l *Limit) (keys.Tier, keys.Role) {
	switch l.Tier {
	case "pair":
		return keys.TierPair, 0
	case "account":
		return keys.TierAccount, 0
	case "ip":
		return keys.TierIP, keys.SkipFamiliar | keys.ScaleIP
	case "network":
		return keys.TierNetwork, keys.SkipFamiliar | keys.ScaleNetwork
	case "global":
		return keys.TierGlobal, keys.SkipFamiliar | keys.ScalePosture
	case "flood":
		return keys.TierFlood, keys.ScaleIP
	}
	if l.Name == nameShared {
		return keys.TierDevices, keys.DeviceShared
	}
	return keys.TierDevice, keys.DeviceOwn
}

// compile makes the rules of a valid flow. What it still finds wrong is a
// fault of the flow as a whole.
func (f *Flow) compile(shards int, effects [4]keys.Effect, path string, faults *Faults) *flowRules {
	var tiers []keys.TierSpec
	for i := range f.Limits {
		l, on := f.row(i)
		if !on {
			continue
		}
		t, role := tierOf(&l)
		limit, err := l.limit()
		if err == nil && shared(l.Tier) && !limit.Zero() {
			limit, err = limit.Sub(int64(shards))
		}
		if err != nil {
			faults.Add(path, "%v", err)
			return nil
		}
		if n := len(tiers); n == 0 || tiers[n-1].Tier != t {
			tiers = append(tiers, keys.TierSpec{Tier: t, Role: role})
		}
		last := &tiers[len(tiers)-1]
		last.Limits = append(last.Limits, keys.LimitSpec{Name: l.Name, Limit: limit, Steps: l.steps()})
	}
	pace := keys.Pace{Base: f.Delay.Base.D.Microseconds(), Max: f.Delay.Max.D.Microseconds()}
	c := &flowRules{pace: pace, gone: storeGone[f.StoreGone], holdBreached: *f.Breached.Verify}
	for k := range c.kinds {
		looks := kind(k)&(kindNobody|kindNowhere) != 0
		if looks && !slices.ContainsFunc(tiers, func(t keys.TierSpec) bool { return kind(k).counts(t.Tier) }) {
			continue // an operator finds nothing to look at
		}
		c.kinds[k] = newRules(tiers, kind(k).counts, effects, pace, path, faults)
	}
	flooded := func(t keys.Tier) bool { return t == keys.TierFlood }
	if len(tiers) > 0 && tiers[len(tiers)-1].Tier == keys.TierFlood {
		c.flood = newRules(tiers, flooded, [4]keys.Effect{}, pace, path, faults)
	}
	return c
}

// counts reports whether attempts of kind k are counted by the tier.
func (k kind) counts(t keys.Tier) bool {
	switch t {
	case keys.TierPair:
		return k&(kindNobody|kindNowhere) == 0
	case keys.TierAccount:
		return k&kindNobody == 0
	case keys.TierIP:
		return k&(kindListed|kindNowhere) == 0
	case keys.TierNetwork:
		return k&(kindListed|kindNowhere) == 0 && k&kindV6 != 0
	case keys.TierDevice, keys.TierDevices:
		return k&kindDevice != 0 && k&kindNobody == 0
	case keys.TierFlood:
		return false
	}
	return true
}

func newRules(all []keys.TierSpec, in func(keys.Tier) bool, effects [4]keys.Effect, pace keys.Pace, path string, faults *Faults) *keys.Rules {
	var tiers []keys.TierSpec
	for _, t := range all {
		if in(t.Tier) {
			tiers = append(tiers, t)
		}
	}
	r, err := keys.NewRules(tiers, effects, pace)
	if err != nil {
		faults.Add(path, "%v", err)
	}
	return r
}
