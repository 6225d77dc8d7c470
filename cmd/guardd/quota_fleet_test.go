package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/keys/plans"
)

// TestAQuotaOutlivesRedis: three instances, Redis emptied and then killed in the
// middle of the month, an instance killed under load, PostgreSQL stopped. No more
// than the quota is let through, and what is lost of it is what was in hand.
func TestAQuotaOutlivesRedis(t *testing.T) {
	f := startLimitsFleet(t)
	f.args = append(f.args, "--redis-deadline", "50ms")
	f.change("create", "rule", "monthly", "--kind", "quota", "--capacity", "300", "--failure", "closed", "--per", "month", "--anchor", "31", "--zone", "Europe/Berlin")
	f.start()
	if n := f.spend(90, "k", "monthly"); n != 90 {
		t.Fatalf("%d of 90", n)
	}
	if err := f.redis.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if n := f.spend(60, "k", "monthly"); n != 60 {
		t.Errorf("after Redis was emptied: %d of 60", n)
	}
	f.redis.Stop()
	if n := f.spend(50, "k", "monthly"); n != 50 {
		t.Errorf("without Redis: %d of 50", n)
	}
	let := 200
	f.all[0].kill()
	f.all[0] = startGuardd(t, f.args...)
	f.db.Stop()
	a, _ := f.all[1].take(t, "k", "monthly", 100)
	if a.Allowed || !a.Degraded {
		t.Errorf("closed, and without PostgreSQL: %+v", a)
	}
	f.db.Restart()
	f.all[1].until(t, "the database", func() bool {
		a, _ := f.all[1].take(t, "k", "monthly", 0)
		return !a.Degraded || f.all[1].metric(t, "guardd_limits_db_version") == "1" && a.Remaining > 0
	})
	let += f.spend(150, "k", "monthly")
	if let > 300 {
		t.Errorf("%d of 300 were let through", let)
	}
	lost := 300 - let
	t.Logf("%d let through of 300; what is missing was in hand of an instance that was killed, or of a call whose answer was lost", let)
	if lost > 60 { // a killed instance had at most what it had spent in a second, of a sixteenth of what is left
		t.Errorf("%d are lost", lost)
	}
	a, _ = f.all[2].take(t, "k", "monthly", 1)
	if a.Allowed || a.RetryAfterMS < 1000 || a.Headers["Retry-After"] == "" {
		t.Errorf("used up: %+v", a)
	}
	db, err := sql.Open("pgx", f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var drawn, told int
	if err := db.QueryRow("SELECT drawn, told FROM guardd_limits_usage").Scan(&drawn, &told); err != nil || drawn != 300 || told != 100 {
		t.Errorf("the database has %d drawn, told of %d %%, %v", drawn, told, err)
	}
	said := 0
	for _, p := range f.all {
		said += strings.Count(p.logged(), "percent=80 ")
	}
	if said > 1 {
		t.Errorf("80 %% were told %d times", said)
	}
}

// quotaBus keeps what is published.
type quotaBus struct {
	aggregate.Bus
	mu   sync.Mutex
	fail int
	all  []aggregate.Finding
}

func (b *quotaBus) Publish(_ context.Context, topic aggregate.Topic, list []aggregate.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail > 0 {
		b.fail--
		return context.DeadlineExceeded
	}
	for _, m := range list {
		var f aggregate.Finding
		if err := json.Unmarshal(m.Value, &f); err != nil || topic != aggregate.TopicFindings {
			panic(err)
		}
		b.all = append(b.all, f)
	}
	return nil
}

// TestAQuotaThatIsReachedIsPublished, and again where the bus did not take it.
func TestAQuotaThatIsReachedIsPublished(t *testing.T) {
	bus := &quotaBus{fail: 1}
	s := &server{log: slog.New(slog.DiscardHandler), metrics: testMetrics(t), bus: bus, quotaFindings: make(chan aggregate.Finding, 4)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.publishQuotas(ctx); close(done) }()
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	q := plans.QuotaReached{Key: plans.Digest{1}, Name: "acme", Rule: "monthly", Percent: 80, Drawn: 812, Limit: 1000, Begins: november, Ends: november.AddDate(0, 1, 0)}
	s.quotaReached(q)
	q.Percent = 100
	s.quotaReached(q)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		bus.mu.Lock()
		n := len(bus.all)
		bus.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d were published", n)
		}
	}
	stop()
	<-done
	if n := s.quotasTold.Load(); n != 2 {
		t.Errorf("%d are counted", n)
	}
	f := bus.all[0]
	if f.What != aggregate.QuotaReached || f.State != aggregate.FindingOnce || !strings.HasPrefix(f.Reason, "80 % of quota monthly: 812 of 1000 tokens, until 2026-12-01") || f.ID == bus.all[1].ID || f.Groups[0].Key != "acme" {
		t.Errorf("%+v", f)
	}
}

// TestAQuotaInADatabaseOutlivesSecrets: without a secret file each process makes up
// one, and what a customer has used is no less for that.
func TestAQuotaInADatabaseOutlivesSecrets(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	out, err := exec.Command("guardd", "limits", "create", "rule", "monthly", "--limits-db", url, "--kind", "quota", "--capacity", "10", "--reason", "test").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := startGuardd(t, "--limits-db", url)
	if a, _ := p.take(t, "k", "monthly", 5); !a.Allowed || a.Remaining != 5 {
		t.Fatalf("%+v", a)
	}
	p.kill()
	if a, _ := startGuardd(t, "--limits-db", url).take(t, "k", "monthly", 5); !a.Allowed || a.Remaining != 0 {
		t.Errorf("after a restart: %+v", a)
	}
}
