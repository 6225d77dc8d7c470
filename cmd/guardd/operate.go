package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys/redisstore"
)

// operatorsDeadline bounds one call of the shared store for operators. They wait
// longer than visitors, and over connections of their own: a list of 10,000 must
// not stand before an attempt.
const operatorsDeadline = time.Second

// openDesk makes what operators are served by, and has it follow what they do at
// other instances.
func (s *server) openDesk(st store) error {
	c := operate.Config{Guard: s.guard, Log: s.log, Reload: s.reloadFor,
		Realms: s.realms}
	if c.Store, _ = st.(operate.Store); s.fallback != nil {
		client, err := redisstore.Open(s.config.Redis, operatorsDeadline)
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		s.undo.push(client.Close)
		c.Store, c.Here = redisstore.New(redisstore.Config{Client: client, Deadline: operatorsDeadline}), s.fallback
	}
	var ok bool
	if s.keeper, ok = c.Store.(keeper); !ok {
		return fmt.Errorf("the store %T keeps nothing for operators", st) // not with those of openStore
	}
	s.recents = s.openRecents()
	if s.config.Aggregate || s.fallback != nil { // else nobody keeps any
		c.Recents = recents{s.recents}
	}
	c.Applied = s.metrics.operated
	s.desk = operate.New(c, hex.EncodeToString(s.instance[:]))
	s.metrics.watchDesk(s.desk.Age)
	return nil
}

// recents are the events of late as operators see them.
type recents struct{ kept *aggregate.Recents }

// Recent is operate.Recents'.
func (r recents) Recent(ctx context.Context, realm string, q operate.Query) ([]operate.Decision, error) {
	events, err := r.kept.Find(ctx, realm, aggregate.Query{ID: q.ID, Attempt: q.Attempt, Account: q.Account, IP: q.IP,
		Network: q.Network, Device: q.Device, Most: q.Most})
	all := make([]operate.Decision, 0, len(events))
	for i := range events {
		if e := &events[i]; e.Kind == aggregate.KindAttempt || e.Kind == aggregate.KindOutcome {
			all = append(all, decisionOf(e))
		}
	}
	return all, err
}

func decisionOf(e *aggregate.Event) operate.Decision {
	d := operate.Decision{ID: e.ID, Outcome: e.Outcome, Time: e.Time, Flow: e.Flow, Account: e.Account, IP: e.IP, Network: e.Network,
		Attempt: e.Attempt, Action: e.Action, Would: e.Would, Reasons: e.Reasons, Proof: e.Proof, ProofError: e.ProofError,
		KnownDevice: e.KnownDevice, Familiar: e.Familiar, Device: e.Device, Posture: e.Posture, Degraded: e.Degraded, Shadow: e.Shadow,
		Duplicate: e.Duplicate, Expired: e.Expired, Breached: e.Breached, Repeat: e.Repeat, UAClass: e.UAClass, Channel: e.Channel}
	for _, t := range e.Tiers {
		d.Limits = append(d.Limits, operate.LimitThen(t))
	}
	return d
}

// follow has this instance do what operators have done at others.
func (s *server) follow(ctx context.Context) {
	s.desk.Run(ctx, func(err error) { s.storeFailed("operators", err) })
}

// operators is what the admin listener serves operators by.
func (s *server) operators() *api.OperatorsConfig {
	return &api.OperatorsConfig{Desk: s.desk, Limits: s.limits, LimitsStore: s.limitsStore(), Status: statusSource{s, time.Now()}, Keys: s.apiKeys(), Loopback: onLoopback(s.admin.listener.Addr().String()),
		Log: s.log, Observer: s.metrics}
}

func onLoopback(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// reloadFor is a reload that an operator asks for.
func (s *server) reloadFor(dry bool) error {
	if s.reread == nil {
		return faultsFor(errors.New("config: nothing to read again"))
	}
	if dry {
		c, err := s.reread()
		if err == nil {
			_, _, err = c.connect(s.log)
		}
		return faultsFor(err)
	}
	err := s.reload()
	s.corpora.reload()
	return faultsFor(err)
}

// faultsFor has an operator told each fault of a configuration under its path.
func faultsFor(err error) error {
	if err == nil {
		return nil
	}
	var all escalation.Faults
	for line := range strings.Lines(err.Error()) {
		field, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			field, reason = "config", field
		}
		all.Add(field, "%s", reason)
	}
	return all
}

// operated counts an operator's change.
func (m *metrics) operated(action string) {
	m.operations.WithLabelValues(pick(operatorActions, action)).Inc()
}

// watchDesk says how late this instance may be with what operators do.
func (m *metrics) watchDesk(age func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "guardd_operator_journal_age_seconds",
		Help: "Time since this instance last looked for what operators have done at others."},
		func() float64 { return age().Seconds() }))
}
