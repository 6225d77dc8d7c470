package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/guardd/guardd/aggregate/sim"
	"github.com/guardd/guardd/escalation"
)

// simulation runs scenarios, as many at once as there are processors, and prints
// them in their order.
type simulation struct {
	f        *simulateFlags
	policy   *escalation.Policy
	from     string
	out      io.Writer
	progress *progress
	headings

	mu      sync.Mutex
	done    []float64 // of each job
	learned map[int64]func() []byte
	alarms  map[int64]func() int
}

// simulated is one scenario with one seed, as JSON has it. What has no meaning
// is null.
type simulated struct {
	Scenario              string   `json:"scenario"`
	Seed                  int64    `json:"seed"`
	Solvers               float64  `json:"solvers"`
	AttackGuesses         *int     `json:"attack_guesses"`
	GuessesServed         *int     `json:"guesses_served"`
	ServedShare           *float64 `json:"served_share"`
	ServedAfterShare      *float64 `json:"served_after_detection_share"`
	AccountsTaken         *int     `json:"accounts_taken"`
	TimeToFirstChallenge  *float64 `json:"time_to_first_challenge_s"`
	TimeToPosture         *float64 `json:"time_to_posture_s"`
	HonestLogins          int      `json:"honest_logins"`
	HonestChallenged      int      `json:"honest_challenged"`
	HonestChallengedShare *float64 `json:"honest_challenged_share"`
	NewDeviceShare        *float64 `json:"honest_new_device_share"`
	NewChallengedShare    *float64 `json:"honest_new_device_challenged_share"`
	OwnerLockedOut        int      `json:"owner_locked_out"`
	FalseAlarmsPerWeek    *float64 `json:"false_alarms_per_week"`
	RelaxedAfter          *float64 `json:"relaxed_after_s"`

	Minutes []sim.Minute `json:"minutes,omitempty"` // with --timeline
}

// job is one part of a simulation. It returns what prints it.
type job struct {
	name string
	run  func(ctx context.Context, progress func(float64)) (func() error, error)
}

func (s *simulation) run(ctx context.Context) error {
	s.learned, s.alarms = map[int64]func() []byte{}, map[int64]func() int{}
	var jobs []job
	for _, sc := range s.f.scenarios {
		for _, seed := range s.f.seeds {
			s.know(seed)
			jobs = append(jobs, job{fmt.Sprintf("%s, seed %d", sc.Name, seed), s.scenario(sc, seed)})
		}
	}
	if s.f.attacks > 0 && !s.f.static {
		jobs = append(jobs, s.figures()...)
	}
	s.done = make([]float64, len(jobs))
	s.progress.begin("simulating", 0)
	defer s.progress.end()
	if !s.f.json {
		s.heading()
	}
	return s.all(ctx, jobs)
}

// know has what a seed's site learns learned once, when it is needed.
func (s *simulation) know(seed int64) {
	if s.learned[seed] != nil {
		return
	}
	s.learned[seed] = sync.OnceValue(func() []byte { return sim.Learn(s.f.perDay, seed) })
	s.alarms[seed] = sync.OnceValue(func() int {
		list, _ := sim.FalseAlarms(s.f.perDay, seed, s.f.weeks, nil)
		return len(list)
	})
}

