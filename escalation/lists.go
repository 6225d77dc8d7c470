package escalation

import (
	"fmt"
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

// listTable finds the most specific entry that holds an address.
type listTable struct{ table *bart.Table[listing] }

func (t listTable) lookup(a keys.Address) listing {
	l, _ := t.table.Lookup(a.Addr())
	return l
}

// compile checks the entries. Deny is laid over allow, so it wins a tie.
func (l *Lists) compile(path string, faults *Faults) listTable {
	t := listTable{&bart.Table[listing]{}}
	for _, list := range []struct {
		name    string
		entries []ListEntry
		is      listing
	}{{"allow", l.Allow, allowed}, {"deny", l.Deny, denied}} {
		seen := map[netip.Prefix]bool{}
		for i, e := range list.entries {
			p, err := parseCIDR(e.CIDR)
			switch {
			case err != nil:
			case seen[p]:
				err = fmt.Errorf("%s is listed twice", p)
			case catchAll(p) && !e.Force:
				err = fmt.Errorf("%s is half of the Internet or more: say force: true beside it where that is meant", p)
			}
			if err != nil {
				faults.Add(fmt.Sprintf("%s.%s[%d].cidr", path, list.name, i), "%v", err)
				continue
			}
			seen[p] = true
			t.table.Insert(p, list.is)
		}
	}
	return t
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
