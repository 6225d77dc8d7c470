package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// Reporting is where the seeds begin that figures are reported on. What detects
// was tuned on seeds below Tuned; those between had been looked at before it was
// tuned last, and count as neither.
const (
	Tuned     = 1000
	Reporting = 4000
)

// Scenario is an attack, or something that looks like one, by its name.
type Scenario struct {
	Name   string
	Attack *Attack
	Case   Case
}

// Scenarios are all of them: attacks, then counter-cases.
func Scenarios() (all []Scenario) {
	for i := range Attacks {
		all = append(all, Scenario{Name: Attacks[i].Name, Attack: &Attacks[i]})
	}
	for _, c := range []Case{OfficeAtNine, CarrierNAT, StaleApp, ResetDay, FlashCrowd, OutageNotChecked, OutageFailures} {
		all = append(all, Scenario{Name: string(c), Case: c})
	}
	return all
}

// ScenarioNamed finds one.
func ScenarioNamed(name string) (Scenario, error) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q", name)
}

// Run runs s through a guard, a twin and an aggregator of its own.
func (s Scenario) Run(ctx context.Context, c Config) (*Score, error) {
	c.defaults()
	w, err := newWorld(c)
	if err != nil {
		return nil, err
	}
	begin, end := w.times()
	w.attacked = s.Attack != nil
	q, p := w.plan(s, begin, end)
	if err := w.acquaint(ctx, q, p, begin); err != nil {
		return nil, err
	}
	if err := w.watch(c.Learnt, p); err != nil {
		return nil, err
	}
	if err := w.run(ctx, q); err != nil {
		return nil, err
	}
	return &w.score, nil
}

// times are when the run begins and ends; the attack's are kept.
func (w *world) times() (begin, end int64) {
	when := newRandom(w.c.Seed, 31)
	// A weekday in working hours, when most honest people are there to be bothered.
	begin = Start + int64(when.IntN(5))*day + int64(when.between(8, 15)*float64(hour))
	if w.c.AnyHour {
		begin = Start + int64(when.Float64()*week)
	}
	w.from = begin + w.c.Before
	w.to = w.from + w.c.During
	return begin, w.to + w.c.After
}

func (c *Config) defaults() {
	if c.PerDay <= 0 {
		c.PerDay = DefaultPerDay
	}
	for _, d := range []*int64{&c.Before, &c.During, &c.After} {
		if *d <= 0 {
			*d = hour
		}
	}
	if c.Learnt == nil && !c.Static {
		c.Learnt = Learn(c.PerDay, c.Seed)
	}
}

// plan draws everything that is to happen.
func (w *world) plan(s Scenario, begin, end int64) (*queue, *people) {
	q, p := &queue{}, newPeople(w.c.PerDay, w.c.Seed)
	r := newRandom(w.c.Seed, 32)
	var spans []Span
	if s.Case != "" {
		span := NewSpan(r, s.Case, w.from)
		span.To = min(span.To, end)
		spans, w.to = []Span{span}, span.To
		w.outages = spans
	}
	crowd := newCrowd(w.c.PerDay, w.c.Seed, p, spans)
	crowd.fill(q, begin, end)
	background(q, newRandom(w.c.Seed, 33), p, w.c.PerDay, begin, end)
	always := Span{Case: StaleApp, From: begin, To: end, Factor: 2}
	happen(q, always, r, p)
	for _, span := range spans {
		happen(q, span, r, p)
	}
	if s.Attack != nil {
		a := *s.Attack
		if w.c.Volume > 0 {
			a = a.At(w.c.Volume)
		}
		r := newRandom(w.c.Seed, 34)
		victims := guesses(q, &a, r, p, crowd.perMin, w.from, w.to)
		owners(q, r, p, victims, w.from, w.to)
	}
	q.sort()
	return q, p
}

// watch begins detection, with what was learnt and the networks that were seen
// within the last weeks.
func (w *world) watch(learnt []byte, p *people) error {
	if w.c.Static {
		w.watcher = nobody{}
		return nil
	}
	known, err := detect.Load(learnt)
	if err != nil {
		return err
	}
	d := detect.New(uint64(w.c.Seed))
	d.Watch = known
	w.detector = d
	for n := 0; n < p.n; n += 32 {
		d.Meet(keys.AddressOf(homeAddress(n)).Wide(), w.from)
	}
	for n := range p.offices() {
		d.Meet(keys.AddressOf(officeAddress(n)).Wide(), w.from)
	}
	for n := range 1 << 16 {
		d.Meet(keys.AddressOf(scanAddress(uint32(n)<<8)).Wide(), w.from)
	}
	if err := w.yesterday(d, p); err != nil {
		return err
	}
	var failed error
	agg := aggregate.NewAggregator(aggregate.AggregatorConfig{
		Store:  w.store,
		Shards: func(realm string) (int, bool) { return 1, realm == realmName },
		Watch: func(string, []byte) aggregate.Watch {
			return w.c.tapped(aggregate.Watching(aggregate.DetectionConfig{Realm: realmName, Found: w.found}, d))
		},
		Now:    func() time.Time { return time.UnixMicro(w.clock) },
		Failed: func(op string, err error) { failed = fmt.Errorf("%s: %w", op, err) },
	})
	w.failed = func() error { return failed }
	w.watcher = agg.Inline()
	return nil
}

// yesterday tells d which accounts failed within the day before: else each
// account that the background guesses at would be new again in every run.
func (w *world) yesterday(d *detect.Detector, p *people) error {
	begin := w.from - w.c.Before
	var before queue
	r := newRandom(w.c.Seed, 35)
	background(&before, r, p, w.c.PerDay, begin-day, begin)
	honest := w.c.PerDay * HonestFails * ColdFails * (1 - Repeats) * HonestNewAccount
	for range int(honest) {
		before.add(&login{at: begin - day + int64(r.Float64()*day), account: p.of(r.IntN(p.n)).name()})
	}
	before.sort()
	for _, l := range before.list {
		who, err := w.guard.Target(&escalation.Subject{Account: l.account, Realm: realmName})
		if err != nil {
			return err
		}
		d.Failed(who.Account, l.at)
	}
	return nil
}

// found keeps the last state of each campaign.
func (w *world) found(c *detect.Campaign) {
	for i := range w.score.Campaigns {
		if w.score.Campaigns[i].ID == c.ID {
			w.score.Campaigns[i] = *c
			return
		}
	}
	w.score.Campaigns = append(w.score.Campaigns, *c)
}

// suspected reports whether any of the attack's addresses, networks or passwords
// is suspect; without an attack, whether any address is that does not guess in
// the background.
func (w *world) suspected() bool {
	if w.detector == nil {
		return false
	}
	networks, tags := w.detector.SuspectsAt(w.clock)
	for _, p := range networks {
		if w.theirs[p] || !w.attacked && !w.scans[p] {
			return true
		}
	}
	for _, t := range tags {
		if w.tags[t] {
			return true
		}
	}
	return false
}
