package aggregate

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// The bounds of what a classer remembers, each of two generations.
const (
	successesKept = 3 << 16 // accounts in an hour: 2 MiB
	askedKept     = 3 << 15 // visitors who were asked and have not solved it
	pendingKept   = 3 << 15 // attempts whose second factor is waited for
	tagsKept      = 1 << 14 // passwords' tags of the day before
)

// classer says of each event what it counts as (detect.Class). It sees the
// events of one realm, each once, roughly in order of time.
type classer struct {
	successes aging // account and hour
	asked     aging // account and network: how often
	pending   aging // attempt
	// yesterdays are the tags under the key of the day before, by those of today: an
	// outcome comes without it. Without them each midnight every password would be
	// one that nobody has ever tried, popular ones included. Two halves, as sealedNames.
	yesterdays, yesterdaysBefore map[string]string
}

func newClasser() *classer {
	return &classer{
		successes: newAging(3600*keys.Second, successesKept),
		asked:     newAging(askedLife, askedKept),
		pending:   newAging(keys.AttemptLifetime, pendingKept),
	}
}

// askedLife is how long a challenge that was asked for can be solved: it lives 10
// minutes, and so does the proof.
const askedLife = 20 * 60 * keys.Second

// classed is an event as it is counted.
type classed struct {
	sight    detect.Sight
	counts   bool // sight is one at all
	seen     bool // the Watch is to see it, though it counts as nothing
	solved   int  // refusals of before that a proof has made good
	taken    int  // 1: it took a token of the global tier
	given    int  // 1: its attempt's token was given back
	notCheck int  // 1: no password was compared
}

// login is the flow that is classed. In others it is not passwords that are
// guessed, and what is honest there follows no common baseline.
const login = "login"

// class says what e counts as. account is accountHash of it, ip its address.
func (c *classer) class(e *Event, at int64, account uint64, ip keys.Address) (out classed) {
	if e.Flow != login || e.Duplicate || e.Expired {
		return out
	}
	stranger := !e.KnownDevice && !e.Familiar
	out.sight = detect.Sight{At: at, Account: e.Account, Source: ip.Counted(), Wide: ip.Wide(), UA: uaOf(e.UAClass),
		Tag: e.Tag, TagBefore: c.yesterday(e), Stranger: stranger, Breached: e.Breached}
	if e.Kind == KindAttempt {
		c.attempt(e, &out, at, account, stranger)
	} else {
		c.outcome(e, &out, at, account, stranger)
	}
	return out
}

// yesterday is the tag of e's password under the key of the day before; "" where
// that is not known.
func (c *classer) yesterday(e *Event) string {
	if e.Tag == "" || e.TagPrev == "" {
		return cmp.Or(c.yesterdays[e.Tag], c.yesterdaysBefore[e.Tag])
	}
	if _, known := c.yesterdays[e.Tag]; !known {
		if c.yesterdays == nil || len(c.yesterdays) >= tagsKept {
			c.yesterdaysBefore, c.yesterdays = c.yesterdays, map[string]string{}
		}
		c.yesterdays[e.Tag] = e.TagPrev
	}
	return e.TagPrev
}

func (c *classer) attempt(e *Event, out *classed, at int64, account uint64, stranger bool) {
	visitor := fingerprint(account, networkOf(out.sight.Wide))
	switch e.Action {
	case string(escalation.ActionAllow):
		if stranger && !e.Repeat {
			out.taken = 1
		}
		if e.Proof != "" {
			out.solved = int(c.asked.forget(at, visitor))
		}
	case string(escalation.ActionDeny):
		// An operator has dealt with it: whatever else comes from there is no reason
		// to be strict with others.
	default:
		switch {
		case e.Repeat:
			// An application that has an old password, and asks on and on whatever it
			// is told: no guess, and nobody who will solve anything.
			out.counts, out.sight.Class = true, detect.Repeat
		case stranger:
			out.counts, out.sight.Class = true, detect.Unsolved
			c.asked.add(at, visitor)
		default:
			// Somebody at the owner's own place goes on and on: no statistic's, but worth
			// a look.
			out.seen, out.sight.Class = true, detect.Warm
		}
	}
}

func (c *classer) outcome(e *Event, out *classed, at int64, account uint64, stranger bool) {
	o, _ := keys.ParseOutcome(e.Outcome)
	attempt := fingerprint(hashOf(e.Attempt))
	followed := c.pending.get(at, attempt) > 0
	if o.GivesBack() && stranger && !followed && !e.Repeat {
		out.given = 1
	}
	switch o {
	case keys.Success:
		out.sight.Class = detect.Success
		out.counts = !c.signedIn(at, account)
	case keys.SecondFactorPending:
		c.pending.add(at, attempt)
	case keys.Failure, keys.UnknownAccount, keys.Abandoned:
		if followed { // the password was right, what came after it was not
			return
		}
		out.counts, out.sight.Unknown = true, o == keys.UnknownAccount
		out.sight.Class = detect.Cold
		if !stranger {
			out.sight.Class = detect.Warm
		}
		if e.Repeat {
			out.sight.Class = detect.Repeat
		}
	case keys.NotChecked:
		out.notCheck = 1
	}
}

// signedIn reports whether the account has in this hour. Each account's hours
// begin at a time of its own: with the clock's, all that sign in again and again
// would be counted in its first seconds.
func (c *classer) signedIn(at int64, account uint64) bool {
	const hour = 3600 * keys.Second
	own := (at + int64(account%uint64(hour))) / hour
	return c.successes.add(at, fingerprint(account, uint64(own))) > 0
}

func networkOf(p netip.Prefix) uint64 {
	b := p.Addr().As16()
	return fingerprint(binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]))
}

// accountHash is the first half of an account's hash, or one of whatever else
// stands there.
func accountHash(s string) uint64 {
	if a, ok := keys.ParseAccount(s); ok {
		return binary.LittleEndian.Uint64(a[:])
	}
	return hashOf(s)
}

func hashOf(s string) uint64 {
	h := uint64(len(s))
	var b [8]byte
	for len(s) > 0 {
		clear(b[:])
		s = s[copy(b[:], s):]
		h = fingerprint(h, binary.LittleEndian.Uint64(b[:]))
	}
	return h
}

// uaOf is a class's place in escalation.UAClasses; one that is not there counts
// as the last, "other".
func uaOf(class string) uint8 {
	i := slices.Index(escalation.UAClasses, class)
	if i < 0 {
		i = len(escalation.UAClasses) - 1
	}
	return uint8(i)
}
