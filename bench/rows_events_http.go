package main

import (
	"errors"
	"os"
	"path/filepath"
)

// eventsHTTPSide is guardd with brokers that work, are gone, and hang, beside one
// that has none.
type eventsHTTPSide struct {
	*httpSide
	brokers []*kafkaProcess
}

// The subjects.
const (
	noKafka    = "guardd, no Kafka"
	noEvents   = "guardd, no events"
	kafkaOn    = "guardd, Kafka"
	kafkaGone  = "guardd, Kafka gone"
	kafkaHangs = "guardd, Kafka hangs"
)

func newEventsHTTPSide(root string) (_ *eventsHTTPSide, err error) {
	h, err := newServers(root)
	if err != nil {
		return nil, err
	}
	s := &eventsHTTPSide{httpSide: h}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	silent := filepath.Join(h.dir, "silent.yaml")
	if err := os.WriteFile(silent, []byte("realms: {default: {events: false, delivery: {driver: log}}}\n"), 0o600); err != nil {
		return nil, err
	}
	if err := errors.Join(h.guardd(noKafka), h.guardd(noEvents, "--policy", silent)); err != nil {
		return nil, err
	}
	for _, name := range []string{kafkaOn, kafkaGone, kafkaHangs} {
		k, err := startKafka()
		if err != nil {
			return nil, err
		}
		s.brokers = append(s.brokers, k)
		config := filepath.Join(h.dir, filepath.Base(k.addr)+".yaml")
		if err := os.WriteFile(config, []byte("kafka: {partitions: 1, replication: 1}\nevents: {spool_dir: "+filepath.Join(h.dir, k.addr)+"}\n"), 0o600); err != nil {
			return nil, err
		}
		if err := h.guardd(name, "--config", config, "--kafka", k.addr); err != nil {
			return nil, err
		}
	}
	for _, p := range h.processes { // each has found its broker, or not, before that fails
		l := load{p.addr, &h.next, 4}
		if _, err := l.saturate(httpRound, (*session).attempt); err != nil {
			return nil, err
		}
	}
	s.brokers[1].stop()
	return s, s.brokers[2].freeze()
}

func (s *eventsHTTPSide) close() {
	for _, k := range s.brokers {
		k.stop()
	}
	s.httpSide.close()
}

func (s *eventsHTTPSide) groups() []group {
	const per = "requests/cpu s"
	g := group{name: "http, events", floor: noKafka, measure: per, unit: "requests a second of CPU, sender's and server's"}
	for _, p := range s.processes {
		g.subjects = append(g.subjects, subject{p.name, s.saturated(p, (*session).attempt)})
	}
	for _, x := range []struct{ of, what string }{{kafkaOn, "Kafka"}, {kafkaGone, "Kafka gone"}, {kafkaHangs, "Kafka hangs"}} {
		g.rows = append(g.rows, row{What: "POST /v1/attempts, " + x.what, Against: "the same without Kafka", of: x.of, base: noKafka, measure: per, higher: true, must: 0.90, aim: 0.95})
	}
	g.rows = append(g.rows, row{What: "POST /v1/attempts, no Kafka", Against: "the same without events", of: noKafka, base: noEvents, measure: per, higher: true, report: true})
	return []group{g}
}
