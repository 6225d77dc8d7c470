package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
)

// detectionMode is on, dry-run or off.
type detectionMode string

const (
	detectionOn  detectionMode = "on"
	detectionDry detectionMode = "dry-run"
	detectionOff detectionMode = "off"
)

// UnmarshalText refuses any other word.
func (d *detectionMode) UnmarshalText(text []byte) error {
	switch m := detectionMode(text); m {
	case detectionOn, detectionDry, detectionOff:
		*d = m
		return nil
	}
	return errors.New("must be on, dry-run or off")
}

// fragmented: this instance sees only its own events while others see theirs. Of two
// that judge parts one may lower what the other has raised.
func (c *config) fragmented() bool {
	return c.Redis != "" && len(c.Kafka.Brokers) == 0 && c.Instances != 1
}

// detection makes what looks for attacks on a realm; nil where nobody is to.
func (s *server) detection() func(realm string, state []byte) aggregate.Watch {
	mode := s.config.Detection
	if mode == detectionOff {
		return nil
	}
	if mode == detectionOn && s.config.fragmented() {
		mode = detectionDry
		s.log.Warn("detection does nothing but say what it finds: without kafka each instance sees its own events only (instances: 1 says that this is the only one)")
	}
	s.log.Info("all logins together are watched for attacks", "detection", string(mode))
	return func(realm string, state []byte) aggregate.Watch {
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // it never fails
		w, err := aggregate.NewDetection(aggregate.DetectionConfig{Realm: realm, Seed: binary.LittleEndian.Uint64(seed[:]),
			DryRun: mode == detectionDry, Found: s.found(realm, mode)}, state)
		if err != nil {
			s.log.Warn("what was learned of normal logins cannot be read, and is learned anew", "realm", realm, "error", err)
		}
		return w
	}
}

// found logs each campaign once when it is opened and once when it is closed. With the
// mode: whoever reads of an attack must know whether anything is done about it.
func (s *server) found(realm string, mode detectionMode) func(*detect.Campaign) {
	known := map[string]bool{}
	return func(c *detect.Campaign) {
		switch {
		case c.End != 0:
			delete(known, c.ID)
			s.log.Info("an attack has ended", "realm", realm, "campaign", c.ID, "what", c.Text(hashOnly))
		case !known[c.ID] && len(known) < maxCampaignsLogged:
			known[c.ID] = true
			s.log.Warn("an attack", "realm", realm, "campaign", c.ID, "what", c.Text(hashOnly), "detection", string(mode))
		}
	}
}

// maxCampaignsLogged bounds what found remembers.
const maxCampaignsLogged = 4096

func hashOnly(account string) string { return account }
