package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/moments"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/trace"
)

const serveUsage = `usage: guardd serve [flags]

Answers login handlers, until SIGTERM or SIGINT. SIGHUP reads the policy again.

`

// serveCommand runs until ctx ends or SIGTERM or SIGINT comes. SIGHUP reloads the policy.
func serveCommand(ctx context.Context, args []string, getenv env, out, errOut io.Writer) int {
	fl, rest, err := parseFlags("serve", serveUsage, args, getenv, out, errOut)
	switch {
	case err != nil:
		return usageCode(err)
	case len(rest) > 0:
		fmt.Fprintf(errOut, "guardd: serve: takes flags only, not %q (a command goes before its flags)\n", rest[0])
		return exitUsage
	}
	c, err := load(fl)
	if err != nil {
		return refuse(errOut, err)
	}
	log := newLogger(errOut, c.Log)
	for _, w := range c.warnings {
		log.Warn(w)
	}
	s, err := newServer(c, log)
	if err != nil {
		log.Error("cannot start", "error", err)
		return exitFailed
	}
	s.reread = func() (*config, error) { return load(fl) }
	if err := s.run(ctx); err != nil {
		log.Error("ended", "error", err)
		return exitFailed
	}
	return exitOK
}

// server is a running guardd.
type server struct {
	config  *config
	log     *slog.Logger
	metrics *metrics
	guard   *escalation.Guard
	desk    *operate.Desk
	secrets *escalation.Secrets
	limits  *plans.Taker
	trail   keys.Trail // of evidence about them
	// limitsDB is where plan limits are kept, and follower keeps limits at what it
	// says; nil without one.
	limitsDB *plandb.DB
	follower *plandb.Follower

	service, admin endpoint
	challenges     endpoint // without a listener, service serves them
	draining       atomic.Bool
	// What has been logged of late.
	storeLogged, messageLogged, providerLogged, kafkaLogged, eventsLogged, limitsLogged, ledgerLogged, aggregatorLogged, tracingLogged, momentsLogged, socLogged, socDeadLogged seldom
	// ready asks the shared store whether it is there.
	ready func(context.Context) error
	// With a shared store: this instance's name there, who else lives off it, and
	// whether the breaker holds calls back.
	instance [8]byte
	live     *keys.Live
	fallback *keys.Fallback
	outage   func() bool
	// corpora are the files of leaked passwords; breached is who answers, nil for
	// nobody.
	corpora  *corpora
	breached breached.Source
	// bus carries events, to other instances where it is Kafka's.
	bus aggregate.Bus
	// quotaFindings wait to be published.
	quotaFindings chan aggregate.Finding
	quotasTold    atomic.Uint64
	// moments publishes what operators do and how the posture changes.
	moments *moments.Teller
	// keeper keeps what is learned of many attempts, recents the last of them.
	keeper  keeper
	recents *aggregate.Recents
	// published counts what becomes of events; aggregator reads them, nil: not here.
	published  func() aggregate.Stats
	aggregator *aggregate.Aggregator
	// tracer exports traces of requests; nil: nobody does.
	tracer *trace.Tracer
	// observer is told of every answer: metrics, and the publisher of events.
	observer api.Observer
	// reread loads the configuration again, for a reload.
	reread  func() (*config, error)
	reading sync.Mutex // one reload at a time
	undo    cleanups
}

// endpoint is a listener and what serves on it.
type endpoint struct {
	listener net.Listener
	server   *http.Server
}

// close ends the endpoint at once. The listener is closed twice when it was served; only
// the first counts.
func (e *endpoint) close() error {
	var err error
	if e.server != nil {
		err = e.server.Close()
	}
	if cerr := e.listener.Close(); !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

func (s *server) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.undo.run()) }()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	s.background(s.follow)
	endpoints := []*endpoint{&s.service, &s.admin}
	pages := s.service.url()
	if s.challenges.server != nil {
		endpoints, pages = append(endpoints, &s.challenges), s.challenges.url()
	}
	failed := make(chan error, len(endpoints))
	for _, e := range endpoints {
		go func() { failed <- e.server.Serve(e.listener) }()
	}
	s.log.Info("listening", "service", s.service.url(), "challenges", pages+"/challenges", "admin", s.admin.url(), "version", buildInfo().version)
	for {
		select {
		case <-hup:
			_ = s.reload() // it has said what is wrong
			s.corpora.reload()
		case err := <-failed:
			return err
		case <-ctx.Done():
			stop() // a second signal ends the process at once
			return s.drain()
		}
	}
}

func (e *endpoint) url() string { return "http://" + e.listener.Addr().String() }

// drain ends the service without cutting anybody off: /readyz turns to 503 so
// that balancers look elsewhere, requests go on for DrainNotice while they do,
// and those begun have Drain to finish. The admin listener answers to the end.
func (s *server) drain() error {
	s.draining.Store(true)
	s.log.Info("draining", "notice", s.config.DrainNotice.String(), "at_most", s.config.Drain.String())
	time.Sleep(time.Duration(s.config.DrainNotice))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.config.Drain))
	defer cancel()
	err := s.service.server.Shutdown(ctx)
	if s.challenges.server != nil {
		err = errors.Join(err, s.challenges.server.Shutdown(ctx))
	}
	if err != nil {
		return fmt.Errorf("requests were cut off after %s: %w", s.config.Drain, err)
	}
	s.log.Info("stopped")
	return nil
}

// reload swaps the policy in whole. On any fault the old one stays in force. Everything
// else in the file waits for a restart, and is named.
func (s *server) reload() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	c, err := s.reread()
	if err == nil {
		err = s.swapPolicy(c)
	}
	if err != nil {
		s.metrics.reloaded(nil)
		s.log.Error("reload refused, the old policy stays in force", "error", err)
		return err
	}
	for _, w := range c.warnings {
		s.log.Warn(w)
	}
	if names := s.config.differs(c); len(names) > 0 {
		s.log.Warn("changes of these keys wait for a restart", "keys", names)
	}
	s.metrics.reloaded(c.policy)
	s.log.Info("policy reloaded", "realms", len(c.policy.Realms))
	return nil
}

func (s *server) swapPolicy(c *config) error {
	deliver, providers, err := c.connect(s.log)
	if err != nil {
		return err
	}
	if err := s.guard.Reload(c.policy, deliver, providers); err != nil {
		return err
	}
	s.reloadLimits(c)
	return nil
}

// readiness is what /readyz says: decisions are possible unless draining, with the shared
// store or without it.
func (s *server) readiness() (status string, ok bool) {
	switch {
	case s.draining.Load():
		return "draining", false
	case s.ready(context.Background()) != nil:
		return "degraded", true
	}
	return "ok", true
}
