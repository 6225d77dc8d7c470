package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

func TestFaultsOfEventsAreRefusedByName(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"{spool_bytes: 1000}", "events.spool_bytes: must be 1048576 or more, not 1000"},
		{"{spool_bytes: -1}", "events.spool_bytes: must be "},
		{"{ring: 0}", "events.ring: must be from 1 to 16777216, not 0"},
		{"{ring: 100000000}", "events.ring: must be "},
		{"{spool: x}", "events.spool: "},
		{"{ring: many}", "events.ring: "},
	} {
		_, err := loadWith(t, "events: "+tt.yaml, nil)
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+tt.want) {
			t.Errorf("%s: %v, not %q", tt.yaml, err, tt.want)
		}
	}
	c, err := loadWith(t, "", nil, "--kafka", "k:1")
	if err != nil || len(c.warnings) != 1 || !strings.Contains(c.warnings[0], "events.spool_dir is not set") {
		t.Errorf("Kafka without a spool: warnings %q, error %v", c.warnings, err)
	}
	if c, err = loadWith(t, "{events: {spool_dir: x}, kafka: {brokers: ['k:1']}}", nil); err != nil || len(c.warnings) > 0 || !filepath.IsAbs(c.Events.SpoolDir) {
		t.Errorf("with one, beside the file: %q, warnings %q, error %v", c.Events.SpoolDir, c.warnings, err)
	}
	file := writeFile(t, "file", "")
	if _, err := startProcess("", nil, "--config", writeFile(t, "guardd.yaml", "events: {spool_dir: "+file+"}")); err == nil || !strings.Contains(err.Error(), "events.spool_dir: ") {
		t.Errorf("a file in place of the folder: %v", err)
	}
}

// While Kafka is away, and while it hangs, guardd decides as ever, and keeps the
// events, over its own kill too: afterwards each is on the topic.
func TestServeKeepsTheEventsOfAnOutageOfKafka(t *testing.T) {
	s := kafkatest.Start(t, kafkatest.Options{})
	c := writeFile(t, "guardd.yaml", fmt.Sprintf("{kafka: {brokers: ['%s'], partitions: 2}, events: {spool_dir: %s}}", s.Addr(), filepath.Join(t.TempDir(), "spool")))
	made := 0
	var p *process
	attempts := func(n int) {
		t.Helper()
		for range n {
			made++
			if a := p.attempt(t, fmt.Sprint("user", made), "192.0.2.1"); a.Degraded || a.Action == "" {
				t.Errorf("attempt %d: %+v", made, a)
			}
		}
	}
	await := func(series string, ok func(n int) bool) {
		t.Helper()
		defer func() {
			if t.Failed() {
				_, text := get(t, p.admin+"/metrics")
				for line := range strings.Lines(text) {
					if strings.HasPrefix(line, "guardd_events_") || strings.HasPrefix(line, "guardd_kafka_") {
						t.Log(strings.TrimSpace(line))
					}
				}
			}
		}()
		p.until(t, series, func() bool {
			var n int
			if _, err := fmt.Sscan(p.metric(t, series), &n); err != nil {
				t.Fatal(err)
			}
			return ok(n)
		})
	}
	none, some := func(n int) bool { return n == 0 }, func(n int) bool { return n > 0 }

	p = startGuardd(t, "--config", c)
	attempts(10)
	await("guardd_events_published_total", func(n int) bool { return n == 10 })
	s.Pause()
	attempts(10)
	await("guardd_events_spooled", some)
	s.Resume()
	await("guardd_events_spooled", none)
	await("guardd_events_waiting", none)
	s.Kill()
	attempts(10)
	await("guardd_events_spooled", func(n int) bool { return n == 10 })
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.done

	p = startGuardd(t, "--config", c)
	attempts(10)
	await("guardd_events_spooled", func(n int) bool { return n == 21 }) // and the end of the killed one
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	await("guardd_events_spooled", none)
	if n := p.metric(t, `guardd_events_lost_total{reason="spool"}`); n != "0" {
		t.Errorf("%s events had no room in the spool", n)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); code != 0 || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
	wantEvents(t, s, "guardd.events", 2, made)
}

// wantEvents requires the events of some attempts and the ends of the instances
// that made them on a topic, without a gap.
func wantEvents(t *testing.T, s *kafkatest.Server, topic string, instances, attempts int) {
	t.Helper()
	seen, last, ends := map[string]bool{}, map[string]uint64{}, map[string]uint64{}
	err := s.Client(func(ctx context.Context, c *kgo.Client) error {
		for len(seen) < attempts+instances {
			f := c.PollFetches(ctx)
			if err := f.Err0(); err != nil {
				return fmt.Errorf("%d of %d events came: %w", len(seen), attempts+instances, err)
			}
			for _, r := range f.Records() {
				var e aggregate.Event
				if err := e.Decode(r.Value); err != nil {
					return err
				}
				if seen[e.ID] {
					continue
				}
				seen[e.ID] = true
				if e.Seq != last[e.Instance]+1 {
					t.Errorf("event %d of %s came after %d", e.Seq, e.Instance, last[e.Instance])
				}
				last[e.Instance] = e.Seq
				if e.Kind == aggregate.KindEnd {
					ends[e.Instance] = e.Seq
				}
			}
		}
		return nil
	}, kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	if len(ends) != instances {
		t.Errorf("the ends are %v of %d instances", ends, instances)
	}
}
