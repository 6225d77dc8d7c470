package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate/sim"
	"github.com/guardd/guardd/escalation"
)

const simulateUsage = `usage: guardd simulate [flags]

Puts named attacks, and what looks like one and is none, to the policy: the real guard,
store in memory and detection, on a simulated clock, with honest people around. An hour
before, an hour of it, an hour after, in working hours. Then what only many runs say: how
soon an attack is found, and how often there is an alarm without one. Figures of people
and attacks are public ones where there are any (aggregate/sim/params.go says which).

  guardd simulate                                  # all of it, in some 5 minutes on two cores
  guardd simulate --scenario stuffing-8000x4 --volume 3 --solvers 1 --seed 1 --seed 2
  guardd simulate --policy strict.yaml --json

Columns, and their names with --json:
  attack guesses   attempts of the attack                                  attack_guesses
  served           of these, answered allow: at once, after the wait that
                   was asked for, or with a solved captcha                 guesses_served, served_share
  served after     the same, of those made after detection                 served_after_detection_share
  taken            accounts whose password was right, and was served       accounts_taken
  posture or susp. from the attack's first guess until the posture or
                   suspects were in force; of what is no attack: a false
                   alarm, if it is not -                                   time_to_posture_s
  honest logins    honest attempts with the right password                 honest_logins
  asked            of these, answered with anything but allow, be it a
                   wait of a second                                        honest_challenged, ..._share
  on new devices   honest logins on devices that guardd does not know      honest_new_device_share
  of which asked                                                           honest_new_device_challenged_share
  locked out       honest logins that were let in neither at once nor with
                   one proof                                               owner_locked_out
  false a week     alarms without an attack, in --weeks weeks in bins      false_alarms_per_week
  normal after     from the attack's end until neither was in force        relaxed_after_s
  --json only      until the attack was first answered with a challenge    time_to_first_challenge_s
A column without meaning is - (null).

Scenarios: `

// simulateFlags is what the command line said.
type simulateFlags struct {
	scenarios        []sim.Scenario
	seeds            []int64
	volume, solvers  float64
	perDay           float64
	weeks            int
	attacks, events  int
	static, timeline bool
	config, policy   string
	json, quiet      bool
	names, seedTexts repeated
}

// repeated is a flag that can be given more than once.
type repeated []string

func (r *repeated) String() string     { return strings.Join(*r, ",") }
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }

