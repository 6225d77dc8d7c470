package hook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// A webhook's URL is configuration, but the name in it is resolved anew on every
// dial, by whoever runs that name's DNS. So the address is judged when it is
// dialled: a name that points elsewhere by then (rebinding) gains nothing.

// notPublic are the IPv4 networks that a public service is not in: this host,
// private use, carriers' NAT (one cloud's metadata service is in it), loopback,
// link-local (all others'), protocol assignments, documentation, benchmarks,
// multicast and reserved. From IANA's special-purpose registry.
var notPublic = networks("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")

// Of IPv6 only global unicast is public, less what is set aside or holds
// someone else's IPv4 address: Teredo and protocol assignments, documentation,
// 6to4.
var (
	global6    = netip.MustParsePrefix("2000::/3")
	notPublic6 = networks("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
)

func networks(cidrs ...string) (all []netip.Prefix) {
	for _, s := range cidrs {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

func public(a netip.Addr) bool {
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is4() {
		return !within(a, notPublic)
	}
	return global6.Contains(a) && !within(a, notPublic6)
}

// refusedError says that an address may not be dialled.
type refusedError struct{ addr, why string }

func (e *refusedError) Error() string { return e.addr + " is not dialled: " + e.why }

// Refused tells whether err is of an address that a Gate does not let through.
func Refused(err error) bool {
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

// Gate decides which addresses may be dialled. Its zero value lets public ones
// through.
type Gate struct {
	Allow []netip.Prefix // besides public ones
	Plain bool           // without TLS: only what is allowed by name
}

// Control is a net.Dialer's: it sees the address after DNS.
func (g Gate) Control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedError{address, fmt.Sprint("not an address: ", err)}
	}
	a := ap.Addr().Unmap().WithZone("")
	switch {
	case within(a, g.Allow):
		return nil
	case g.Plain:
		return &refusedError{a.String(), "http is only spoken within allow_networks"}
	case !public(a):
		return &refusedError{a.String(), "not a public address, and not within allow_networks"}
	}
	return nil
}
