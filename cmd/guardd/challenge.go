package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/captcha"
	"github.com/guardd/guardd/escalation/delivery"
)

// reach is how one realm's visitors and owners are reached: by third parties'
// challenges and by messages. It holds secrets, and swaps with the policy.
type reach struct {
	delivery  delivery.Config
	providers []captcha.Config
}

// loadReach reads the secrets that the realms' deliveries and providers name,
// and has each judged. file is where the realms stand.
func (c *config) loadReach(file string, p *escalation.Policy, bad *faults) {
	c.reach = map[string]reach{}
	for _, name := range slices.Sorted(maps.Keys(p.Realms)) {
		r := p.Realms[name]
		if r == nil {
			continue
		}
		at := "realms." + name + "."
		secrets := func(field, path string) [][]byte {
			if path == "" {
				return nil
			}
			lines, err := c.readSecretFile(beside(file, path))
			if err != nil {
				bad.add(at+field, "%v", err)
			}
			return lines
		}
		reach := reach{delivery: delivery.Config{Delivery: r.Delivery, Realm: name, Secrets: secrets("delivery.secret_file", r.Delivery.SecretFile)}}
		if r.Delivery.Driver != "" { // the policy itself says that there is none
			addPolicyFaults(reach.delivery.Validate(), bad)
		}
		for i, third := range r.Providers {
			field := fmt.Sprintf("providers[%d]", i)
			k := captcha.Config{ThirdParty: third, Path: at + field}
			if lines := secrets(field+".secret_file", third.SecretFile); len(lines) > 0 {
				k.Secret = string(lines[0])
			}
			addPolicyFaults(k.Validate(), bad)
			reach.providers = append(reach.providers, k)
		}
		c.reach[name] = reach
	}
}

// connect makes what loadReach has judged. It dials nobody.
func (c *config) connect(log *slog.Logger) (map[string]escalation.Deliverer, map[string][]escalation.Provider, error) {
	deliver, providers := map[string]escalation.Deliverer{}, map[string][]escalation.Provider{}
	for name, r := range c.reach {
		r.delivery.Log = log
		d, err := delivery.New(r.delivery)
		if err != nil {
			return nil, nil, err
		}
		deliver[name] = d
		for _, k := range r.providers {
			p, err := captcha.NewProvider(k)
			if err != nil {
				return nil, nil, err
			}
			providers[name] = append(providers[name], p)
		}
	}
	return deliver, providers, nil
}

// checkPublicURL holds what stands before the links of challenges to a form
// that links can be made of.
func (c *config) checkPublicURL(bad *faults) {
	if c.PublicURL == "" {
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		bad.add("public_url", "must be like https://login.example.com, not %q", c.PublicURL)
	}
}

// openChallenges serves the pages on the service's listener, or on one of
// their own, so that browsers need not reach /v1.
func (s *server) openChallenges(service http.Handler) (http.Handler, error) {
	pages := api.Challenges(api.Config{
		Challenger: s.guard, PublicURL: s.config.PublicURL, Log: s.log, Observer: s.observer, Draining: s.draining.Load, Tracer: s.tracer,
		Breached: s.breachedAPI(),
	})
	if s.config.ChallengeListen == "" {
		mux := http.NewServeMux()
		mux.Handle("/challenges/", pages)
		mux.Handle("/", service)
		return mux, nil
	}
	var err error
	if s.challenges.listener, err = listen("challenge-listen", s.config.ChallengeListen); err != nil {
		return nil, err
	}
	s.undo.push(s.challenges.close)
	s.challenges.server = api.NewServer(pages, s.log)
	return service, nil
}

// delivered counts a message, and logs one of many that reached nobody: an
// owner waits for it, and only the operator can mend why.
func (s *server) delivered(m *escalation.Message, err error) {
	s.metrics.delivered(m, err)
	if err != nil && s.messageLogged.due() {
		args := []any{"realm", m.Realm, "kind", m.Kind, "account_hash", m.AccountHash, "error", err}
		if !m.Trace.IsZero() {
			args = append(args, "trace_id", m.Trace.TraceID())
		}
		s.log.Warn("a message reached nobody", args...)
	}
}

// asked counts what a third party answered, and logs one of many that were none.
func (s *server) asked(provider string, ok bool, err error) {
	s.metrics.asked(provider, ok, err)
	if err == nil || !s.providerLogged.due() {
		return
	}
	if errors.Is(err, escalation.ErrMisconfigured) {
		s.log.Error("a third party refuses our own keys: its challenges pass nobody", "provider", provider, "error", err)
		return
	}
	s.log.Warn("a third party does not say whether its challenge was solved: ours are left", "provider", provider, "error", err)
}

// closeGuard lets the messages that are on their way arrive.
func (s *server) closeGuard() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.config.Drain))
	defer cancel()
	if err := s.guard.Close(ctx); err != nil {
		return errors.Join(errors.New("messages were not delivered"), err)
	}
	return nil
}
