package soc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// Tracker decides which findings are told: of a campaign one record when it opens,
// one for each change that matters and one when it closes, and of a moment one.
// What came before is known by what it says, so a message that comes again, or out
// of a log that is read again, makes none. It reads no clock: time is an argument.
// Not safe for concurrent use.
type Tracker struct {
	filter Filter
	// Beyond so many records in a minute findings are held back; 0: none is. A
	// campaign that is held back is told when there is room and it still goes on.
	perMinute int

	campaigns map[string]*campaign
	tat       time.Time // of the cap, a GCRA: when the bucket is full again
	held      map[string]int
	since     time.Time // the first of held
	heldEver  uint64
}

// campaign is what was told of one. What is over is remembered, too, for as long as
// there is room.
type campaign struct {
	told, held, over bool
	last             time.Time // the latest state that was looked at
	digest           string    // as it was told
	seen             time.Time // when, by the reader's clock
}

// campaignsKept bounds what is remembered, some 300 bytes each. An eighth, that
// heard of longest ago, makes room: what of it goes on is told as new.
const campaignsKept = 16384

// NewTracker knows of nothing yet.
func NewTracker(f Filter, perMinute int) *Tracker {
	return &Tracker{filter: f, perMinute: perMinute, campaigns: map[string]*campaign{}, held: map[string]int{}}
}

func keyOf(f *aggregate.Finding) string { return f.Realm + "\x00" + f.ID }

// Take returns the record that f makes at now, or nil.
func (t *Tracker) Take(f *aggregate.Finding, now time.Time) *Record {
	c, known := t.campaigns[keyOf(f)]
	if !known {
		c = &campaign{}
		t.room()
		t.campaigns[keyOf(f)] = c
	}
	c.seen = now
	at := last(f)
	if c.over || known && at.Before(c.last) {
		return nil // from before what is known
	}
	c.last = at
	r := OfFinding(f, c.change(f, known))
	switch {
	case r.Change == Closed || r.Change == Once:
		c.over = true
		if known && !c.told { // nobody knows that it was open
			return nil
		}
	case c.told && c.digest == digest(f):
		return nil
	}
	if !t.filter.passes(r) && !(r.Change == Closed && c.told) {
		return nil
	}
	// What was opened is closed, whatever the cap: there are no more of these.
	if r.Change != Closed && !t.take(now) {
		t.hold(c, f.What, now)
		return nil
	}
	c.told, c.digest = true, digest(f)
	return r
}

func (c *campaign) change(f *aggregate.Finding, known bool) Change {
	switch {
	case f.State == "once":
		return Once
	case f.State == "closed":
		return Closed
	case c.told:
		return Updated
	}
	return Opened
}

// take has room in the cap: perMinute at once, one more each perMinute'th of a minute.
func (t *Tracker) take(now time.Time) bool {
	if t.perMinute <= 0 {
		return true
	}
	tat := t.tat
	if tat.Before(now) {
		tat = now
	}
	tat = tat.Add(time.Minute / time.Duration(t.perMinute))
	if tat.Sub(now) > time.Minute {
		return false
	}
	t.tat = tat
	return true
}

// hold counts a campaign once: what it would have been told of it is told when there
// is room.
func (t *Tracker) hold(c *campaign, what string, now time.Time) {
	if c.held || c.told {
		return
	}
	if len(t.held) == 0 {
		t.since = now
	}
	c.held = true
	t.held[what]++
	t.heldEver++
}

// Due returns the record that tells how many were held back, once there is room
// for it and a minute has passed since the first; else nil.
func (t *Tracker) Due(now time.Time) *Record {
	if len(t.held) == 0 || now.Sub(t.since) < time.Minute || !t.take(now) {
		return nil
	}
	r := heldBack(t.held, t.since, now)
	t.held = map[string]int{}
	return r
}

// HeldBack is how many findings were held back until now, those included that were
// told later.
func (t *Tracker) HeldBack() uint64 { return t.heldEver }

func (t *Tracker) room() {
	if len(t.campaigns) < campaignsKept {
		return
	}
	keys := slices.SortedFunc(maps.Keys(t.campaigns), func(a, b string) int {
		return cmp.Or(t.campaigns[a].seen.Compare(t.campaigns[b].seen), strings.Compare(a, b))
	})
	for _, k := range keys[:campaignsKept/8] {
		delete(t.campaigns, k)
	}
}

// heldBack is the record that tells how many findings were held back, by kind.
func heldBack(kinds map[string]int, from, until time.Time) *Record {
	n, list := 0, []string{}
	for _, what := range slices.Sorted(maps.Keys(kinds)) {
		n += kinds[what]
		list = append(list, fmt.Sprintf("%d %s", kinds[what], what))
	}
	return OfFinding(&aggregate.Finding{V: aggregate.FindingVersion, ID: fmt.Sprintf("%s-%d", HeldBack, from.UnixMicro()), What: HeldBack, State: "once",
		Start: from.UTC(), Last: until.UTC(), Reason: fmt.Sprintf("%d findings were beyond what is told in a minute: %s", n, strings.Join(list, ", "))}, Once)
}

// tells reports that somebody was told of a campaign, and not that it is over.
func (t *Tracker) tells(key string) bool {
	c := t.campaigns[key]
	return c != nil && c.told && !c.over
}
