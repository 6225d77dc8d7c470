package detect

import (
	"fmt"
	"strings"
)

// Level is how far a realm has tightened, in the order of keys.Posture.
type Level uint8

// The levels.
const (
	Calm     Level = iota
	Elevated       // the global tier is halved
	High           // it is a fifth, and strangers wait
	Critical       // strangers are asked

	Levels = 4
)

var levelNames = [Levels]string{"normal", "elevated", "high", "critical"}

// String returns the posture's name.
func (l Level) String() string { return levelNames[l&3] }

// How the level moves.
const (
	// An excess of so much of what is expected, for severeBins, is past halving.
	severe, severeBins = 0.5, 3
	// One of so much is past waiting.
	overwhelming = 3.0
	// An attack that structure confirms, and that goes on at a level for so long,
	// is not stopped by it.
	unimpressed = 30 * second
	// Guesses of strangers that are right while the level is up.
	takenOver = 5

	// Quick to rise, slow to fall: a level is held for holdFirst from the last
	// sign of the attack, twice as long each time it comes back within a day; each
	// further step down takes stepDown. An attacker who pauses for ten minutes
	// finds everything as it was.
	holdFirst, holdMost = 10 * minute, 120 * minute
	stepDown            = 4 * minute
	forget              = 24 * hour
	// quiet is the sustained excess under which there is no sign, of the gate and of
	// what is expected: what scans in the background wanders by a third by itself.
	// And of the attack's own peak: what is left of it after its end must not hold
	// the level, and an attack that goes on small is found as any small one is.
	quietGate, quietShare, quietPeak = 0.4, 0.6, 0.4
)

// Control turns readings into a level.
type Control struct {
	level   Level
	since   int64 // the level was reached
	sign    int64 // last sign of an attack
	severe  int   // bins
	hold    int64
	peak    float64 // sustained excess since Calm was left
	left    int64   // when Calm was reached last
	stepped bool    // down since the last sign
	// confirmed: structure has agreed since Calm was left.
	confirmed bool
}

// Decision is what to do now.
type Decision struct {
	Level   Level
	Changed bool
	Reason  string // for operators: why the level is what it is
}

// Level is the level in force.
func (c *Control) Level() Level { return c.level }

// Step takes a reading. scoped says that a few groups make up the excess and
// are tightened themselves: everybody else is left alone. takeovers are right
// guesses among the attack's, so far.
func (c *Control) Step(r *Reading, scoped bool, takeovers int) Decision {
	was := c.level
	// The last minute knows first that an attack has ended. One that goes on with a
	// part of its first burst, and overwhelming still, has not.
	going := min(r.Sustained(), r.Recent)
	left := going >= quietPeak*c.peak || going >= overwhelming*r.Expected
	attack := r.Attack() && !r.Learning && !scoped && left
	lasts := c.level > Calm && !scoped && !r.Outage && left
	if c.peak = max(c.peak, r.Sustained()); c.level == Calm && !attack {
		c.peak = 0
	}
	c.confirmed = c.level > Calm && c.confirmed || attack && r.Confirmed
	if attack && r.size() >= severe*r.Expected {
		c.severe++
	} else {
		c.severe = 0
	}
	// What an attack that structure has confirmed is made of cannot be told any more
	// once strangers are asked and few reach the password; how much there is can.
	// Less of it is enough to go on rising than to begin the hold anew.
	if attack || lasts && c.confirmed && !c.stepped && r.Sustained() >= practicalFailed*r.Expected {
		c.raise(r, takeovers)
	}
	if attack || lasts && r.Sustained() >= c.loud(r) {
		c.sign, c.stepped = r.At, false
	} else {
		c.lower(r)
	}
	if c.level != was {
		c.since = r.At
	}
	return Decision{c.level, c.level != was, c.reason(r, takeovers)}
}

// loud is the sustained excess that is a sign of the attack: less where it is
// still made of what the attack was made of. What scans in the background can
// stay that high for hours after a small attack, and is nobody's coming back.
func (c *Control) loud(r *Reading) float64 {
	if c.confirmed && len(r.Structure) > 0 {
		return quietShare * r.Expected
	}
	return max(quietGate*r.Gate, quietShare*r.Expected)
}

func (c *Control) raise(r *Reading, takeovers int) {
	to := Elevated
	switch {
	case c.confirmed || c.severe >= severeBins:
		to = High
	}
	if c.severe >= severeBins && r.size() >= overwhelming*r.Expected ||
		takeovers >= takenOver && c.level >= High ||
		c.confirmed && c.level >= High && r.At-c.since >= unimpressed {
		to = Critical
	}
	if to <= c.level {
		return
	}
	if c.level == Calm {
		c.hold = min(max(holdFirst, c.hold*2), holdMost)
		if c.left == 0 || r.At-c.left > forget {
			c.hold = holdFirst
		}
	}
	c.level = to
}

func (c *Control) lower(r *Reading) {
	wait := c.hold
	from := c.sign
	if c.stepped {
		wait, from = stepDown, c.since
	}
	if c.level == Calm || r.At-from < wait {
		return
	}
	// From asking strangers straight to where nobody is: it has been quiet, and
	// what comes back rises from there as fast as from anywhere.
	if c.level = min(c.level-1, Elevated); c.level == Calm {
		c.left = r.At
	}
	c.stepped = true
}

// lapse lets go of a level that nobody has renewed.
func (c *Control) lapse(at int64) {
	if c.level > Calm {
		c.level, c.left, c.stepped = Calm, at, true
	}
}

func (c *Control) reason(r *Reading, takeovers int) string {
	if c.level == Calm {
		return ""
	}
	if s := why(r, takeovers); s != "" {
		return s
	}
	return "held: the attack may come back"
}

// why says what speaks for an attack.
func why(r *Reading, takeovers int) string {
	var all []string
	if r.Volume {
		all = append(all, fmt.Sprintf("%.0f cold failures a minute more than the %.0f that are usual", r.Excess, r.Expected))
	}
	for _, ch := range r.Structure {
		all = append(all, ch.String())
	}
	if takeovers >= takenOver {
		all = append(all, fmt.Sprintf("%d guesses were right", takeovers))
	}
	return strings.Join(all, ", ")
}
