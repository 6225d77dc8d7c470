package sim

import "net/netip"

// happen adds what a case makes people do beside what they do anyway.
func happen(q *queue, s Span, r random, p *people) {
	switch s.Case {
	case OfficeAtNine: // moved to a new address
		comeIn(q, r, p, s, OfficePeople, []netip.Addr{netip.MustParseAddr("10.250.1.1")}, 0)
	case CarrierNAT: // phones behind a few addresses
		var nat []netip.Addr
		for i := range CarrierAddresses {
			nat = append(nat, netip.AddrFrom4([4]byte{10, 251, byte(i), 1}))
		}
		comeIn(q, r, p, s, int(CarrierShare*p.perDay), nat, CarrierKnown)
	case StaleApp:
		stale(q, r, p, s, int(float64(p.n)*StaleApps*(s.Factor-1)))
	}
}

// comeIn has so many people sign in once from these addresses, that share of
// them on devices of their own that are known.
func comeIn(q *queue, r random, p *people, s Span, n int, from []netip.Addr, known float64) {
	for range n {
		who := p.any()
		at := s.From + int64(r.Float64()*float64(s.To-s.From))
		l := login{at: at, account: who.name(), who: who, password: who.password(), right: true,
			agent: agent(r, HonestUA), ip: from[r.IntN(len(from))]}
		if known == 0 {
			known = 1 - NewDevices
		}
		if l.device = r.Float64() < known; !l.device {
			l.stranger = true
		}
		if r.Float64() < chance(failOdds) {
			bad := l
			bad.password, bad.right = wrong(r), false
			q.add(&bad)
			l.at += int64(r.between(soon, late) * second)
		}
		q.add(&l)
	}
}

// stale has n applications go on with an old password, at their owners' homes.
func stale(q *queue, r random, p *people, s Span, n int) {
	for range n {
		who := p.any()
		for at := s.From + int64(r.Float64()*StaleEvery*minute); at < s.To; at += StaleEvery * minute {
			q.add(&login{at: at, account: who.name(), who: who, password: "old" + who.password(), agent: agentTexts["app"],
				ip: who.home(p.offices()), app: true})
		}
	}
}
