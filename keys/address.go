package keys

import (
	"net/netip"
	"strings"
)

// Address is one client address, canonical by bits: v4-mapped and NAT64
// addresses are the IPv4 address inside them, and there is no zone. It is
// comparable.
type Address struct{ addr netip.Addr }

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ParseAddress reads an address as proxies and frameworks write it: bare, in
// brackets, with a port, with a zone. A list (X-Forwarded-For as it came), an
// empty value or a name is a Fault: guessing which of them is the client would
// let visitors choose their own counter.
func ParseAddress(s string) (Address, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return Address{}, FaultEmpty
	}
	if strings.ContainsAny(s, ",; \t\r\n") {
		return Address{}, FaultList
	}
	a, ok := parseHostPort(s)
	if !ok {
		return Address{}, FaultNotAddress
	}
	return AddressOf(a), nil
}

func parseHostPort(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a, true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr(), true
	}
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok := strings.CutSuffix(rest, "]"); ok {
			a, err := netip.ParseAddr(inner)
			return a, err == nil && a.Is6()
		}
	}
	return netip.Addr{}, false
}

// AddressOf makes an address canonical.
func AddressOf(a netip.Addr) Address {
	a = a.WithZone("").Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return Address{a}
}

// Addr returns the canonical address.
func (a Address) Addr() netip.Addr { return a.addr }

// Is6 reports whether the address is IPv6, and so has a network tier.
func (a Address) Is6() bool { return a.addr.Is6() }

// Counted is what tier "ip" counts by: the IPv4 address, or the IPv6 /64, in
// which one visitor has 2^64 addresses to choose from.
func (a Address) Counted() netip.Prefix { return a.prefix(32, 64) }

// Wide is the neighbourhood: IPv4 /24, IPv6 /48. Tier "network" counts by the
// latter; waits are bound to it, because phones move within it.
func (a Address) Wide() netip.Prefix { return a.prefix(24, 48) }

func (a Address) prefix(v4, v6 int) netip.Prefix {
	if a.addr.Is4() {
		v6 = v4
	}
	p, _ := a.addr.Prefix(v6) // the zero Address has the zero Prefix
	return p
}

// String returns the canonical text.
func (a Address) String() string { return a.addr.String() }
