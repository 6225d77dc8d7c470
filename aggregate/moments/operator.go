package moments

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation/operate"
)

// groups is how many of the networks of a record are named; how many there are is
// said in any case.
const groups = 20

// operatorAction is a record of the journal as a finding. Its id has the time, too:
// a store that was lost numbers anew.
func operatorAction(r *operate.Record) aggregate.Finding {
	f := aggregate.Finding{V: aggregate.FindingVersion, Realm: r.Realm, What: aggregate.OperatorAction, State: aggregate.FindingOnce,
		ID:    aggregate.OperatorAction + "-" + strconv.FormatInt(r.Seq, 10) + "-" + strconv.FormatInt(r.At.UnixMicro(), 36),
		Start: r.At.UTC(), Last: r.At.UTC(), Reason: r.Reason, By: r.By, Action: r.Action, Was: r.Was, Is: r.Is}
	if r.Changed {
		f.Done = []aggregate.FindingAction{{Time: r.At.UTC(), What: done(r)}}
	}
	if t := r.Target; t != nil {
		if t.Account != "" {
			f.Samples, f.Accounts = []string{t.Account}, 1
		}
		f.Groups = append(groupsOf("source", t.IP), groupsOf("network", t.Network)...)
	}
	for _, cidr := range r.CIDRs[:min(len(r.CIDRs), groups)] {
		f.Groups = append(f.Groups, groupsOf("network", cidr)...)
	}
	return f
}

// groupsOf names an address or a network as campaigns do: an address is the prefix
// that it is counted by.
func groupsOf(kind, where string) []aggregate.FindingGroup {
	if where == "" {
		return nil
	}
	if a, err := netip.ParseAddr(where); err == nil {
		where = netip.PrefixFrom(a, a.BitLen()).String()
	}
	return []aggregate.FindingGroup{{Kind: kind, Key: where}}
}

// done says in words what a record has changed.
func done(r *operate.Record) string {
	s := r.Action
	if r.List != "" {
		s += fmt.Sprintf(" on %s, networks: %d", r.List, r.Networks)
	}
	switch {
	case r.Is == r.Was:
	case r.Was == "":
		s += ": " + r.Is
	default:
		s += ": " + r.Was + " -> " + r.Is
	}
	return s
}
