package escalation

import (
	"context"
	"errors"
	"io"

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
	// Rand is the source of identities; nil is crypto/rand.
	Rand io.Reader
	// Solver judges what visitors typed into challenges; nil judges nothing.
	Solver Solver
}

// Solver judges the answer to a challenge that came with an attempt. It
// returns the rung that the answer proves, or keys.Allow when it is wrong.
type Solver interface {
	Answer(ctx context.Context, realm, flow string, account keys.Account, challenge [16]byte, answer string) (keys.Rung, error)
}

// Guard answers a login handler's questions. It is safe for concurrent use.
type Guard struct{ c Config }

// New makes a Guard. It fails with Faults when the policy and the secrets do
// not go together.
func New(c Config) (*Guard, error) { return &Guard{c}, nil }

var errUnbuilt = errors.New("being built")

// Check decides whether the guess may be made now, and if not, what would make
// it acceptable. Errors: Faults (the request is wrong), ErrConflict (the
// request id was another request's), ErrStore (we do not know).
func (g *Guard) Check(ctx context.Context, a *Attempt) (*Verdict, error) { return nil, errUnbuilt }

// Report books the outcome of an attempt. may says whether the caller may act
// for the attempt's realm; nil is any. Errors: Faults, ErrRealm, ErrStore.
func (g *Guard) Report(ctx context.Context, r *Report, may func(realm string) bool) (*Recorded, error) {
	return nil, errUnbuilt
}

// Revoke makes every device token, familiar place and proof of the account
// count for nothing, at all instances at once. Call it after a password
// change. Errors: Faults, ErrStore (repeat it).
func (g *Guard) Revoke(ctx context.Context, realm, account string) error { return errUnbuilt }

// Solve returns the one proof that a solved challenge yields: its id is the
// challenge's, so that solving it again is no second proof. rung is what was
// shown: Captcha for a picture, Verify for a confirmed code.
func (g *Guard) Solve(ctx context.Context, challenge string, rung keys.Rung) (proof string, err error) {
	return "", errUnbuilt
}

// SetPolicy validates p and swaps it in whole. On an error the old one stays.
func (g *Guard) SetPolicy(p *Policy) error { return errUnbuilt }

// Policy returns the policy in force. It must not be changed.
func (g *Guard) Policy() *Policy { return g.c.Policy }
