package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys/plans"
)

// The routes by which operators change plan limits.
const (
	RouteLimits        = "/admin/v1/limits"
	RouteLimitsRules   = "/admin/v1/limits/rules"
	RouteLimitsPlans   = "/admin/v1/limits/plans"
	RouteLimitsKeys    = "/admin/v1/limits/keys"
	RouteLimitsChanges = "/admin/v1/limits/changes"
)

// LimitsStore is where plan limits are kept; plandb.DB is one. It is safe for
// concurrent use. Its errors are plans.Faults, plans.ErrExists, plans.ErrNoRow,
// plans.ErrNewer and plans.ErrStore.
type LimitsStore interface {
	Load(ctx context.Context) (version int64, d *plans.Definition, err error)
	Change(ctx context.Context, o plans.Order) ([]plans.Record, error)
	Records(ctx context.Context, since time.Time, most int) ([]plans.Record, error)
}

// noLimitsStore is that of a guardd without a database of plan limits.
type noLimitsStore struct{}

func (noLimitsStore) Load(context.Context) (int64, *plans.Definition, error) {
	return 0, nil, problemNoLimits()
}

func (noLimitsStore) Change(context.Context, plans.Order) ([]plans.Record, error) {
	return nil, problemNoLimits()
}

func (noLimitsStore) Records(context.Context, time.Time, int) ([]plans.Record, error) {
	return nil, problemNoLimits()
}

// limitsEditor serves the routes of a LimitsStore.
type limitsEditor struct {
	*operators
	store LimitsStore
}

func (s *operators) serveLimits(r chi.Router, store LimitsStore) {
	if store == nil {
		store = noLimitsStore{}
	}
	e := &limitsEditor{s, store}
	r.Get(RouteLimits, asked(s, e.list))
	r.Put(RouteLimits, told(s, RoleOperate, e.replace))
	r.Get(RouteLimitsChanges, asked(s, e.changes, "since", "limit"))
	for method, action := range map[string]plans.Action{http.MethodPost: plans.Create, http.MethodPatch: plans.Change, http.MethodDelete: plans.Delete} {
		r.Method(method, RouteLimitsRules, told(s, RoleOperate, row(e, action, func(x *plans.RuleEdit) plans.Edit { return plans.Edit{Rule: x} })))
		r.Method(method, RouteLimitsPlans, told(s, RoleOperate, row(e, action, func(x *plans.PlanEdit) plans.Edit { return plans.Edit{Plan: x} })))
		r.Method(method, RouteLimitsKeys, told(s, RoleOperate, row(e, action, func(x *plans.KeyEdit) plans.Edit { return plans.Edit{Key: x} })))
	}
}

// limitsOrder is in every body that changes plan limits.
type limitsOrder struct {
	Reason string `json:"reason"`
	DryRun bool   `json:"dry_run"`
}

// rowOrder is a change of one row.
type rowOrder[T any] struct {
	Row T `json:",embed"`
	limitsOrder
}

// definitionOrder is a change of all of them.
type definitionOrder struct {
	Definition plans.Definition `json:"definition"`
	// Merge leaves alone what Definition does not name.
	Merge bool `json:"merge"`
	limitsOrder
}

// limitsChanged says what a change did.
type limitsChanged struct {
	Version int64          `json:"version,omitzero"` // that it made; none where nothing changed
	DryRun  bool           `json:"dry_run"`
	Changed bool           `json:"changed"`
	Changes []limitsRecord `json:"changes"`
	Key     string         `json:"key,omitempty"` // that was made up: it is shown once
}

