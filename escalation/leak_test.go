package escalation

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a test has left a goroutine behind. go-redis' pool dials a
// server that is gone once a second, and sees only then that it was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// NewGuard is New for one test, at whose end it is closed.
func NewGuard(t testing.TB, c Config) *Guard {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}
