package plandb_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/postgrestest"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/redisstore"
)

// TestLedgers holds every ledger to one contract.
func TestLedgers(t *testing.T) {
	database := func(url string) func(t *testing.T) plans.Ledger {
		return func(t *testing.T) plans.Ledger {
			db, err := plandb.Open(url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return db.Ledger()
		}
	}
	t.Run("sqlite", func(t *testing.T) { ledgers(t, database("sqlite:"+filepath.Join(t.TempDir(), "limits.db"))) })
	t.Run("postgres", func(t *testing.T) { ledgers(t, database(postgrestest.Start(t).Database())) })
	t.Run("twin", func(t *testing.T) {
		twin := keys.NewMemory(keys.MemoryConfig{})
		ledgers(t, func(*testing.T) plans.Ledger { return plans.StoreLedger(twin) })
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		ledgers(t, func(t *testing.T) plans.Ledger {
			client, err := redisstore.Open(server.URL(), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			return plans.StoreLedger(redisstore.New(redisstore.Config{Client: client, Deadline: 10 * time.Second}))
		})
	})
}

// ledgers is the contract. open opens the one ledger anew each time.
func ledgers(t *testing.T, open func(*testing.T) plans.Ledger) {
	until := time.Now().Add(time.Hour).UnixMicro()
	add := func(t *testing.T, l plans.Ledger, id plans.UsageID, n int64) {
		t.Helper()
		if err := l.Change(context.Background(), id, until, func(u plans.Usage) (plans.Usage, bool) {
			u.Drawn += n
			return u, true
		}); err != nil {
			t.Error(err)
		}
	}
	is := func(t *testing.T, l plans.Ledger, id plans.UsageID, want plans.Usage) {
		t.Helper()
		var got plans.Usage
		if err := l.Change(context.Background(), id, until, func(u plans.Usage) (plans.Usage, bool) { got = u; return plans.Usage{Drawn: 99}, false }); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	id := plans.UsageID{Key: keys.Account{1}, Rule: "month", Start: 1_700_000_000_000_000}
	t.Run("what is kept", func(t *testing.T) {
		l := open(t)
		is(t, l, id, plans.Usage{})
		want := plans.Usage{Drawn: keys.MaxExact, Limit: plans.MaxQuota, Told: 100}
		if err := l.Change(t.Context(), id, until, func(plans.Usage) (plans.Usage, bool) { return want, true }); err != nil {
			t.Fatal(err)
		}
		is(t, l, id, want)
		is(t, open(t), id, want)
		for _, other := range []plans.UsageID{{Key: keys.Account{2}, Rule: id.Rule, Start: id.Start}, {Key: id.Key, Rule: "day", Start: id.Start}, {Key: id.Key, Rule: id.Rule, Start: id.Start + 1}} {
			is(t, l, other, plans.Usage{})
		}
	})
	t.Run("of many nothing is lost", func(t *testing.T) {
		id.Key = keys.Account{3}
		var all sync.WaitGroup
		for range 4 {
			l := open(t)
			all.Go(func() {
				for range 25 {
					add(t, l, id, 1)
				}
			})
		}
		all.Wait()
		is(t, open(t), id, plans.Usage{Drawn: 100})
	})
}

// TestUsageIsForgottenWhenItIsOver, and not before.
func TestUsageIsForgottenWhenItIsOver(t *testing.T) {
	db, err := plandb.Open("sqlite:" + filepath.Join(t.TempDir(), "limits.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMicro()
	drawn := func(start int64) (n int64) {
		id := plans.UsageID{Key: keys.Account{1}, Rule: "month", Start: start}
		if err := db.Ledger().Change(t.Context(), id, now+start, func(u plans.Usage) (plans.Usage, bool) {
			n = u.Drawn
			return plans.Usage{Drawn: 5}, true
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	drawn(1)
	drawn(1000)
	if err := db.ForgetUsage(t.Context(), now+500); err != nil {
		t.Fatal(err)
	}
	if was, is := drawn(1), drawn(1000); was != 0 || is != 5 {
		t.Errorf("of a period that is over %d is kept, of the other %d", was, is)
	}
}
