package delivery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/escalation"
)

// t0 is when every test begins.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is time that passes only in pauses, which it writes down.
type clock struct {
	at     time.Time
	pauses []time.Duration
	// interrupt ends that many-th pause (from 1) with a cancelled context.
	interrupt int
}

func (c *clock) retry() retry {
	return retry{
		now: func() time.Time { return c.at },
		sleep: func(_ context.Context, d time.Duration) error {
			c.pauses = append(c.pauses, d)
			if len(c.pauses) == c.interrupt {
				return context.Canceled
			}
			c.at = c.at.Add(d)
			return nil
		},
		share: func() float64 { return 0 },
	}
}

func code(account string) *escalation.Message {
	return &escalation.Message{ID: "7f", Kind: escalation.MessageCode, Realm: "shop", Flow: "login", Account: account,
		AccountHash: "h4sh", Code: "ABCDE12345", ExpiresAt: t0.Add(15 * time.Minute), At: t0, Hint: "0123456789abcdef"}
}

func notice(account string) *escalation.Message {
	return &escalation.Message{ID: "80", Kind: escalation.MessageNotice, Realm: "shop", Flow: "login", Account: account,
		AccountHash: "h4sh", Notice: "new_device", At: t0, Suppressed: 3}
}

// How a delivery can end.
const (
	arrived   = "arrived"
	forGood   = "failed for good"
	uncertain = "may have arrived"
)

func ending(err error) string {
	switch {
	case err == nil:
		return arrived
	case errors.Is(err, escalation.ErrUndeliverable):
		return forGood
	}
	return uncertain
}

// checkEnding also holds errors to what they may say.
func checkEnding(t *testing.T, err error, want string, m *escalation.Message) {
	t.Helper()
	if got := ending(err); got != want {
		t.Errorf("%s, want %s (%v)", got, want, err)
	}
	if err != nil && (strings.Contains(err.Error(), m.Account) || strings.Contains(err.Error(), "ABCDE12345")) {
		t.Errorf("the error tells name or code: %v", err)
	}
}

func seconds(s ...float64) (all []time.Duration) {
	for _, n := range s {
		all = append(all, time.Duration(n*float64(time.Second)))
	}
	return all
}
