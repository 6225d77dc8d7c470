package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
)

// RouteStatus is what the status page shows, and RouteStatusPage the page.
const (
	RouteStatus     = "/admin/v1/status"
	RouteStatusPage = "/admin"
)

// Dependency is something that guardd asks, and how it fares.
type Dependency struct {
	Name   string `json:"name"`  // one of Dependencies
	State  string `json:"state"` // one of DependencyStates
	Detail string `json:"detail,omitzero"`
}

// Dependencies lists the names there are, in the order in which they are shown.
var Dependencies = []string{"store", "events", "reader", "operators", "breached", "limits_db"}

// The states of a Dependency.
const (
	DependencyOK       = "ok"
	DependencyDegraded = "degraded" // it works in part, or late
	DependencyDown     = "down"
	DependencyOff      = "off" // it is not configured
)

// DependencyStates lists all of them, the best first.
var DependencyStates = []string{DependencyOK, DependencyOff, DependencyDegraded, DependencyDown}

// StatusSource is what an instance knows of itself and of the logins of a realm. Its
// methods are safe for concurrent use, and wait for nothing longer than a second.
type StatusSource interface {
	// Overview is what the realm's logins look like, and whether this instance reads
	// them itself; nil where nobody has said. Errors: the store's.
	Overview(ctx context.Context, realm string) (o *aggregate.Overview, here bool, err error)
	Dependencies(ctx context.Context) []Dependency
	// About is what is the same for all realms.
	About() About
}

// About says who answers, and what it does about what it finds.
type About struct {
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Instances int       `json:"instances"`      // that share the store; 0: not known
	Status    string    `json:"status"`         // as /readyz
	Mode      string    `json:"detection_mode"` // on, dry-run, off
	// Alone: other instances share the store, and each knows of its own logins only.
	Alone bool `json:"alone"`
}

// StatusAnswer is the answer of RouteStatus.
type StatusAnswer struct {
	Realm  string    `json:"realm"`
	Realms []string  `json:"realms"` // those that the key may see
	Now    time.Time `json:"now"`
	About
	// Posture is nil while the store does not say.
	Posture *escalation.PostureNow `json:"posture,omitempty"`
	// ReadHere: this instance reads the events of the realm.
	ReadHere bool `json:"read_here"`
	aggregate.Overview
	Dependencies []Dependency `json:"dependencies"`
}

// status answers with what can be known; a store that is gone is one of the things
// to show.
func (s *operators) status(src StatusSource) func(context.Context, *operate.Who, *http.Request) (any, error) {
	return func(ctx context.Context, who *operate.Who, r *http.Request) (any, error) {
		realm := r.URL.Query().Get("realm")
		p, err := s.desk.Posture(ctx, who, realm)
		if err != nil && !errors.Is(err, escalation.ErrStore) {
			return nil, err
		}
		a := &StatusAnswer{Realm: realm, Realms: s.desk.Realms(who), Now: time.Now().UTC()}
		if a.Realm == "" {
			a.Realm = escalation.DefaultRealm
		}
		if err == nil {
			a.Posture = &p.PostureNow
		}
		a.Overview = aggregate.Overview{Minutes: []aggregate.Minute{}, Networks: []aggregate.OverviewNetwork{}, Accounts: []aggregate.OverviewAccount{}, Campaigns: []aggregate.Finding{},
			Detection: aggregate.OverviewDetection{Level: "normal", Learning: true}}
		a.Dependencies = []Dependency{}
		if src == nil {
			return a, nil
		}
		a.About, a.Dependencies = src.About(), src.Dependencies(ctx)
		if o, here, err := src.Overview(ctx, a.Realm); err == nil && o != nil {
			a.Overview, a.ReadHere = *o, here
		}
		return a, nil
	}
}
