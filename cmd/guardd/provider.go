package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate/asn"
)

// providersEvery is how often the file of providers is looked at: a newer one comes
// about once a week.
const providersEvery = time.Minute

// openProviders reads who announces which address, and takes a newer file as it
// comes; nil where there is none.
func (s *server) openProviders() (func(netip.Addr) uint32, error) {
	if s.config.ASNFile == "" {
		s.metrics.watchProviders(func() time.Time { return time.Time{} })
		return nil, nil
	}
	f, err := asn.Open(s.config.ASNFile)
	if err != nil {
		return nil, fmt.Errorf("asn_file: %w", err)
	}
	s.metrics.watchProviders(f.Built)
	s.log.Info("providers of addresses are known", "file", s.config.ASNFile, "kind", f.Kind(), "built", f.Built().Format(time.DateOnly))
	s.background(func(ctx context.Context) {
		tick := time.NewTicker(providersEvery)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			said = s.reloadProviders(f, said)
		}
	})
	return f.Of, nil
}

// reloadProviders takes a newer file, and says what is wrong with it, once.
func (s *server) reloadProviders(f *asn.File, said string) string {
	changed, err := f.Reload()
	switch {
	case err != nil && err.Error() != said:
		s.log.Error("a file of providers is not taken", "file", s.config.ASNFile, "error", err)
		return err.Error()
	case err != nil:
		return said
	case changed:
		s.log.Info("a newer file of providers is taken", "file", s.config.ASNFile, "kind", f.Kind(), "built", f.Built().Format(time.DateOnly))
	}
	return ""
}

// watchProviders exports when the file of providers was made.
func (m *metrics) watchProviders(built func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "guardd_asn_file_timestamp_seconds",
		Help: "When the file of addresses' providers was made; 0: there is none."}, func() float64 {
		if b := built(); !b.IsZero() {
			return float64(b.Unix())
		}
		return 0
	}))
}
