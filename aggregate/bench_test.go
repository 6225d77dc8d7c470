package aggregate

import (
	"fmt"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// BenchmarkAggregator reads attempts and outcomes of a realm as they travel, of
// which each is one event: decoded, classed, counted, learned from, and kept.
func BenchmarkAggregator(b *testing.B) {
	const many = 1 << 14
	now := time.Now().UTC().Truncate(time.Microsecond)
	msgs := make([]Message, many)
	for i := range msgs {
		account := keys.Account{byte(i / 2), byte(i >> 9), 1}.String()
		e := Event{V: 1, ID: fmt.Sprintf("0123456789abcdef-%d", i+1), Instance: "0123456789abcdef", Seq: uint64(i + 1), Kind: KindAttempt,
			Time: now.Add(time.Duration(i) * time.Millisecond), Realm: "default", Flow: login, Account: account,
			IP: fmt.Sprintf("198.51.%d.%d", i>>9&255, i>>1&255), Network: fmt.Sprintf("198.51.%d.0/24", i>>9&255), Attempt: account, UAClass: "chrome", Channel: "web",
			Tag: fmt.Sprintf("%016x", i/2), TagPrev: fmt.Sprintf("%016x", i/2+1)}
		if i%2 == 0 {
			e.Action, e.Would, e.Rung, e.Posture = "allow", "allow", "allow", "normal"
			for _, tier := range []string{"ip", "account", "pair"} {
				for _, limit := range []string{"burst", "sustained"} {
					e.Tiers = append(e.Tiers, TierLevel{Tier: tier, Limit: limit, Left: 9, Capacity: 20, Rung: "allow"})
				}
			}
		} else {
			e.Outcome, e.TagPrev = "failure", ""
			if i%8 == 1 {
				e.Outcome = "success"
			}
		}
		v, err := e.AppendTo(nil)
		if err != nil {
			b.Fatal(err)
		}
		msgs[i] = Message{Key: "default", Value: v, Offset: int64(i), High: many}
	}
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("keep=%v", keep), func(b *testing.B) {
			store := keys.NewMemory(keys.MemoryConfig{})
			c := AggregatorConfig{Store: store, Shards: func(string) (int, bool) { return 1, true }, Now: func() time.Time { return now.Add(time.Minute) }}
			if keep {
				c.Recents = NewRecents(RecentsConfig{Streams: store, Keep: 20_000})
			}
			a := NewAggregator(c)
			b.ReportAllocs()
			var h Handler
			for i := range b.N {
				if i%many == 0 {
					if h != nil {
						h.Close()
					}
					h = a.open(0)
				}
				if err := h.Handle(msgs[i%many]); err != nil {
					b.Fatal(err)
				}
			}
			h.Close()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
