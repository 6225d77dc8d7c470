package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation/operate"
)

// The routes of operators, on the admin listener.
const (
	RouteExplain = "/admin/v1/explain"
	RouteClear   = "/admin/v1/clear"
	RouteLists   = "/admin/v1/lists/{list}"
	RoutePosture = "/admin/v1/posture"
	RouteReload  = "/admin/v1/reload"
	RouteAudit   = "/admin/v1/audit"
)

// OperatorsConfig is what the routes of operators need. Desk is required.
type OperatorsConfig struct {
	Desk *operate.Desk
	// Limits explains plan limits; nil: there are none.
	Limits LimitsExplainer
	// LimitsStore is where plan limits are kept; nil: in no database.
	LimitsStore LimitsStore
	// Status is what the status page shows of this instance and of logins; nil: the
	// posture alone is known.
	Status StatusSource
	// Keys are those that services have, too; the ones without a role may
	// nothing here.
	Keys []Key
	// Loopback: the listener is on this machine alone. Then, when no key has a
	// role, everybody there may operate.
	Loopback bool
	Log      *slog.Logger // nil: nothing is logged
	Observer Observer     // nil: nobody is told
}

// MaxOperatorBody is the largest request body of an operator in bytes: a whole
// list fits.
const MaxOperatorBody = 1 << 20

// operatorsCarryOut is carryOut for operators: a look at all that was decided of
// late, or at a list of 10,000, takes longer than a decision.
const operatorsCarryOut = 20 * time.Second

type operators struct {
	*service
	desk     *operate.Desk
	keyed    bool // some key has a role
	loopback bool
}

// serveOperators adds the routes of operators to r.
func serveOperators(r chi.Router, c *OperatorsConfig) {
	s := &operators{newService(Config{Keys: c.Keys, Log: c.Log, Observer: c.Observer}), c.Desk,
		slices.ContainsFunc(c.Keys, func(k Key) bool { return k.Role > RoleNone }), c.Loopback}
	r.Group(func(r chi.Router) {
		r.Use(s.observe, noBrowsers)
		r.Post(RouteExplain, told(s, RoleRead, s.desk.Explain))
		r.Post(RouteClear, told(s, RoleOperate, s.desk.Clear))
		r.Get(RouteLists, asked(s, s.lists, "realm"))
		r.Put(RouteLists, s.ofList(func(list string) http.HandlerFunc { return told(s, RoleOperate, naming(s.desk.List, list)) }))
		r.Delete(RouteLists, s.ofList(func(list string) http.HandlerFunc { return told(s, RoleOperate, naming(s.desk.Unlist, list)) }))
		r.Get(RoutePosture, asked(s, s.posture, "realm"))
		r.Put(RoutePosture, told(s, RoleOperate, s.desk.Pin))
		r.Delete(RoutePosture, told(s, RoleOperate, s.desk.Release))
		r.Post(RouteReload, told(s, RoleOperate, s.desk.Reload))
		r.Get(RouteAudit, asked(s, s.audit, "realm", "before", "limit"))
		r.Get(RouteStatus, asked(s, s.status(c.Status), "realm"))
		r.Get(RouteStatusPage, serveStatusPage)
		r.Post(RouteLimitsExplain, told(s, RoleRead, s.explainLimits(c.Limits)))
		s.serveLimits(r, c.LimitsStore)
	})
}

// told makes a handler of what an operator says in a body.
func told[Q, A any](s *operators, need Role, do func(context.Context, *operate.Who, *Q) (*A, error)) http.HandlerFunc {
	return s.serve(need, func(ctx context.Context, who *operate.Who, w http.ResponseWriter, r *http.Request) (any, error) {
		q, err := decodeUpTo[Q](w, r, MaxOperatorBody)
		if err != nil {
			return nil, err
		}
		return do(ctx, who, q)
	})
}

// asked makes a handler of what an operator asks in a query of these parameters.
func asked(s *operators, do func(context.Context, *operate.Who, *http.Request) (any, error), parameters ...string) http.HandlerFunc {
	return s.serve(RoleRead, func(ctx context.Context, who *operate.Who, _ http.ResponseWriter, r *http.Request) (any, error) {
		var faults []client.FieldError
		for name, values := range r.URL.Query() {
			if !slices.Contains(parameters, name) {
				faults = append(faults, client.FieldError{Field: fieldName(name), Reason: reasonUnknownField})
			} else if len(values) > 1 {
				faults = append(faults, client.FieldError{Field: name, Reason: reasonDuplicate})
			}
		}
		if len(faults) > 0 {
			return nil, problemInvalid(faults...)
		}
		return do(ctx, who, r)
	})
}

func (s *operators) serve(need Role, do func(context.Context, *operate.Who, http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, err := s.operator(r, need)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), operatorsCarryOut)
		defer cancel()
		a, err := do(ctx, &operate.Who{Name: key.Name, May: key.may}, w, r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", a)
	}
}

// ofList has the path say which list is meant.
func (s *operators) ofList(serve func(list string) http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serve(chi.URLParam(r, "list"))(w, r) }
}

func naming[Q, A any](do func(context.Context, *operate.Who, string, *Q) (*A, error), list string) func(context.Context, *operate.Who, *Q) (*A, error) {
	return func(ctx context.Context, who *operate.Who, q *Q) (*A, error) { return do(ctx, who, list, q) }
}

func (s *operators) lists(ctx context.Context, who *operate.Who, r *http.Request) (any, error) {
	return s.desk.Lists(ctx, who, r.URL.Query().Get("realm"), chi.URLParam(r, "list"))
}

func (s *operators) posture(ctx context.Context, who *operate.Who, r *http.Request) (any, error) {
	return s.desk.Posture(ctx, who, r.URL.Query().Get("realm"))
}

// auditAnswer is what operators did, newest first.
type auditAnswer struct {
	Entries []operate.Record `json:"entries"`
}

func (s *operators) audit(ctx context.Context, who *operate.Who, r *http.Request) (any, error) {
	q := r.URL.Query()
	before, err := numberOf(q.Get("before"), "before")
	if err != nil {
		return nil, err
	}
	limit, err := numberOf(q.Get("limit"), "limit")
	if err != nil {
		return nil, err
	}
	entries, err := s.desk.Audit(ctx, who, q.Get("realm"), before, int(limit))
	if err != nil {
		return nil, err
	}
	return &auditAnswer{entries}, nil
}

// numberOf reads a number of a query, 0 where there is none.
func numberOf(text, field string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, problemInvalid(client.FieldError{Field: field, Reason: "not_a_number"})
	}
	return n, nil
}
