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
	"github.com/guardd/guardd/keys/trace"
)

// Config is what a Guard is made of.
type Config struct {
	// Store counts. When it is a keys.Fallback, Check never fails for want of
	// a store: it degrades.
	Store keys.Store
	// Records take revocations.
	Records keys.Records
	// Tallies and Codes remember answers and verification codes. nil: the Store
	// does, if it can.
	Tallies keys.Tallies
	Codes   keys.Codes
	Policy  *Policy
	Secrets *Secrets
	// Shadow enforces nothing: every answer is allow, Would is the real one.
	Shadow bool
	// Instances is how many live instances share the flood limit; 0 is 1.
	Instances int
	// Live, when set, counts them instead, at every request; 0 means that nobody
	// knows, and the whole limit stands.
	Live func() int
	// FloodAddresses is how many addresses' requests are counted at once; 0 is
	// keys.DefaultBuckets. Further ones share counts.
	FloodAddresses int
	// Instance names this one, so that the outcome of an attempt that was
	// answered by its own twin returns there. Zero: random.
	Instance [8]byte
	// Now is the time in microseconds when it is owned (replay, tests): it is
	// passed to the store. nil: the store's own clock.
	Now func() int64
	// Rand is the source of identities, safe for concurrent use; nil is
	// crypto/rand.
	Rand io.Reader
	// Renderer draws and speaks the digits of captchas; nil where nobody
	// fetches any (replay).
	Renderer Renderer
	// Deliver holds each realm's way to its accounts' owners; nil where nobody
	// asks for codes (replay).
	Deliver map[string]Deliverer
	// Tracer exports traces of deliveries; nil: nobody does.
	Tracer *trace.Tracer
	// Providers are each realm's third parties that can stand in place of a
	// picture, in the order in which they are offered.
	Providers map[string][]Provider
	// Asked, when set, is told what a provider answered, for logs and metrics.
	Asked func(provider string, ok bool, err error)
	// Delivered, when set, is told what became of each message, for logs and
	// metrics; err is nil when it was delivered. It must not keep m's names.
	Delivered func(m *Message, err error)
	// PublicURL stands before the pages of challenges; "" leaves them relative.
	PublicURL string
}

// Guard answers a login handler's questions: Check before the password is
// compared, Report after, Revoke when it has changed. It is safe for
// concurrent use.
type Guard struct {
	c       Config
	live    atomic.Pointer[live]
	flood   *flood
	began   time.Time    // whatever becomes of the machine's clock, time since then is right
	ahead   atomic.Int64 // the store's clock less ours, microseconds
	latest  atomic.Int64 // by the store's clock, of all that was seen or reckoned
	answers sync.Pool
	queue   queue
	lane    lane

	// setting is held while a policy or lists are swapped in.
	setting   sync.Mutex
	operators map[string]Lists // by realm, beside the policy's
}

