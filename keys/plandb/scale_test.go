package plandb_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/postgrestest"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

// BenchmarkAChangeAmong100000Keys is a change of one row, judged among 100,000
// others, until an instance has it in force.
func BenchmarkAChangeAmong100000Keys(b *testing.B) {
	d := full()
	for i := range 100_000 {
		d.Keys = append(d.Keys, plans.Key{SHA256: digest(fmt.Sprint(i)), Plan: "free", Name: fmt.Sprint("customer ", i)})
	}
	for _, c := range []struct {
		name string
		url  func(b *testing.B) string
	}{
		{"sqlite", func(b *testing.B) string { return filepath.Join(b.TempDir(), "limits.db") }},
		{"postgres", func(b *testing.B) string { return postgrestest.Start(b).Database() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			db, err := plandb.Open(c.url(b))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := db.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			if _, err := db.Change(b.Context(), order(replace(d))); err != nil {
				b.Fatal(err)
			}
			b.Logf("imported in %s", time.Since(begun).Round(time.Millisecond))
			swapped := make(chan string, 100)
			await := func(version string) {
				for got := <-swapped; got != version; got = <-swapped {
				}
			}
			w := db.NewFollower(plandb.FollowConfig{Swap: func(b *plans.Book, _ plans.Faults) { swapped <- b.Version() }})
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.Run(b.Context())
			}()
			version, _, err := db.Load(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			await(fmt.Sprint("db ", version))
			var made, arrived time.Duration
			b.ResetTimer()
			for i := range b.N {
				begun := time.Now()
				e := plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "burst", Capacity: say(int64(51 + i))}}
				records, err := db.Change(b.Context(), order(e.Apply))
				if err != nil {
					b.Fatal(err)
				}
				committed := time.Now()
				await(fmt.Sprint("db ", records[0].Version))
				made, arrived = made+committed.Sub(begun), arrived+time.Since(committed)
			}
			b.ReportMetric(made.Seconds()*1000/float64(b.N), "ms/made")
			b.ReportMetric(arrived.Seconds()*1000/float64(b.N), "ms/arrived")
		})
	}
}
