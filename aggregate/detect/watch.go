package detect

// The least sustained excess at which what cold failures are made of is looked
// at, of expected attempts, of expected cold failures, and a minute: structure
// that changes while nothing grows is a change of the site's own.
const (
	practicalAttempts = 0.04
	practicalFailed   = 0.35
	practicalLeast    = 2.0
)

// Reading is what the bins up to a moment say.
type Reading struct {
	At       int64 // the end of the bin
	Learning bool  // too little is known for anything but alerts

	// A minute: cold failures that are expected, attempts that are, the excess of
	// cold failures over the last minute, two minutes and ten, and the excess
	// from which on it matters.
	Expected, Attempts, Recent, Excess, Lasting, Gate float64
	// Rising is the mean excess since it began, where that is sure and less than
	// the last two minutes hold yet.
	Rising float64

	Volume     bool      // there are too many cold failures
	Suspicious bool      // there may be
	Structure  []Channel // what they are made of has changed
	Confirmed  bool      // structure agrees, with itself or with volume
	Outage     bool      // the service behind is down, or was just now
	Surge      bool      // honest people come in numbers
}

// Sustained is the excess that both the last two minutes, which forget a large
// attack soon, and the last ten, which scatter little, know of.
func (r *Reading) Sustained() float64 { return min(r.Excess, r.Lasting) }

// practical is the excess from which on structure is looked at.
func (r *Reading) practical() float64 {
	return max(practicalLeast, practicalAttempts*r.Attempts, practicalFailed*r.Expected)
}

// size is how large an attack is, as soon as that can be known.
func (r *Reading) size() float64 { return max(r.Excess, r.Rising) }

// Attack reports whether the reading says that there is one.
func (r *Reading) Attack() bool {
	return !r.Outage && (r.Confirmed || r.Volume && !r.Surge)
}

// Watch looks at the bins of a realm, one after the other.
type Watch struct {
	base      *Baseline
	volume    volume
	structure *structure
	outage    outage
	learning  bool // at the last bin
	calm      bool // the last bin was
}

// NewWatch knows nothing yet.
func NewWatch() *Watch {
	return &Watch{base: newBaseline(), volume: newVolume(), structure: newStructure(), outage: newOutage(), calm: true}
}

// Baseline is what it holds for normal.
func (w *Watch) Baseline() *Baseline { return w.base }

// Step takes the next bin. acting says that a posture is in force or suspects
// are: what is seen then is not normal, and nothing is learnt from it.
func (w *Watch) Step(b *Bin, acting bool) Reading {
	down, surge := w.outage.step(b, w.base)
	r := Reading{At: b.Start + Width, Learning: w.base.Learning(), Outage: down, Surge: surge}
	if w.learning && !r.Learning {
		w.begin() // what was added up against a prior is no evidence
	}
	w.learning = r.Learning
	calm := w.calm && !down && !acting
	if !down { // an outage's failures are nobody's guesses
		w.look(b, &r, calm)
	}
	w.calm = !r.Attack() && !down && !acting
	w.base.learn(b, r.Learning && !down || w.calm && !r.Suspicious)
	return r
}

func (w *Watch) look(b *Bin, r *Reading, calm bool) {
	x := float64(b.Count[Success])
	f := &w.base.fits[yFailed]
	z := w.volume.step(float64(b.Failed()), x, f.expect(b.Start, 0), f.odds, calm)
	// Against a prior everything is far off; taken for scatter it would blunt the
	// channels for months.
	w.structure.step(b, w.base, calm && !r.Learning)

	const bins = minute / Width
	r.Expected, r.Attempts = z.expected*bins, z.attempts*bins
	r.Recent, r.Excess, r.Lasting, r.Gate = z.recent*bins, z.excess*bins, z.lasting*bins, z.gate*bins
	r.Rising = z.rising * bins
	r.Volume, r.Suspicious = w.volume.alarm(z), w.volume.suspicious()
	if r.Sustained() >= r.practical() {
		r.Structure = w.structure.over()
		r.Confirmed = len(r.Structure) >= 2 || len(r.Structure) == 1 && r.Suspicious
	}
}

func (w *Watch) begin() {
	w.volume.fast.value, w.volume.slow.value = 0, 0
	w.structure.reset()
}