// all runs the jobs and prints each once those before it are.
func (s *simulation) all(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make([]chan func() error, len(jobs))
	for i := range results {
		results[i] = make(chan func() error, 1)
	}
	var next int
	take := func() int { // -1: none is left
		s.mu.Lock()
		defer s.mu.Unlock()
		if next >= len(jobs) {
			return -1
		}
		next++
		return next - 1
	}
	var ran sync.WaitGroup
	defer ran.Wait()
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		ran.Go(func() {
			for i := take(); i >= 0; i = take() {
				print, err := jobs[i].run(ctx, func(done float64) { s.far(i, done) })
				s.far(i, 1)
				results[i] <- func() error {
					if err != nil {
						return fmt.Errorf("%s: %w", jobs[i].name, err)
					}
					return s.printing(print)
				}
			}
		})
	}
	for i := range results {
		select {
		case print := <-results[i]:
			if err := print(); err != nil {
				cancel()
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// printing prints without the progress in between.
func (s *simulation) printing(print func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.end()
	return print()
}

// scenario is one scenario with one seed, attempt by attempt.
func (s *simulation) scenario(sc sim.Scenario, seed int64) func(context.Context, func(float64)) (func() error, error) {
	return func(ctx context.Context, progress func(float64)) (func() error, error) {
		c := sim.Config{Policy: s.policy, PerDay: s.f.perDay, Volume: s.f.volume, Solvers: s.f.solvers, Seed: seed, Static: s.f.static, Progress: progress}
		if !s.f.static {
			c.Learnt = s.learned[seed]()
		}
		score, err := sc.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		r := simulatedOf(sc, seed, s.f.solvers, score)
		if sc.Attack == nil && !s.f.static && s.f.weeks > 0 {
			r.FalseAlarmsPerWeek = new(float64(s.alarms[seed]()) / float64(s.f.weeks))
		}
		if s.f.timeline {
			r.Minutes = score.Minutes
		}
		return func() error { return s.print(r) }, nil
	}
}

// far says how far a job is.
func (s *simulation) far(i int, done float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[i] = done
	sum := 0.0
	for _, d := range s.done {
		sum += d
	}
	s.progress.part(sum/float64(len(s.done)), 0)
}

func simulatedOf(sc sim.Scenario, seed int64, solvers float64, s *sim.Score) *simulated {
	r := &simulated{Scenario: sc.Name, Seed: seed, Solvers: solvers, HonestLogins: s.Honest, HonestChallenged: s.Challenged,
		HonestChallengedShare: shareOf(s.Challenged, s.Honest), NewDeviceShare: shareOf(s.New, s.Honest),
		NewChallengedShare: shareOf(s.NewChallenged, s.New), OwnerLockedOut: s.LockedOut,
		TimeToPosture: seconds(s.Posture)}
	if s.Posture >= 0 {
		r.RelaxedAfter = seconds(s.Relaxed)
	}
	if sc.Attack == nil {
		return r
	}
	r.AttackGuesses, r.GuessesServed, r.AccountsTaken = &s.Guesses, &s.Served, &s.Taken
	r.ServedShare, r.TimeToFirstChallenge = shareOf(s.Served, s.Guesses), seconds(s.FirstChallenge)
	if s.Posture >= 0 {
		r.ServedAfterShare = shareOf(s.ServedAfter, s.GuessesAfter)
	}
	return r
}

func shareOf(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	return new(float64(n) / float64(of))
}

// seconds of microseconds; less than 0 is never.
func seconds(us int64) *float64 {
	if us < 0 {
		return nil
	}
	return new(float64(us/1e5) / 10)
}

func (s *simulation) print(r *simulated) error {
	if s.f.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	_, err := fmt.Fprintf(s.out, rowFormat, r.Scenario, r.Seed, wholeText(r.AttackGuesses), percentText(r.ServedShare), percentText(r.ServedAfterShare),
		wholeText(r.AccountsTaken), secondsText(r.TimeToPosture), r.HonestLogins, percentText(r.HonestChallengedShare), percentText(r.NewDeviceShare),
		percentText(r.NewChallengedShare), r.OwnerLockedOut, perWeek(r.FalseAlarmsPerWeek), secondsText(r.RelaxedAfter))
	return err
}

const rowFormat = "%-22s %5d %9s %8s %8s %6s %8s %8d %8s %8s %8s %6d %6s %8s\n"

func (s *simulation) heading() {
	detection := "with detection"
	if s.f.static {
		detection = "limits alone"
	}
	fmt.Fprintf(s.out, "policy: %s, %s; %s honest attempts a day; %s of guesses by solvers of captchas\n", s.from, detection,
		thousands(int64(s.f.perDay)), percentText(&s.f.solvers))
	fmt.Fprintf(s.out, "attempt by attempt, an hour before, of, and after each attack; seeds below %d are those that detection was tuned on, from %d on they are for reporting\n\n",
		sim.Tuned, sim.Reporting)
	const heads = "%-22s %5s %9s %8s %8s %6s %8s %8s %8s %8s %8s %6s %6s %8s\n"
	fmt.Fprintf(s.out, heads, "", "", "attack", "", "served", "", "posture", "honest", "", "on new", "of which", "locked", "false", "normal")
	fmt.Fprintf(s.out, heads, "scenario", "seed", "guesses", "served", "after", "taken", "or susp.", "logins", "asked", "devices", "asked", "out", "a week", "after")
}

func wholeText(n *int) string {
	if n == nil {
		return "-"
	}
	return thousands(int64(*n))
}

func percentText(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100**v)
}

func perWeek(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func secondsText(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f s", *s)
}
