package main

import (
	"context"
	"encoding/hex"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/moments"
)

// openMoments has what operators do, and every change of posture, published as
// findings, by one instance of those that share the store.
func (s *server) openMoments() {
	s.moments = moments.New(moments.Config{Store: s.keeper, Journal: s.desk, Realms: s.realms, Shards: s.shards, Bus: s.bus,
		Instance: hex.EncodeToString(s.instance[:]), Now: s.guard.Now, Told: s.toldOf})
	s.background(func(ctx context.Context) {
		s.moments.Run(ctx, func(err error) {
			if s.momentsLogged.due() {
				s.log.Warn("what operators do and how the posture changes is not published: it is tried again", "error", err)
			}
		})
	})
}

// toldOf logs changes of posture; the desk has logged what operators do.
func (s *server) toldOf(f *aggregate.Finding) {
	if f.What == aggregate.PostureChange {
		s.log.Warn("the posture has changed", "realm", f.Realm, "was", f.Was, "is", f.Is, "reason", f.Reason)
	}
}
