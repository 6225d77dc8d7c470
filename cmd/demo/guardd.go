package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/captcha"
	"github.com/guardd/guardd/keys"
)

// guardd is what "guardd serve" is with an embedded store: the same handlers,
// on a port of their own. In earnest it is a process of its own.
type guardd struct {
	url     string
	guard   *escalation.Guard
	readers *readers
	server  *http.Server
}

func startGuardd(port int, shopURL string, inbox *inbox, failed chan<- error) (*guardd, error) {
	at, err := listen("guardd-port", port)
	if err != nil {
		return nil, err
	}
	g := &guardd{url: "http://" + at.Addr().String(), readers: &readers{Renderer: captcha.Renderer{}}}
	if err = g.open(shopURL, inbox); err != nil {
		return nil, errors.Join(err, at.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/challenges/", api.Challenges(api.Config{Challenger: g.guard, PublicURL: g.url}))
	mux.Handle("/", api.Service(api.Config{Guard: g.guard}))
	g.server = api.NewServer(mux, nil)
	go serve(g.server, at, failed)
	return g, nil
}

// open makes a guard of the default policy, whose codes go to the shop's inbox.
func (g *guardd) open(shopURL string, inbox *inbox) error {
	policy := escalation.DefaultPolicy()
	realm := policy.Realms[escalation.DefaultRealm]
	realm.ReturnOrigins = []string{shopURL}
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		return err
	}
	twin := keys.NewMemory(keys.MemoryConfig{})
	g.guard, err = escalation.New(escalation.Config{
		Store: twin, Records: twin, Tallies: twin, Codes: twin, Policy: policy, Secrets: secrets,
		PublicURL: g.url, Renderer: g.readers,
		Deliver: map[string]escalation.Deliverer{escalation.DefaultRealm: inbox},
	})
	return err
}

func (g *guardd) close() error {
	err := g.server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, g.guard.Close(ctx))
}
