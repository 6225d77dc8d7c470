package main

import (
	"encoding/json"
	"testing"

	"github.com/guardd/guardd/aggregate/sim"
)

// TestWhatASimulationSays of a score, and where it says that there is nothing to be
// said: shares are of what they are named after, times are seconds.
func TestWhatASimulationSays(t *testing.T) {
	const second = 1_000_000
	attack := sim.Scenario{Name: "x", Attack: &sim.Attack{}}
	full := sim.Score{Guesses: 100, Served: 50, GuessesAfter: 40, ServedAfter: 2, Taken: 3, FirstChallenge: 7_140_000, Posture: 31 * second, Relaxed: 600 * second,
		Honest: 200, Challenged: 20, New: 40, NewChallenged: 10, LockedOut: 1, KnownAsked: 9}
	const honest = `"honest_logins":200,"honest_challenged":20,"honest_challenged_share":0.1,"honest_new_device_share":0.2,"honest_new_device_challenged_share":0.25,"owner_locked_out":1,"false_alarms_per_week":null,`
	for _, s := range []struct {
		of     sim.Scenario
		change func(*sim.Score)
		want   string
	}{
		{attack, func(*sim.Score) {}, `{"scenario":"x","seed":4,"solvers":0.5,"attack_guesses":100,"guesses_served":50,"served_share":0.5,"served_after_detection_share":0.05,"accounts_taken":3,"time_to_first_challenge_s":7.1,"time_to_posture_s":31,` + honest + `"relaxed_after_s":600}`},
		{attack, func(s *sim.Score) { s.FirstChallenge, s.Posture, s.Relaxed, s.GuessesAfter = -1, -1, 0, 0 },
			`{"scenario":"x","seed":4,"solvers":0.5,"attack_guesses":100,"guesses_served":50,"served_share":0.5,"served_after_detection_share":null,"accounts_taken":3,"time_to_first_challenge_s":null,"time_to_posture_s":null,` + honest + `"relaxed_after_s":null}`},
		{sim.Scenario{Name: "x"}, func(s *sim.Score) { s.Relaxed = -1 },
			`{"scenario":"x","seed":4,"solvers":0.5,"attack_guesses":null,"guesses_served":null,"served_share":null,"served_after_detection_share":null,"accounts_taken":null,"time_to_first_challenge_s":null,"time_to_posture_s":31,` + honest + `"relaxed_after_s":null}`},
	} {
		score := full
		s.change(&score)
		b, err := json.Marshal(simulatedOf(s.of, 4, 0.5, &score))
		if err != nil || string(b) != s.want {
			t.Errorf("%s, %v\nwant %s", b, err, s.want)
		}
	}
	if s := withinSeconds([]int64{31 * second, 45 * second, sim.Never}, 0.5); s == nil || *s != 45 {
		t.Errorf("half are found within %v s", s)
	}
	if s := withinSeconds([]int64{31 * second, sim.Never}, 0.95); s != nil {
		t.Errorf("what was never found is found within %v s", *s)
	}
}
