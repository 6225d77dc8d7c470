package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"syscall"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/captcha"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/redisstore"
)

// newServer builds every part, left to right along the import line: store,
// guard, HTTP. Parts push their undo on s.undo; on an error what was built is
// undone.
func newServer(c *config, log *slog.Logger) (*server, error) {
	s := &server{config: c, log: log, metrics: newMetrics(c.policy, c.NativeHistograms), quotaFindings: make(chan aggregate.Finding, quotasWaiting)}
	if err := s.build(); err != nil {
		return nil, errors.Join(err, s.undo.run())
	}
	return s, nil
}

func (s *server) build() error {
	store, err := s.openStore()
	if err != nil {
		return err
	}
	if err := s.openTracing(); err != nil {
		return err
	}
	if s.guard, err = s.openGuard(store); err != nil {
		return err
	}
	s.undo.push(s.closeGuard)
	if err := s.openDesk(store); err != nil {
		return err
	}
	if err := s.openLimits(store); err != nil {
		return err
	}
	if s.bus, err = s.openBus(); err != nil {
		return err
	}
	if err := s.openSOC(); err != nil {
		return err
	}
	s.openMoments()
	s.background(s.publishQuotas)
	if err := s.openAggregator(); err != nil {
		return err
	}
	if err := s.openEvents(); err != nil {
		return err
	}
	if err := s.openBreached(); err != nil {
		return err
	}
	return s.openListeners()
}

// store counts, and remembers revocations, answers and codes.
type store interface {
	keys.Store
	keys.Records
	keys.Tallies
	keys.Codes
	keys.Settler
	keys.Leaser
	keys.Slots
}

// openStore returns the embedded twin, or Redis with the twin behind it. It
// does not wait for Redis: a guardd that starts during an outage answers alone
// and finds Redis when it comes back.
func (s *server) openStore() (store, error) {
	twin := keys.NewMemory(keys.MemoryConfig{Buckets: s.config.MemoryEntries, Marks: s.config.MemoryEntries})
	s.metrics.watchTwin(twin)
	if s.config.Redis == "" {
		s.trail = keys.NewMemoryTrail(s.config.evidenceRoom(), nil)
		s.ready = func(context.Context) error { return nil }
		s.metrics.watchFleet(nil, nil)
		return twin, nil
	}
	deadline := time.Duration(s.config.RedisDeadline)
	client, err := redisstore.Open(s.config.Redis, deadline)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s.undo.push(client.Close)
	s.ready = func(ctx context.Context) error {
		if s.outage() {
			return keys.ErrOpen
		}
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		return client.Ping(ctx).Err()
	}
	shared := redisstore.New(redisstore.Config{Client: client, Deadline: deadline})
	s.trail = shared.Trail(s.config.evidenceRoom())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := shared.Load(ctx); err != nil {
		s.log.Warn("redis does not answer: deciding alone until it does", "redis", redactURL(s.config.Redis), "error", err)
		s.metrics.storeFailed("load", err)
	} else {
		s.log.Info("counting in redis", "redis", redactURL(s.config.Redis))
		if policy := shared.Evicts(ctx); policy != "" {
			s.log.Warn("redis drops keys when its memory is full, so a flood of names frees what others have spent: set its maxmemory-policy to noeviction", "maxmemory_policy", policy)
		}
	}
	return s.openFleet(shared, twin)
}

// storeFailed counts a failure of the shared store, and logs the first of many.
func (s *server) storeFailed(op string, err error) {
	s.metrics.storeFailed(op, err)
	if !errors.Is(err, context.Canceled) && s.storeLogged.due() {
		s.log.Warn("redis does not answer: deciding alone", "operation", op, "error", err)
	}
}

func (s *server) openGuard(st store) (*escalation.Guard, error) {
	secrets, err := s.openSecrets()
	if err != nil {
		return nil, err
	}
	s.secrets = secrets
	if s.config.Shadow {
		s.log.Warn("shadow mode: every attempt is allowed, would says what it would have been")
	}
	deliver, providers, err := s.config.connect(s.log)
	if err != nil {
		return nil, err
	}
	c := escalation.Config{
		Store: st, Records: st, Tallies: st, Codes: st, Policy: s.config.policy, Secrets: secrets,
		Shadow: s.config.Shadow, Instance: s.instance, FloodAddresses: s.config.MemoryEntries,
		Delivered: s.delivered, Asked: s.asked,
		Tracer: s.tracer, Renderer: captcha.Renderer{}, Deliver: deliver, Providers: providers, PublicURL: s.config.PublicURL,
	}
	if s.live != nil {
		c.Live = s.live.Count
	}
	return escalation.New(c)
}

// openSecrets returns the secret file's; without one (only possible where this
// process is alone) it makes a secret up, and says so where nobody can miss it.
func (s *server) openSecrets() (*escalation.Secrets, error) {
	if s.config.secrets == nil {
		s.log.Warn("NO SECRET FILE: sealing with a secret that ends with this process. " +
			"After a restart every known device, open attempt and waiting visitor starts anew. " +
			"For production: (umask 077; openssl rand -base64 32 > guardd.secret), and --secret-file guardd.secret")
		return escalation.GenerateSecrets()
	}
	return s.config.secrets, nil
}

// openListeners binds every address before anything is served, so that a
// taken port is found at once.
func (s *server) openListeners() (err error) {
	if s.service.listener, err = listen("listen", s.config.Listen); err != nil {
		return err
	}
	s.undo.push(s.service.close)
	if s.admin.listener, err = listen("admin-listen", s.config.AdminListen); err != nil {
		return err
	}
	s.undo.push(s.admin.close)

	service, err := s.openChallenges(api.Service(api.Config{
		Guard: s.guard, Keys: s.apiKeys(), Log: s.log, Observer: s.observer, Draining: s.draining.Load,
		Breached: s.breachedAPI(), Limits: s.limits, Tracer: s.tracer,
	}))
	if err != nil {
		return err
	}
	s.service.server = api.NewServer(service, s.log)
	s.admin.server = api.NewServer(api.Admin(api.AdminConfig{
		Metrics: s.metrics.handler(), Ready: s.readiness, Pprof: !s.config.AdminOpen, Operators: s.operators(),
	}), s.log)
	// A CPU profile takes half a minute by default to write its answer.
	s.admin.server.WriteTimeout = 2 * time.Minute
	return nil
}

// listen binds the address of one of settings, and says what to do where
// another process has it: two guardds on one machine are met on the first day.
func listen(setting, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: end what listens there, or give another address with --%s", addr, setting)
	case err != nil:
		return nil, fmt.Errorf("--%s: %w", setting, err)
	}
	return l, nil
}

func (s *server) apiKeys() []api.Key {
	var ks []api.Key
	for _, k := range s.config.APIKeys {
		ks = append(ks, api.Key{Name: k.Name, SHA256: k.SHA256, Realms: k.Realms, Role: k.Admin})
	}
	return ks
}

// redactURL hides the password of a URL, for logs. What cannot be read is
// hidden whole.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(hidden)"
	}
	return u.Redacted()
}
