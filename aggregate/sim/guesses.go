package sim

import (
	"fmt"
	"net/netip"
)

// guesses adds an attack's attempts from from to to, at a site of so many
// honest attempts a minute.
func guesses(q *queue, a *Attack, r random, p *people, honest float64, from, to int64) (victims []*person) {
	g := &guesser{a: a, r: r, people: p}
	for range a.victims() {
		victims = append(victims, p.any())
	}
	g.victims = victims
	for range a.sources() {
		g.pool = append(g.pool, g.rented())
	}
	for at := from; at < to; at += 10 * second {
		for range r.poisson(a.rate(honest, at-from) / 6) {
			g.guess(q, at+int64(r.Float64()*10*second))
		}
	}
	return victims
}

// guesser is an attacker at work.
type guesser struct {
	a       *Attack
	r       random
	people  *people
	victims []*person
	pool    []netip.Addr
	n       int // guesses so far
	own     int
}

// victims is at how many accounts it guesses; 0: at the next of a list.
func (a *Attack) victims() int {
	switch a.Name {
	case "hammer", "botnet-one-account", "interleaved-success", "hoarded-success":
		return 1
	case "lockout-attack":
		return LockoutAccounts
	}
	return 0
}

// sources is from how many addresses; 0: each guess from another.
func (a *Attack) sources() int {
	switch a.Name {
	case "hammer", "interleaved-success", "hoarded-success":
		return 1
	case "low-and-slow", "spray-common-password", "ipv6-rotation":
		return 0
	}
	return StuffingSources
}

// rented is an address that the attacker has for a while: of a network that
// the site knows, or of one that it does not.
func (g *guesser) rented() netip.Addr { return elsewhere(g.r, g.people.n, StuffingNewNetwork) }

func (g *guesser) guess(q *queue, at int64) {
	l := &login{at: at, attack: true, agent: agent(g.r, g.a.Mix.UA), breached: g.r.Float64() < g.a.Mix.Breached}
	switch {
	case g.a.Name == "ipv6-rotation":
		l.ip = netip.MustParseAddr(fmt.Sprintf("2001:db8:bad:%x::1", g.n&0xffff))
	case len(g.pool) == 0:
		l.ip = g.rented()
	default:
		l.ip = g.pool[g.r.IntN(len(g.pool))]
	}
	if g.n++; g.a.OwnEvery > 0 && g.n%g.a.OwnEvery == 0 {
		g.signIn(q, l)
	}
	g.target(l)
	q.add(l)
}

// target chooses account and password.
func (g *guesser) target(l *login) {
	l.password = wrong(g.r)
	if g.a.Name == "spray-common-password" {
		l.password = "Spring2026!"
	}
	if len(g.victims) > 0 {
		l.account = g.victims[g.n%len(g.victims)].name()
		return
	}
	if l.unknown = g.r.Float64() < g.a.Mix.Unknown; l.unknown {
		l.account = fmt.Sprintf("leaked%d", g.r.Int64())
		return
	}
	who := g.people.any()
	l.account = who.name()
	// Its share of all guesses, of those at accounts that exist.
	if l.right = g.r.Float64() < g.a.Success/(1-g.a.Mix.Unknown); l.right && g.a.Name != "spray-common-password" {
		l.password = who.password()
	}
}

// signIn is the attacker's own, right before the guess: to look honest, or to
// have what it costs given back.
func (g *guesser) signIn(q *queue, guess *login) {
	accounts := CanaryAccounts
	if g.a.victims() > 0 {
		accounts = 1
	}
	n := g.own % accounts
	g.own++
	q.add(&login{at: guess.at - 1, account: fmt.Sprintf("mallory%d", n), ip: guess.ip, agent: guess.agent,
		password: fmt.Sprintf("mallory%d", n), right: true, own: true, hoard: g.a.Name == "hoarded-success"})
}

// owners adds the sign-ins of those whose accounts are attacked: on their own
// device, and on a new one somewhere else.
func owners(q *queue, r random, p *people, victims []*person, from, to int64) {
	if len(victims) == 0 {
		return
	}
	const every = 30 * second
	for i, at := 0, from; at < to; i, at = i+1, at+every {
		who := victims[i/2%len(victims)]
		l := &login{at: at + int64(r.Float64()*every), account: who.name(), password: who.password(), right: true, who: who,
			agent: agentTexts["firefox"], device: i%2 == 0, victim: true, ip: who.home(p.offices())}
		if !l.device {
			l.ip, l.stranger = elsewhere(r, p.n, HonestNewNetwork), true
		}
		q.add(l)
	}
}
