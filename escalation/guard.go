package escalation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys"
)

// Config is what a Guard is made of.
type Config struct {
	// Store counts. When it is a keys.Fallback, Check never fails for want of
	// a store: it degrades.
	Store keys.Store
	// Records take revocations.
	Records keys.Records
	Policy  *Policy
	Secrets *Secrets
	// Shadow enforces nothing: every answer is allow, Would is the real one.
	Shadow bool
	// Instances is how many live instances share the flood limit; 0 is 1.
	Instances int
	// Instance names this one, so that the outcome of an attempt that was
	// answered by its own twin returns there. Zero: random.
	Instance [8]byte
	// Now is the time in microseconds when it is owned (replay, tests): it is
	// passed to the store. nil: the store's own clock.
	Now func() int64
	// Rand is the source of identities, safe for concurrent use; nil is
	// crypto/rand.
	Rand io.Reader
	// Solver judges what visitors typed into challenges; nil judges nothing.
	Solver Solver
	// Renderer draws and speaks the digits of captchas; nil where nobody
	// fetches any (replay).
	Renderer Renderer
	// Deliver holds each realm's way to its accounts' owners; nil where nobody
	// asks for codes (replay).
	Deliver map[string]Deliverer
	// Providers are third parties' challenges by name, for the realms whose
	// policy names them.
	Providers map[string]Provider
	// PublicURL stands before the pages of challenges; "" leaves them relative.
	PublicURL string
}

// Solver judges the answer to a challenge that came with an attempt. It
// returns the rung that the answer proves, or keys.Allow when it is wrong, and
// sees to it that a challenge is answered once. An error means that it does
// not know.
type Solver interface {
	Answer(ctx context.Context, realm, flow string, account keys.Account, challenge [16]byte, answer string) (keys.Rung, error)
}

// Guard answers a login handler's questions: Check before the password is
// compared, Report after, Revoke when it has changed. It is safe for
// concurrent use.
type Guard struct {
	c       Config
	live    atomic.Pointer[live]
	flood   *flood
	ahead   atomic.Int64 // the store's clock less ours, microseconds
	answers sync.Pool
}

// New makes a Guard. Errors are Faults when the policy is not valid, or does
// not go with the secrets.
func New(c Config) (*Guard, error) {
	if c.Store == nil || c.Records == nil || c.Secrets == nil || c.Policy == nil {
		return nil, errors.New("a guard needs a store, records, secrets and a policy")
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	g := &Guard{c: c}
	g.answers.New = func() any { return new(keys.Answer) }
	if c.Instance == ([8]byte{}) {
		if _, err := io.ReadFull(c.Rand, g.c.Instance[:]); err != nil {
			return nil, fmt.Errorf("naming the instance: %w", err)
		}
	}
	var err error
	if g.flood, err = newFlood(); err != nil {
		return nil, err
	}
	if err := g.SetPolicy(c.Policy); err != nil {
		return nil, err
	}
	return g, nil
}

// SetPolicy validates p and swaps it in whole: an attempt is decided by the old
// one or the new one, never by parts of both. On an error the old one stays.
func (g *Guard) SetPolicy(p *Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	l, err := bind(p, g.c.Secrets, int64(max(g.c.Instances, 1)))
	if err != nil {
		return err
	}
	g.live.Store(l)
	return nil
}

// Policy returns the policy in force. It must not be changed.
func (g *Guard) Policy() *Policy { return g.live.Load().policy }

// Revoke makes every device token, familiar place and proof of the account
// from before now count for nothing, at all instances at once. Call it after a
// password change. Errors: Faults, ErrStore (repeat it).
func (g *Guard) Revoke(ctx context.Context, realm, account string) error {
	if realm == "" {
		realm = DefaultRealm
	}
	r := g.live.Load().realms[realm]
	if r == nil {
		return Faults{{"realm", "unknown"}}
	}
	a, err := r.account(account)
	if err != nil {
		return Faults{{"account", err.Error()}}
	}
	var now int64
	if g.c.Now != nil {
		now = g.c.Now()
	}
	// Whatever the mark outlives is dead by itself: a device is the longest.
	if _, err := g.c.Records.Revoke(ctx, r.space.Revoked(a), now, keys.DeviceLifetime); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// now is the store's clock as far as we know it without asking.
func (g *Guard) now() int64 {
	if g.c.Now != nil {
		return g.c.Now()
	}
	return time.Now().UnixMicro() + g.ahead.Load()
}

func (g *Guard) sawClock(now int64) { g.ahead.Store(now - time.Now().UnixMicro()) }
