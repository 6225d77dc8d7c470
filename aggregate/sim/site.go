package sim

import (
	"fmt"
	"slices"

	"github.com/guardd/guardd/aggregate/detect"
)

// Start is when simulated time begins: a Monday at midnight, UTC.
const Start = monday + 2800*week

// Site is a site at bin level with what watches it: traffic, watch and control
// in one loop, in which what control does changes the traffic.
type Site struct {
	Bins    *Bins
	Watch   *detect.Watch
	Control detect.Control
}

// NewSite has nothing learnt.
func NewSite(perDay float64, seed, start int64, cases bool) *Site {
	return &Site{Bins: NewBins(perDay, seed, start, cases), Watch: detect.NewWatch()}
}

// Step makes the next bin and has it looked at.
func (s *Site) Step() (detect.Bin, detect.Reading, detect.Decision) {
	b := s.Bins.Next()
	r := s.Watch.Step(&b, s.Control.Level() > detect.Calm)
	d := s.Control.Step(&r, false, 0)
	s.Bins.Challenged = d.Level >= detect.Critical
	return b, r, d
}

// Run steps for so long.
func (s *Site) Run(long int64) {
	for range long / detect.Width {
		s.Step()
	}
}

// WarmUp is how long a baseline is learnt before anything is measured: four
// weeks, after which it has seen each hour of the week four times.
const WarmUp = 4 * week

// Learn is what a site's watch knows after WarmUp.
func Learn(perDay float64, seed int64) []byte {
	s := NewSite(perDay, seed, Start-WarmUp, true)
	s.Run(WarmUp)
	return s.Watch.Save()
}

// FalseAlarms counts how often the level left normal in so many weeks without
// an attack, with every counter-case in them, and how many bins it was up.
// progress, unless nil, is told of every week.
func FalseAlarms(perDay float64, seed int64, weeks int, progress func(week int)) (alarms []Alarm, up int) {
	s := NewSite(perDay, seed, Start-WarmUp, true)
	s.Run(WarmUp)
	for w := range weeks {
		for range week / detect.Width {
			was := s.Control.Level()
			b, r, d := s.Step()
			if was == detect.Calm && d.Changed {
				alarms = append(alarms, Alarm{At: b.Start, Confirmed: r.Confirmed, Reason: d.Reason, During: s.Bins.during(b.Start)})
			}
			if d.Level > detect.Calm {
				up++
			}
		}
		if progress != nil {
			progress(w + 1)
		}
	}
	return alarms, up
}

// Alarm is one that nobody caused.
type Alarm struct {
	At        int64
	Confirmed bool   // by structure
	Reason    string // as operators read it
	During    []Case // what happened then or within the hour before
}

// InOutage reports whether the service behind was down then or within the hour before.
func (a Alarm) InOutage() bool {
	return slices.Contains(a.During, OutageNotChecked) || slices.Contains(a.During, OutageFailures)
}

// String is for reports.
func (a Alarm) String() string { return fmt.Sprintf("%s (during %v)", a.Reason, a.During) }

func (g *Bins) during(at int64) (list []Case) {
	for i := range g.spans {
		if s := &g.spans[i]; at >= s.From && at < s.To+hour {
			list = append(list, s.Case)
		}
	}
	return list
}

// Finding is how one attack was found.
type Finding struct {
	After   int64        // from its first bin to the end of the bin that raised the level; -1: never
	Top     detect.Level // the highest level
	Relaxed int64        // from its end to normal; -1: not within four hours
	Early   bool         // the level was up before it began: the rest says nothing
}

// Attacked has a site that learnt what learnt says attacked for so long, at an
// hour of the week that the seed draws, after an hour without.
func Attacked(perDay float64, seed int64, learnt []byte, a Attack, long int64) (Finding, error) {
	w, err := detect.Load(learnt)
	if err != nil {
		return Finding{}, err
	}
	at := Start + int64(newRandom(seed, 7).Float64()*week)/detect.Width*detect.Width
	s := &Site{Bins: NewBins(perDay, seed, at, false), Watch: w}
	s.Run(hour)
	f := Finding{After: -1, Relaxed: -1}
	if s.Control.Level() > detect.Calm {
		f.Early = true
		return f, nil
	}
	from := s.Bins.at
	s.Bins.Attack(a, from, from+long)
	for s.Bins.at < from+long {
		_, r, d := s.Step()
		if f.After < 0 && d.Level > detect.Calm {
			f.After = r.At - from
		}
		f.Top = max(f.Top, d.Level)
	}
	for n := int64(0); n <= 4*hour; n += detect.Width {
		if s.Control.Level() == detect.Calm {
			f.Relaxed = n
			break
		}
		s.Step()
	}
	return f, nil
}