func scenarioNames() (names []string) {
	for _, s := range sim.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

func parseSimulate(args []string, getenv env, out, errOut io.Writer) (*simulateFlags, error) {
	f := &simulateFlags{}
	f.config, _ = getenv("GUARDD_CONFIG")
	f.policy, _ = getenv("GUARDD_POLICY")
	fs := newCommandLine("simulate", simulateUsage+strings.Join(scenarioNames(), ", ")+"\n\n", out, errOut)
	fs.Var(&f.names, "scenario", "`name` of a scenario, again for more (default: all)")
	fs.Var(&f.seedTexts, "seed", "`number` that everything is drawn from, again for more; every scenario runs with every one (default 1)")
	fs.Float64Var(&f.volume, "volume", 0, "the attack's guesses, `times` the honest attempts a minute (default: as the scenario has it)")
	fs.Float64Var(&f.solvers, "solvers", 0, "`share` of guesses whose maker solves captchas, from 0 to 1")
	fs.Float64Var(&f.perDay, "per-day", sim.DefaultPerDay, "honest attempts a day, a `number`")
	fs.IntVar(&f.weeks, "weeks", 26, "`number` of weeks in which false alarms are counted, for scenarios that are no attacks; 0: none")
	fs.IntVar(&f.attacks, "attacks", 0, "`number` of attacks of "+timedNames()+" each, whatever --scenario says, in bins (counts of ten seconds) and each at its own hour of the week, over which the time to detection is taken; 0: none (default 40 when every scenario is run, else none, and none with --json)")
	fs.IntVar(&f.events, "events", 10, "`number` of these that are run attempt by attempt, too")
	fs.BoolVar(&f.timeline, "timeline", false, "with --json: every minute of each run, too")
	fs.BoolVar(&f.static, "static", false, "without detection: the policy's limits alone")
	fs.StringVar(&f.config, "config", f.config, "configuration `file` whose policy is used (GUARDD_CONFIG)")
	fs.StringVar(&f.policy, "policy", f.policy, "`file` with the realms: part alone (GUARDD_POLICY)")
	fs.BoolVar(&f.json, "json", false, "print a line of JSON for each scenario and seed")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress on the terminal")
	rest, err := fs.parse(args)
	if err != nil {
		return nil, err
	}
	if err := f.check(rest, givenOf(fs.FlagSet)); err != nil {
		return nil, fs.refuse(err)
	}
	return f, nil
}

func (f *simulateFlags) check(rest []string, given map[string]bool) error {
	if len(rest) > 0 {
		return fmt.Errorf("takes flags only, not %q", rest[0])
	}
	for _, name := range f.names {
		s, err := sim.ScenarioNamed(name)
		if err != nil {
			return fmt.Errorf("--scenario: %w; there are %s", err, strings.Join(scenarioNames(), ", "))
		}
		f.scenarios = append(f.scenarios, s)
	}
	if len(f.names) == 0 {
		f.scenarios = sim.Scenarios()
	}
	if !given["attacks"] && len(f.names) == 0 && !f.json {
		f.attacks = 40
	}
	for _, text := range f.seedTexts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("--seed: %q is not a whole number", text)
		}
		f.seeds = append(f.seeds, n)
	}
	if len(f.seeds) == 0 {
		f.seeds = []int64{1}
	}
	switch { // written so that NaN is refused, too
	case !(f.volume >= 0 && f.volume <= 100):
		return fmt.Errorf("--volume: must be from 0 to 100, not %v", f.volume)
	case !(f.solvers >= 0 && f.solvers <= 1):
		return fmt.Errorf("--solvers: must be from 0 to 1, not %v", f.solvers)
	case !(f.perDay >= 10_000 && f.perDay <= 10_000_000):
		return fmt.Errorf("--per-day: must be from 10000 to 10000000, not %v", f.perDay)
	case f.timeline && !f.json:
		return errors.New("--timeline: goes with --json")
	case f.attacks < 0 || f.attacks > 1000:
		return fmt.Errorf("--attacks: must be from 0 to 1000, not %d", f.attacks)
	case f.static && given["attacks"] && f.attacks > 0:
		return errors.New("--attacks: means nothing with --static, which detects nothing")
	case f.events < 0 || f.events > 1000:
		return fmt.Errorf("--events: must be from 0 to 1000, not %d", f.events)
	case f.weeks < 0 || f.weeks > 520:
		return fmt.Errorf("--weeks: must be from 0 to 520, not %d", f.weeks)
	}
	return nil
}

// simulateCommand is "simulate".
func simulateCommand(ctx context.Context, args []string, getenv env, out, errOut io.Writer) int {
	f, err := parseSimulate(args, getenv, out, errOut)
	if err != nil {
		return usageCode(err)
	}
	policy, from, err := replayPolicy(f.config, f.policy)
	if err != nil {
		return refuse(errOut, err)
	}
	if policy.Realms[escalation.DefaultRealm] == nil {
		fmt.Fprintf(errOut, "guardd: simulate: the policy has no realm %q\n", escalation.DefaultRealm)
		return exitUsage
	}
	s := &simulation{f: f, policy: policy, from: from, out: out}
	if !f.quiet && isTerminal(errOut) {
		s.progress = newProgress(errOut, time.Now)
	}
	if err := s.run(ctx); err != nil {
		fmt.Fprintf(errOut, "guardd: simulate: %v\n", err)
		return exitFailed
	}
	return exitOK
}
