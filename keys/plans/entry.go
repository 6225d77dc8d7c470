package plans

import (
	"encoding/binary"
	"slices"

	"github.com/guardd/guardd/keys"
)

// entry is one row of evidence: a refusal, or the sum of a key's second at one
// instance under one version of the rules.
type entry struct {
	refusal  bool
	instance [8]byte
	serial   uint64 // of the instance: a row that was written twice is known by it
	first    int64  // Unix microseconds, by the clock of the decisions
	last     int64
	version  string
	route    string // of a refusal, as its reason and wait
	reason   string
	wait     int64 // microseconds

	allowed, refused, replayed, degraded, settled int64 // decisions
	cost                                          int64 // of those let through; of a refusal what was asked
	limits                                        []entryLimit
}

// entryLimit is one rule in an entry, under one set of numbers.
type entryLimit struct {
	rule     string
	limit    keys.Limit
	degraded bool
	// tokens were taken, less what settlements gave back; of a refusal what it
	// would have taken.
	tokens int64
	left   int64 // whole tokens, after the last
	// refused counts those that this rule decided; of a refusal 1: this rule has
	// not enough, 2: it decided.
	refused int64
}

// span takes at into the time of x. Decisions may be told out of order, but a
// second stays one.
func (x *entry) span(at int64) {
	if at/keys.Second == x.first/keys.Second {
		x.first = min(x.first, at)
	}
	x.last = max(x.last, at)
}

// limit finds or makes the line of a rule.
func (x *entry) limit(l *LimitState, degraded bool) *entryLimit {
	for i := range x.limits {
		if y := &x.limits[i]; y.rule == l.Rule && y.limit == l.Limit && y.degraded == degraded {
			return y
		}
	}
	x.limits = append(x.limits, entryLimit{rule: l.Rule, limit: l.Limit, degraded: degraded})
	return &x.limits[len(x.limits)-1]
}

const entryFormat = 1

func (x *entry) numbers() []*int64 {
	return []*int64{&x.first, &x.last, &x.wait, &x.allowed, &x.refused, &x.replayed, &x.degraded, &x.settled, &x.cost}
}

func (l *entryLimit) numbers() []*int64 {
	return []*int64{&l.limit.Capacity, &l.limit.Count, &l.limit.Period, &l.tokens, &l.left, &l.refused}
}

// encode packs x. As many rules as fit a row are in it: a key has seldom more than
// a few in a second.
func (x *entry) encode() []byte {
	b := append(make([]byte, 0, 128), entryFormat, flagOf(x.refusal))
	b = append(b, x.instance[:]...)
	b = binary.AppendUvarint(b, x.serial)
	for _, n := range x.numbers() {
		b = binary.AppendVarint(b, *n)
	}
	for _, s := range []string{x.version, x.route, x.reason} {
		b = appendText(b, s)
	}
	for i := range x.limits {
		l := &x.limits[i]
		was := len(b)
		b = append(appendText(b, l.rule), flagOf(l.degraded))
		for _, n := range l.numbers() {
			b = binary.AppendVarint(b, *n)
		}
		if len(b) > keys.MaxTrailData {
			return b[:was]
		}
	}
	return b
}

func flagOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodeEntry is the inverse of encode; ok is false for anything else.
func decodeEntry(b []byte) (x entry, ok bool) {
	if len(b) < 10 || b[0] != entryFormat {
		return x, false
	}
	x.refusal, x.instance = b[1] == 1, [8]byte(b[2:])
	r := reader{b: b[10:]}
	x.serial = uint64(r.number())
	for _, n := range x.numbers() {
		*n = r.signed()
	}
	x.version, x.route, x.reason = r.text(), r.text(), r.text()
	for len(r.b) > 0 && !r.bad {
		l := entryLimit{rule: r.text(), degraded: r.flag()}
		for _, n := range l.numbers() {
			*n = r.signed()
		}
		r.bad = r.bad || l.limit.Period <= 0 || l.limit.Count < 0
		x.limits = append(x.limits, l)
	}
	return x, !r.bad
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) flag() bool {
	if len(r.b) == 0 {
		r.bad = true
		return false
	}
	v := r.b[0] == 1
	r.b = r.b[1:]
	return v
}

// entries reads rows: each once, in the order of time.
func entries(rows []keys.TrailRow) (all []entry) {
	type id struct {
		instance [8]byte
		serial   uint64
	}
	seen := map[id]bool{}
	for _, r := range rows {
		x, ok := decodeEntry(r.Data)
		if !ok || seen[id{x.instance, x.serial}] {
			continue
		}
		seen[id{x.instance, x.serial}] = true
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		if a.first != b.first {
			return int(a.first - b.first)
		}
		return int(a.last - b.last)
	})
	return all
}
