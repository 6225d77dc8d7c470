package sim

import (
	"net/netip"
	"time"
)

// Login is one attempt of a scenario as a login handler meets it, for whoever
// puts it to something else than a guard in this process: a running guardd, say.
type Login struct {
	// After is when it happens: since the scenario's beginning.
	After   time.Duration
	Account string
	IP      netip.Addr
	// UserAgent is the browser's own words.
	UserAgent string
	// Tag stands for the password, as a handler's HMAC of it does. Breached: it is
	// known from a leak.
	Tag      string
	Breached bool
	// Right: the password is the account's. Unknown: there is no such account.
	Right, Unknown bool
	// Home: it comes from the browser that the account's owner uses, which sends
	// back what device token it was given last.
	Home bool
	// Attack: somebody who is not the owner makes it.
	Attack bool
}

// Play draws what Run would put to its guard, from the same seed, in the order in
// which it happens: Before, During and After, without what anybody does because
// of an answer. Policy and Learnt count for nothing.
func (s Scenario) Play(c Config) []Login {
	c.Static = true // nothing needs to be learnt
	c.defaults()
	w := &world{c: c}
	begin, end := w.times()
	q, _ := w.plan(s, begin, end)
	list := make([]Login, len(q.list))
	for i, l := range q.list {
		list[i] = Login{After: time.Duration(l.at-begin) * time.Microsecond, Account: l.account, IP: l.ip, UserAgent: l.agent,
			Tag: tagOf(l.password), Breached: l.breached, Right: l.right, Unknown: l.unknown, Home: l.device, Attack: l.attack}
	}
	return list
}
