package keys

import (
	"fmt"
	"strings"
)

// wire is the form of Rules that scripts read: a packed string, and the format
// of Lua's struct library that unpacks most of it in one call. A script uses the
// table that it unpacks as its working memory too (a Lua table that grows costs
// more than all the arithmetic of a decision), so some slots are sent as zero to
// be written there. redisstore/settle.lua has the map.
//
// Each number takes as few bytes as it needs: Redis hashes every byte of a
// script's arguments.
type wire struct {
	format, data string
	slots        []int64
}

// Thresholds in units, for the scripts.
const (
	wireNever = -1
	wireEmpty = -2 // less than what the attempt needs
)

func packRules(r *Rules) wire {
	var w wireWriter
	w.add(int64(r.shape), int64(len(r.tiers)), int64(r.limits), r.pace.Base, r.pace.Max)
	for _, e := range r.effects {
		uncounted := int64(0)
		if e.Uncounted {
			uncounted = 4
		}
		w.add(int64(e.Floor) + uncounted + 8*e.Divisor)
	}
	var thresholds wireWriter
	for _, t := range r.tiers {
		w.add(int64(t.Role), int64(len(t.Limits)), 0, 0, 0, 0, 0)
		for _, l := range t.Limits {
			w.add(int64(l.id), l.Count, l.Period, l.Units(),
				l.Delay.wire(l.Limit), l.Captcha.wire(l.Limit), l.Verify.wire(l.Limit))
			for _, s := range []Threshold{l.Delay, l.Captcha, l.Verify} {
				thresholds.data = append(thresholds.data, byte(s), byte(s>>8))
			}
		}
	}
	w.add(make([]int64, 2*r.limits)...) // each limit's result
	return wire{"<" + w.format.String(), string(append(w.data, thresholds.data...)), w.slots}
}

func (t Threshold) wire(l Limit) int64 {
	if t == Empty {
		return wireEmpty
	}
	return t.Units(l, 0) // Never is wireNever
}

type wireWriter struct {
	format strings.Builder
	data   []byte
	slots  []int64
}

func (w *wireWriter) add(n ...int64) {
	w.slots = append(w.slots, n...)
	for _, v := range n {
		size := 1
		for u := v >> 8; u > 0; u >>= 8 {
			size++
		}
		switch {
		case v < 0: // wireNever, wireEmpty
			w.format.WriteByte('b')
		case size == 1:
			w.format.WriteByte('B')
		case size == 2:
			w.format.WriteByte('H')
		default:
			fmt.Fprintf(&w.format, "I%d", size)
		}
		for range size {
			w.data = append(w.data, byte(v))
			v >>= 8
		}
	}
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

// WireTable returns what Wire packs as it is: the slots of the table, and the
// thresholds, three a limit. For rules of a share there is none. The caller must
// not change them.
func (r *Rules) WireTable() (slots []int64, thresholds []Threshold) {
	if r.share > 1 {
		return nil, nil
	}
	for _, t := range r.tiers {
		for _, l := range t.Limits {
			thresholds = append(thresholds, l.Delay, l.Captcha, l.Verify)
		}
	}
	return r.wire.slots, thresholds
}
