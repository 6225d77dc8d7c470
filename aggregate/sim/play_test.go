package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/escalation"
)

// TestPlayIsWhatRunPutsToItsGuard counts both sides of one seed.
func TestPlayIsWhatRunPutsToItsGuard(t *testing.T) {
	s, err := ScenarioNamed("stuffing-8000x4")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Policy: escalation.DefaultPolicy(), PerDay: 50_000, Seed: 7, Static: true, Before: 5 * minute, During: 10 * minute, After: minute}
	score, err := s.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	guesses, honest, home := 0, 0, 0
	list := s.Play(c)
	for _, l := range list {
		switch {
		case l.Attack:
			guesses++
			if l.After < 5*time.Minute || l.After >= 15*time.Minute {
				t.Errorf("a guess at %s, outside of the attack", l.After)
			}
		case l.Right:
			honest++
		}
		if l.Home {
			home++
		}
		if l.Account == "" || !l.IP.IsValid() || l.Tag == "" {
			t.Errorf("half a login: %+v", l)
		}
	}
	if guesses != score.Guesses || honest != score.Honest || guesses < 1000 || honest < 300 {
		t.Errorf("plays %d guesses and %d sign-ins, a run sees %d and %d", guesses, honest, score.Guesses, score.Honest)
	}
	if home < honest/2 {
		t.Errorf("%d of %d from the owner's browser", home, honest)
	}
	if !slices.IsSortedFunc(list, func(a, b Login) int { return int(a.After - b.After) }) {
		t.Error("not in order")
	}
}
