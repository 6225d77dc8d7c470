package escalation

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/gaissmai/bart"

	"github.com/guardd/guardd/keys"
)

// listing is what the operator's lists say of an address.
type listing byte

const (
	unlisted listing = iota
	allowed
	denied
)

// String returns the list's name.
func (l listing) String() string { return [...]string{"", ListAllow, ListDeny}[l] }

// The names of the lists.
const (
	ListAllow = "allow"
	ListDeny  = "deny"
)

// MaxListed is how many entries each of a realm's lists holds beside those of
// the policy.
const MaxListed = 10_000

// listed is one entry in force.
type listed struct {
	ListEntry
	prefix  netip.Prefix
	policy  bool  // it stands in the policy; else an operator has set it since
	expires int64 // microseconds
}

// listedAt are the entries of one network.
type listedAt struct{ allow, deny *listed }

// at is the entry that holds at now. Deny wins a tie.
func (v listedAt) at(now int64) (listing, *listed) {
	if v.deny != nil && now < v.deny.expires {
		return denied, v.deny
	}
	if v.allow != nil && now < v.allow.expires {
		return allowed, v.allow
	}
	return unlisted, nil
}

// listTable finds the most specific entry that holds an address. It is not
// changed once it is in force.
type listTable struct{ table *bart.Table[listedAt] }

func (t listTable) lookup(a keys.Address, now int64) (listing, *listed) {
	v, ok := t.table.Lookup(a.Addr())
	if !ok {
		return unlisted, nil
	}
	if l, e := v.at(now); l != unlisted {
		return l, e
	}
	// The most specific has run out: the next one that has not.
	for _, v := range t.table.Supernets(netip.PrefixFrom(a.Addr(), a.Addr().BitLen())) {
		if l, e := v.at(now); l != unlisted {
			return l, e
		}
	}
	return unlisted, nil
}

// add puts entries into the table, beside what it has of the other list. Those
// that are no entries are faults.
func (t listTable) add(is listing, entries []ListEntry, policy bool, path string, faults *Faults) {
	seen := map[netip.Prefix]bool{}
	for i, e := range entries {
		p, err := ListedNetwork(e.CIDR, e.Force)
		if err == nil && seen[p] {
			err = fmt.Errorf("%s is listed twice", p)
		}
		if err != nil {
			faults.Add(fmt.Sprintf("%s.%s[%d].cidr", path, is, i), "%v", err)
			continue
		}
		seen[p] = true
		x := &listed{ListEntry: e, prefix: p, policy: policy, expires: math.MaxInt64}
		if !e.ExpiresAt.IsZero() {
			x.expires = e.ExpiresAt.UnixMicro()
		}
		t.table.Modify(p, func(v listedAt, _ bool) (listedAt, bool) {
			if is == denied {
				v.deny = later(v.deny, x)
			} else {
				v.allow = later(v.allow, x)
			}
			return v, false
		})
	}
}

// later is the one of two entries for the same network that holds longer.
func later(a, b *listed) *listed {
	if a != nil && a.expires >= b.expires {
		return a
	}
	return b
}

// compile checks the entries of a policy.
func (l *Lists) compile(path string, faults *Faults) listTable {
	t := listTable{&bart.Table[listedAt]{}}
	t.add(allowed, l.Allow, true, path, faults)
	t.add(denied, l.Deny, true, path, faults)
	return t
}

// with is the policy's table with what operators have listed since.
func (t listTable) with(l *Lists, path string, faults *Faults) listTable {
	t = listTable{t.table.Clone()}
	t.add(allowed, l.Allow, false, path, faults)
	t.add(denied, l.Deny, false, path, faults)
	return t
}

// SetLists has an operator's entries count in the realm beside those of the
// policy, from the next attempt on, in place of those set before. A realm that
// does not exist has them as soon as a reload brings it. Errors: Faults.
func (g *Guard) SetLists(realm string, l Lists) error {
	g.setting.Lock()
	defer g.setting.Unlock()
	faults := &Faults{}
	for name, entries := range map[string][]ListEntry{ListAllow: l.Allow, ListDeny: l.Deny} {
		if len(entries) > MaxListed {
			faults.Add("lists."+name, "holds %d entries, and %d are all it may", len(entries), MaxListed)
		}
	}
	if r := g.live.Load().realms[realm]; r != nil && len(*faults) == 0 {
		t := r.realmRules.lists.with(&l, "lists", faults)
		if len(*faults) == 0 {
			r.listed.Store(&t)
		}
	}
	if len(*faults) > 0 {
		return *faults
	}
	g.operators[realm] = l
	return nil
}

// ListedNetwork reads an entry's network, or one address, in canonical form: host
// bits, and half of the Internet without force, are refused, with what to do
// about it.
func ListedNetwork(cidr string, force bool) (netip.Prefix, error) {
	p, err := parseCIDR(cidr)
	if err == nil && catchAll(p) && !force {
		err = fmt.Errorf("%s is half of the Internet or more: say force: true beside it where that is meant", p)
	}
	return p, err
}

// catchAll reports whether p holds half of all addresses: a slip of a mask
// would deny every owner, or lift the address limits from every stranger. All
// of IPv6 that is in use is in 2000::/3.
func catchAll(p netip.Prefix) bool { return p.Bits() <= 1 || p.Addr().Is6() && p.Bits() <= 3 }

// parseCIDR reads a network, or one address, and makes it canonical as
// keys.Address is: an entry for v4-mapped or NAT64 addresses would otherwise
// never match anybody.
func parseCIDR(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, err2 := netip.ParseAddr(s)
		if err2 != nil || a.Zone() != "" {
			return p, fmt.Errorf("%q is not a network such as 203.0.113.0/24", s)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%s has bits beyond its length: say %s", p, p.Masked())
	}
	if a := keys.AddressOf(p.Addr()).Addr(); a.Is4() && p.Addr().Is6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("%s is wider than the IPv4 addresses in it", p)
		}
		p = netip.PrefixFrom(a, p.Bits()-96)
	}
	return p, nil
}
