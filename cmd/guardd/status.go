package main

import (
	"context"
	"fmt"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/breached"
)

// statusSource is what the status page shows of this instance.
type statusSource struct {
	*server
	started time.Time
}

// About is api.StatusSource's.
func (s statusSource) About() api.About {
	status, _ := s.readiness()
	a := api.About{Version: buildInfo().version, Started: s.started.UTC(), Instances: 1, Status: status,
		Mode: string(s.config.Detection), Alone: s.config.fragmented()}
	if s.live != nil {
		a.Instances = s.live.Count()
	}
	if s.aggregator == nil && len(s.config.Kafka.Brokers) == 0 {
		a.Mode = string(detectionOff) // nobody reads what happens here
	} else if a.Mode == string(detectionOn) && a.Alone {
		a.Mode = string(detectionDry)
	}
	return a
}

// Overview is api.StatusSource's: this instance's own where it reads the realm, else
// what another has written.
func (s statusSource) Overview(ctx context.Context, realm string) (*aggregate.Overview, bool, error) {
	if s.aggregator != nil {
		if o := s.aggregator.Overview(realm); o != nil {
			return o, true, nil
		}
	}
	if s.config.fragmented() {
		return nil, false, nil // another's are not everybody's
	}
	o, err := aggregate.ReadOverview(ctx, s.keeper, realm)
	return o, false, err
}

// From when on something that ought to be done all the time is late.
const (
	eventsLate  = 30 * time.Second
	journalLate = 5 * time.Second
	limitsLate  = 10 * time.Second
)

// Dependencies is api.StatusSource's.
func (s statusSource) Dependencies(ctx context.Context) []api.Dependency {
	return []api.Dependency{s.storeState(ctx), s.eventsState(), s.readerState(), s.operatorsState(), s.breachedState(), s.limitsState()}
}

func (s statusSource) storeState(ctx context.Context) api.Dependency {
	d := api.Dependency{Name: "store", State: api.DependencyOK, Detail: "the memory of this process"}
	if s.fallback == nil {
		return d
	}
	d.Detail = "Redis"
	if err := s.ready(ctx); err != nil {
		d.State, d.Detail = api.DependencyDown, "Redis does not answer: this instance decides alone, at its share of each limit"
	}
	return d
}

func (s statusSource) eventsState() api.Dependency {
	d := api.Dependency{Name: "events", State: api.DependencyOK, Detail: "within this process"}
	if len(s.config.Kafka.Brokers) > 0 {
		d.Detail = "Kafka"
	}
	if s.published == nil {
		return d
	}
	st := s.published()
	if wait := time.Since(st.Oldest).Round(time.Second); !st.Oldest.IsZero() && wait > eventsLate {
		d.State, d.Detail = api.DependencyDown, fmt.Sprintf("%s takes none: the oldest has waited for %s", d.Detail, wait)
	}
	lost := uint64(0)
	for _, n := range st.Lost {
		lost += n
	}
	if lost > 0 {
		d.Detail += fmt.Sprintf("; %d were lost since the start", lost)
	}
	return d
}

// readerState says how far behind this instance's own reading is.
func (s statusSource) readerState() api.Dependency {
	d := api.Dependency{Name: "reader", State: api.DependencyOff, Detail: "other instances read"}
	if s.aggregator == nil {
		return d
	}
	st := s.aggregator.Stats()
	if len(st.Readers) == 0 {
		return d
	}
	d.State, d.Detail = api.DependencyOK, ""
	lag := int64(0)
	for _, r := range st.Readers {
		if lag += r.Lag; r.Lag > 0 && r.Delay > eventsLate {
			d.State = api.DependencyDegraded
		}
	}
	if d.State != api.DependencyOK {
		d.Detail = fmt.Sprintf("%d events behind", lag)
	}
	return d
}

func (s statusSource) operatorsState() api.Dependency {
	d := api.Dependency{Name: "operators", State: api.DependencyOK}
	if age := s.desk.Age().Round(time.Second); age > journalLate {
		d.State, d.Detail = api.DependencyDegraded, fmt.Sprintf("what operators did elsewhere is not known since %s", age)
	}
	return d
}

func (s statusSource) breachedState() api.Dependency {
	d := api.Dependency{Name: "breached", State: api.DependencyOff, Detail: "no file"}
	if s.config.Breached.Remote.URL != "" {
		d.State, d.Detail = api.DependencyOK, "asked of another service"
	}
	if s.corpora == nil || len(s.corpora.files) == 0 {
		return d
	}
	d.State, d.Detail = api.DependencyOK, ""
	for _, f := range s.corpora.files {
		if d.Detail != "" {
			d.Detail += "; "
		}
		d.Detail += corpusSaid(f.Live)
		if f.Err() != nil {
			d.State = api.DependencyDown
		}
	}
	return d
}

func corpusSaid(l *breached.Live) string {
	i := l.Info()
	said := fmt.Sprintf("%s, %d rows", i.Kind, i.Rows)
	if !i.Source.IsZero() {
		said += " of " + i.Source.UTC().Format(time.DateOnly)
	}
	if !i.Complete {
		said += ", incomplete"
	}
	if l.Err() != nil {
		said += ", damaged: it answers nothing any more"
	}
	return said
}

func (s statusSource) limitsState() api.Dependency {
	d := api.Dependency{Name: "limits_db", State: api.DependencyOff}
	if s.follower == nil {
		return d
	}
	st := s.follower.Stats()
	d.State, d.Detail = api.DependencyOK, fmt.Sprintf("version %d", st.Version)
	switch late := time.Since(st.Confirmed).Round(time.Second); {
	case st.Confirmed.IsZero():
		d.State, d.Detail = api.DependencyDown, "it has not answered yet"
	case late > limitsLate:
		d.State, d.Detail = api.DependencyDown, fmt.Sprintf("it has not answered for %s: version %d stays in force", late, st.Version)
	case st.Bad > 0:
		d.State, d.Detail = api.DependencyDegraded, fmt.Sprintf("%d things are wrong with its rows", st.Bad)
	}
	return d
}