type limitsRecord struct {
	Version int64          `json:"version,omitzero"`
	At      time.Time      `json:"at,omitzero"`
	By      string         `json:"by,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Action  plans.Action   `json:"action"`
	Kind    plans.Kind     `json:"kind"`
	Name    string         `json:"name"`
	Before  jsontext.Value `json:"before,omitempty"`
	After   jsontext.Value `json:"after,omitempty"`
}

func recordsOf(all []plans.Record) []limitsRecord {
	out := make([]limitsRecord, len(all))
	for i, r := range all {
		out[i] = limitsRecord{r.Version, r.At, r.Who, r.Why, r.Action, r.Kind, r.Name, jsontext.Value(r.Before), jsontext.Value(r.After)}
	}
	return out
}

// change has an order carried out, by whoever acts for every realm: plan limits
// are of none.
func (e *limitsEditor) change(ctx context.Context, who *operate.Who, o limitsOrder, edit func(*plans.Definition) error) (*limitsChanged, error) {
	if err := e.desk.Everywhere(who); err != nil {
		return nil, err
	}
	records, err := e.store.Change(ctx, plans.Order{Author: plans.Author{Who: who.Name, Why: o.Reason}, At: time.Now(), DryRun: o.DryRun, Edit: edit})
	if err != nil {
		return nil, err
	}
	a := &limitsChanged{DryRun: o.DryRun, Changed: len(records) > 0, Changes: recordsOf(records)}
	if a.Changed && !o.DryRun {
		a.Version = records[0].Version
		e.Log.Info("operator", "by", who.Name, "action", "limits.change", "reason", o.Reason, "rows", len(records), "version", a.Version)
	}
	return a, nil
}

// row makes a change of one row of what is said in a body.
func row[T any](e *limitsEditor, action plans.Action, edit func(*T) plans.Edit) func(context.Context, *operate.Who, *rowOrder[T]) (*limitsChanged, error) {
	return func(ctx context.Context, who *operate.Who, q *rowOrder[T]) (*limitsChanged, error) {
		x := edit(&q.Row)
		x.Action = action
		made := ""
		if x.Key != nil && x.Key.SHA256 == (plans.Digest{}) {
			if action != plans.Create {
				return nil, problemInvalid(client.FieldError{Field: "sha256", Reason: "missing"})
			}
			made, x.Key.SHA256 = plans.NewKey()
		}
		a, err := e.change(ctx, who, q.limitsOrder, x.Apply)
		if err != nil {
			return nil, withinRow(&x, err)
		}
		if !q.DryRun {
			a.Key = made
		}
		return a, nil
	}
}

// withinRow names the fields of the row that was given as they were given.
func withinRow(x *plans.Edit, err error) error {
	var bad plans.Faults
	if kind, name, rerr := x.Row(); errors.As(err, &bad) && rerr == nil {
		return bad.Within(kind, name)
	}
	return err
}

func (e *limitsEditor) replace(ctx context.Context, who *operate.Who, q *definitionOrder) (*limitsChanged, error) {
	return e.change(ctx, who, q.limitsOrder, func(d *plans.Definition) error {
		if q.Merge {
			d.Merge(&q.Definition)
		} else {
			*d = q.Definition
		}
		return nil
	})
}

// limitsListed is all there is, and what is wrong with it.
type limitsListed struct {
	Version    int64             `json:"version"`
	Definition *plans.Definition `json:"definition"`
	Bad        []plans.Fault     `json:"bad"`
}

func (e *limitsEditor) list(ctx context.Context, who *operate.Who, _ *http.Request) (any, error) {
	if err := e.desk.Everywhere(who); err != nil {
		return nil, err
	}
	version, d, err := e.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	bad := plans.Check(d)
	return &limitsListed{version, d.Brief(), d.ByName(bad)}, nil
}

// Bounds of a look at the audit of plan limits.
const (
	changesShown = 100
	changesMost  = 10_000
)

func (e *limitsEditor) changes(ctx context.Context, who *operate.Who, r *http.Request) (any, error) {
	if err := e.desk.Everywhere(who); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	since := time.Time{}
	if text := q.Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, problemInvalid(client.FieldError{Field: "since", Reason: "not_a_time"})
		}
	}
	most := changesShown
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > changesMost {
			return nil, problemInvalid(client.FieldError{Field: "limit", Reason: "out_of_range"})
		}
		most = n
	}
	all, err := e.store.Records(ctx, since, most)
	if err != nil {
		return nil, err
	}
	return &struct {
		Changes []limitsRecord `json:"changes"`
	}{recordsOf(all)}, nil
}

func problemNoLimits() *client.Problem {
	return problem(client.ProblemNoLimits, http.StatusNotFound, "No database of plan limits",
		"This guardd keeps its plan limits in a file, or has none: limits_db names a database.")
}
