package aggregate

import (
	"maps"
	"math"
	"net/netip"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

const (
	// beat is how often what is in force is set again, in microseconds: it lapses
	// by itself a quarter of an hour after the last time.
	beat     = 30 * keys.Second
	lapse    = 15 * 60 * keys.Second
	baseline = 60 * keys.Second // the period of the global tier's refill
)

// FindingEvery is how often a campaign that goes on is published, in
// microseconds: each guess changes it.
const FindingEvery = 60 * keys.Second

// DetectionConfig is how a realm is watched.
type DetectionConfig struct {
	Realm string
	// Seed is a secret of the process: visitors choose what is hashed with it.
	Seed uint64
	// DryRun publishes what is found and sets nothing.
	DryRun bool
	// Found, when set, is told of every campaign that changed, as it is then.
	Found func(*detect.Campaign)
}

// Detection is the Watch that detects (package detect): it turns what was found
// into postures, suspects, the global tier's size, and findings.
type Detection struct {
	c DetectionConfig
	d *detect.Detector

	size keys.Limit
	set  keys.Control // the last one
	told map[string]int64

	tally tally
}

// NewDetection goes on from state, a predecessor's State; nil begins anew. The
// error says what is wrong with state; then it begins anew, too.
func NewDetection(c DetectionConfig, state []byte) (*Detection, error) {
	w := &Detection{c: c, told: map[string]int64{}, tally: newTally()}
	var err error
	if state != nil {
		w.d, err = detect.Restore(c.Seed, state)
	}
	if w.d == nil {
		w.d = detect.New(c.Seed)
	}
	for _, k := range w.d.Campaigns.Open(math.MaxInt) { // they were told when they were opened
		w.told[k.ID], w.tally.open[k.ID] = 0, k.What
	}
	return w, err
}

// Watching is a Detection with a detector that knows something already.
func Watching(c DetectionConfig, d *detect.Detector) *Detection {
	return &Detection{c: c, d: d, told: map[string]int64{}, tally: newTally()}
}

// Detector is what detects.
func (w *Detection) Detector() *detect.Detector { return w.d }

// See is Watch's.
func (w *Detection) See(s *detect.Sight) { w.d.See(s) }

// Open is Watch's.
func (w *Detection) Open(most int) (list []Finding) {
	for _, c := range w.d.Campaigns.Open(most) {
		f := findingOf(w.c.Realm, &c)
		f.Learning, f.DryRun = w.tally.is.Learning, w.c.DryRun
		list = append(list, f)
	}
	return list
}

// State is Watch's.
func (w *Detection) State() []byte { return w.d.Save() }

// Parts, Part and Recall are Rememberer's.
func (w *Detection) Parts() int { return detect.Parts }

// Part is Rememberer's.
func (w *Detection) Part(i int) []byte { return w.d.Part(i) }

// Recall is Rememberer's.
func (w *Detection) Recall(i int, part []byte) error { return w.d.Recall(i, part) }

// Bin is Watch's.
func (w *Detection) Bin(b *detect.Bin) Act {
	r := w.d.Step(b)
	w.tally.bin(&r)
	if r.Size != nil {
		w.size = keys.Limit{Capacity: r.Size.Capacity, Count: r.Size.PerMinute, Period: baseline}
	}
	a := Act{Findings: w.findings(r.Campaigns, &r)}
	if !w.c.DryRun {
		a.Control = w.control(&r)
	}
	return a
}

// control is what is to be set now; nil where that is in force, and is for a while.
func (w *Detection) control(r *detect.Result) *keys.Control {
	at := r.Reading.At
	c := keys.Control{Epoch: at, Learning: r.Reading.Learning, Posture: keys.Posture(r.Level), Baseline: w.size, Suspects: map[netip.Prefix]int64{}, Tags: map[string]int64{}}
	if c.Posture > keys.Normal {
		c.Until = at + lapse
	}
	maps.Copy(c.Suspects, r.Suspects)
	maps.Copy(c.Tags, r.Tags)
	same := c.Posture == w.set.Posture && c.Baseline == w.set.Baseline && sameKeys(c.Suspects, w.set.Suspects) && sameKeys(c.Tags, w.set.Tags)
	quiet := c.Posture == keys.Normal && c.Baseline.Zero() && len(c.Suspects)+len(c.Tags) == 0
	if same && (at-w.set.Epoch < beat || quiet) {
		return nil
	}
	for p := range w.set.Suspects { // let go
		if _, ok := c.Suspects[p]; !ok {
			c.Suspects[p] = at
		}
	}
	for t := range w.set.Tags {
		if _, ok := c.Tags[t]; !ok {
			c.Tags[t] = at
		}
	}
	w.set = c
	w.set.Suspects, w.set.Tags = maps.Clone(r.Suspects), maps.Clone(r.Tags)
	return &c
}

func sameKeys[K comparable](a, b map[K]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for p := range a {
		if _, ok := b[p]; !ok {
			return false
		}
	}
	return true
}

// findings are the campaigns that are to be published.
func (w *Detection) findings(list []detect.Campaign, r *detect.Result) (out [][]byte) {
	for i := range list {
		c := &list[i]
		if w.c.Found != nil {
			w.c.Found(c)
		}
		last, known := w.told[c.ID]
		if known && c.End == 0 && !r.Changed && r.Reading.At-last < FindingEvery {
			continue // again, with what comes next
		}
		w.told[c.ID] = r.Reading.At
		if c.End != 0 {
			delete(w.told, c.ID)
		}
		f := findingOf(w.c.Realm, c)
		f.Learning, f.DryRun = r.Reading.Learning, w.c.DryRun
		if b, err := f.AppendTo(nil); err == nil {
			out = append(out, b)
			w.tally.found(&f, known)
		}
	}
	return out
}
