package redisstore

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// Replication is not waited for, so what the lost primary had said yes to and
// not passed on is let through once more, and nothing else is.
func TestAFailoverLeaksNoMoreThanWhatWasNotReplicated(t *testing.T) {
	const capacity, replicated, lost = 20, 5, 7
	ctx := context.Background()
	fleet := redistest.StartSentinels(t, redistest.Options{})
	s := openURL(t, fleet.URL(), nil, fleet.Primary.Client())
	rules := login(t, limit(t, capacity, 1, 1000*time.Hour))
	let := 0
	guess := func(n int) {
		t.Helper()
		for range n {
			if ans := take(t, s, ask(rules, 0)); ans.Let {
				let++
			}
		}
	}
	guess(replicated)
	bucket := ask(rules, 0).Keys[0]
	redistest.Until(t, "the replica to have it all", func() bool {
		here, err := fleet.Primary.Client().Get(ctx, bucket).Bytes()
		there, err2 := fleet.Replica.Client().Get(ctx, bucket).Bytes()
		return err == nil && err2 == nil && bytes.Equal(here, there)
	})
	// It follows somebody who is not there, and keeps what it has.
	if err := fleet.Replica.Client().Do(ctx, "replicaof", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	guess(lost)
	if let != replicated+lost {
		t.Fatalf("%d guesses were let through before the failover", let)
	}
	fleet.Primary.Stop()
	fleet.AwaitFailover()
	look := ask(rules, 0)
	look.Cost = 0
	redistest.Until(t, "the client to find the new primary", func() bool { return s.Take(ctx, look, &keys.Answer{}) == nil })
	guess(2 * capacity)
	if let < capacity || let > capacity+lost {
		t.Errorf("%d guesses were let through, of %d and at most %d more", let, capacity, lost)
	}
	redistest.EveryKeyDies(t, fleet.Replica, 1)
}
