package keys

import "strings"

// wire is the form of Rules that scripts read: one string of little-endian
// doubles, and the struct.unpack format that reads it in one call. A script
// unpacks it into one table and uses that as its working memory too (a Lua
// table that grows costs more than all the arithmetic of a decision), so some
// slots are sent only to be written there. redisstore/bucket.lua has the map.
type wire struct{ format, data string }

// wireHead is the number of slots before the first tier.
const wireHead = 16

// Thresholds already in units, for the scripts.
const (
	wireNever = -1
	wireEmpty = -2 // less than what the attempt needs
)

func packRules(r *Rules) wire {
	head := make([]int64, wireHead)
	head[0], head[1], head[2] = int64(r.shape), int64(len(r.tiers)), int64(r.limits)
	head[3], head[4] = r.pace.Base, r.pace.Max
	for i, e := range r.effects {
		head[5+i] = int64(e.Floor) + 8*e.Divisor
		if e.Uncounted {
			head[5+i] += 4
		}
	}
	head[14], head[15] = 1, 1 // k, until a mark says more
	n := head
	for _, t := range r.tiers {
		n = append(n, int64(t.Role), int64(len(t.Limits)), 0, 0, 0, 0)
		for _, l := range t.Limits {
			n = append(n, int64(l.id), l.Capacity, l.Count, l.Period, l.Units(),
				l.Delay.wire(l.Limit), l.Captcha.wire(l.Limit), l.Verify.wire(l.Limit),
				int64(l.Delay), int64(l.Captcha), int64(l.Verify))
		}
	}
	n = append(n, make([]int64, 2*r.limits)...) // each limit's result
	return wire{"<" + strings.Repeat("d", len(n)), string(doubles(n...))}
}

func (t Threshold) wire(l Limit) int64 {
	if t == Empty {
		return wireEmpty
	}
	return t.Units(l, 0) // Never is wireNever
}

// Wire returns the rules as scripts read them: a format of Lua's struct
// library and the string it unpacks. Both are empty for rules of a share
// (WithShare), which are for a twin only.
func (r *Rules) Wire() (format, data string) {
	if r.share > 1 {
		return "", ""
	}
	return r.wire.format, r.wire.data
}
