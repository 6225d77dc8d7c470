package detect

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// keptState is what a successor of a Detector needs so that it changes nothing by
// itself: what was learnt, the level with its times, suspects, and the campaigns
// that go on. What was seen comes in Parts.
type keptState struct {
	V         int
	At        int64  // end of the last bin
	Seed      uint64 // of what is seen: its parts mean nothing under another
	Watch     []byte
	Level     Level
	Since     int64
	Sign      int64
	Hold      int64
	Left      int64
	Peak      float64
	Stepped   bool
	Confirmed bool
	Suspects  []keptSuspect
	Tags      map[string]int64
	Campaigns map[string]*Campaign
}

type keptSuspect struct {
	Prefix string
	Until  int64
}

// Save returns all that a successor needs.
func (d *Detector) Save() []byte {
	c := &d.Control
	s := keptState{V: savedVersion, At: d.last, Seed: d.seed, Watch: d.Watch.Save(), Level: c.level, Since: c.since, Sign: c.sign, Hold: c.hold,
		Left: c.left, Peak: c.peak, Stepped: c.stepped, Confirmed: c.confirmed, Tags: d.tags, Campaigns: d.Campaigns.open}
	for p, until := range d.suspects {
		s.Suspects = append(s.Suspects, keptSuspect{p.String(), until})
	}
	slices.SortFunc(s.Suspects, func(a, b keptSuspect) int { return strings.Compare(a.Prefix, b.Prefix) })
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(s); err != nil {
		panic(err) // of plain values only, into memory
	}
	return out.Bytes()
}

// maxState is more than Save ever makes.
const maxState = 8 << 20

// Restore makes the successor of the Detector whose Save data is, which Recalls its
// parts. seed is used where data has none. The error says why data is no such thing;
// begin with New then.
func Restore(seed uint64, data []byte) (*Detector, error) {
	if len(data) > maxState {
		return nil, fmt.Errorf("%d bytes are more than a detector's state has", len(data))
	}
	var s keptState
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return nil, fmt.Errorf("not a detector's state: %w", err)
	}
	if s.V != savedVersion || s.Level > Critical {
		return nil, fmt.Errorf("a detector's state of version %d, and this program knows %d", s.V, savedVersion)
	}
	if s.Seed != 0 {
		seed = s.Seed
	}
	d := New(seed)
	var err error
	if d.Watch, err = Load(s.Watch); err != nil {
		return nil, err
	}
	d.Control = Control{level: s.Level, since: s.Since, sign: s.Sign, hold: s.Hold, left: s.Left, peak: sane(s.Peak), stepped: s.Stepped, confirmed: s.Confirmed}
	d.last = max(s.At, s.Since, s.Sign)
	for _, k := range s.Suspects {
		p, err := netip.ParsePrefix(k.Prefix)
		if err != nil {
			return nil, fmt.Errorf("a detector's state with suspect %q", k.Prefix)
		}
		d.suspects[p] = k.Until
	}
	maps.Copy(d.tags, s.Tags)
	for key, c := range s.Campaigns {
		if c != nil && ends[c.What] > 0 {
			c.counted = c.Last
			d.Campaigns.open[key] = c
		}
	}
	return d, nil
}