// New makes a Guard. Errors are Faults when the policy is not valid, or does
// not go with the secrets.
func New(c Config) (*Guard, error) {
	if c.Store == nil || c.Records == nil || c.Secrets == nil || c.Policy == nil {
		return nil, errors.New("a guard needs a store, records, secrets and a policy")
	}
	if c.Tallies == nil {
		c.Tallies, _ = c.Store.(keys.Tallies)
	}
	if c.Codes == nil {
		c.Codes, _ = c.Store.(keys.Codes)
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	g := &Guard{c: c, began: time.Now(), operators: map[string]Lists{}}
	g.answers.New = func() any { return new(keys.Answer) }
	if c.Instance == ([8]byte{}) {
		if _, err := io.ReadFull(c.Rand, g.c.Instance[:]); err != nil {
			return nil, fmt.Errorf("naming the instance: %w", err)
		}
	}
	var err error
	if g.flood, err = newFlood(c.FloodAddresses); err != nil {
		return nil, err
	}
	if err := g.Reload(c.Policy, c.Deliver, c.Providers); err != nil {
		return nil, err
	}
	return g, nil
}

// SetPolicy validates p and swaps it in whole: an attempt is decided by the old
// one or the new one, never by parts of both. On an error the old one stays.
func (g *Guard) SetPolicy(p *Policy) error {
	l := g.live.Load()
	return g.Reload(p, l.deliver, l.providers)
}

// Reload is SetPolicy together with the deliverers and providers of its realms.
func (g *Guard) Reload(p *Policy, deliver map[string]Deliverer, providers map[string][]Provider) error {
	if err := p.Validate(); err != nil {
		return err
	}
	c := g.c
	c.Deliver, c.Providers = deliver, providers
	g.setting.Lock()
	defer g.setting.Unlock()
	l, err := bind(p, &c, g.operators)
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
	a, name, err := r.account(account)
	if err != nil {
		return Faults{{"account", err.Error()}}
	}
	g.now()
	if err := g.revoke(ctx, r.at(a).Revoked(a), g.latest.Load()); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	g.notify(ctx, r, "", a, name, NoticeRevoked, g.now())
	return nil
}

// revoke stamps key no earlier than latest: where the store's clock has stepped
// back, what is to be revoked bears times from before that. Whatever the mark
// outlives is dead by itself: a device is the longest.
func (g *Guard) revoke(ctx context.Context, key string, latest int64) error {
	stamp, err := g.c.Records.Revoke(ctx, key, g.storeNow(), keys.DeviceLifetime)
	if ahead := latest - stamp; ahead > 0 && ahead <= maxStep {
		// Also where only this instance could be told.
		var again error
		if stamp, again = g.c.Records.Revoke(ctx, key, latest, keys.DeviceLifetime+ahead); err == nil {
			err = again
		}
	}
	g.sawRevoked(stamp, g.now())
	return err
}

// maxStep is how far a clock may have been ahead; one that was further was
// broken, and is not believed.
const maxStep = keys.Day

// sawRevoked takes in a revocation's stamp, so that no challenge of ours is from
// before it.
func (g *Guard) sawRevoked(stamp, now int64) {
	if stamp > now && stamp-now <= maxStep {
		g.saw(stamp)
	}
}

// born is the time that a challenge bears which is given out without asking the
// store: now, or where its clock has stepped back a second after everything that
// was seen, for another instance may have revoked at a time that we reckon a
// little otherwise. Until the clock is there again such a challenge outlives a
// revocation, by its ten minutes at most; the owner whose address is flooded
// would be kept out else.
func (g *Guard) born(now int64) int64 {
	if back := g.latest.Load() - now; back > keys.Second && back <= maxStep {
		return now + back + keys.Second
	}
	return now
}

// now is the store's clock as far as we know it without asking.
func (g *Guard) now() int64 {
	if g.c.Now != nil {
		return g.saw(g.c.Now())
	}
	return g.saw(g.own() + g.ahead.Load())
}

// own is this process's clock, which never steps.
func (g *Guard) own() int64 { return g.began.UnixMicro() + time.Since(g.began).Microseconds() }

// saw remembers the latest time there was, and returns t.
func (g *Guard) saw(t int64) int64 {
	for l := g.latest.Load(); t > l && !g.latest.CompareAndSwap(l, t); l = g.latest.Load() {
	}
	return t
}

// storeNow is what a store is told: 0, its own clock, unless the time is owned.
func (g *Guard) storeNow() int64 {
	if g.c.Now != nil {
		return g.c.Now()
	}
	return 0
}

// Now is the time by the store's clock, as far as it is known without asking.
func (g *Guard) Now() time.Time { return micros(g.now()) }

// sawClock takes in the store's clock. What it would have been by now, had it
// not stepped back, is remembered: other instances may have seen it.
func (g *Guard) sawClock(now int64) {
	g.now()
	g.ahead.Store(now - g.own())
}
