package plans

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys"
)

// Store is what a Taker counts in.
type Store interface {
	keys.Store
	keys.Settler
	keys.Leaser
	keys.Slots
}

// Sealer makes a reservation something that only we can read and make. Open
// returns false for everything else. It is safe for concurrent use.
type Sealer interface {
	Seal(plain []byte) string
	Open(token string) (plain []byte, ok bool)
}

// Config is what a Taker is made of. All but Recorder, SlotRecorder, Evidence, Now and Rand are needed.
type Config struct {
	Store  Store
	Sealer Sealer
	// Slots is the Sealer of slots: what it makes is nothing to Sealer, and the reverse.
	Slots Sealer
	// Hash is a keyed hash of a key's SHA-256: a store that leaks names nobody.
	Hash func(Digest) keys.Account
	// Instance names this one, so that what it granted alone in an outage is
	// settled with its own twin.
	Instance [8]byte
	// Recorder is told every decision, for metrics; it must not block, nor keep them.
	Recorder func(*Request, *Decision)
	// SlotRecorder is told what became of slots; it must not block.
	SlotRecorder func(result SlotResult, degraded bool)
	// Evidence remembers what was decided and settled; nil: nobody does.
	Evidence *Evidence
	// Ledger keeps quotas; without one they are counted as in an outage of it.
	Ledger Ledger
	// LedgerID names a key in the ledger; nil: as Hash does. A ledger that outlives
	// Hash's secret needs one of its own.
	LedgerID func(Digest) keys.Account
	// LedgerFailed is told why the ledger could not be changed, Reached of each
	// percentage of a quota (Percents), once over all instances. They must not block.
	LedgerFailed func(error)
	Reached      func(QuotaReached)
	// Instances is how many share the limits, as far as is known; nil: this one alone.
	Instances func() int64
	// Now is the time in microseconds where it is owned; nil: the store's clock.
	Now func() int64
	// Rand makes identities; nil is crypto/rand.
	Rand io.Reader
}

// Taker decides takes under the Book in force. It is safe for concurrent use.
type Taker struct {
	c    Config
	book atomic.Pointer[Book]
	pool sync.Pool // *scratch

	leases *leases
	quotas *quotas
	home   int // of the shards of a rule this instance's own, modulo how many
}

// scratch is what one take needs while it is under way.
type scratch struct {
	ask keys.Ask
	ans keys.Answer
}

// NewTaker returns a Taker of an empty book.
func NewTaker(c Config) *Taker {
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.LedgerID == nil {
		c.LedgerID = c.Hash
	}
	t := &Taker{c: c, home: int(binary.BigEndian.Uint32(c.Instance[:]) >> 1)}
	t.leases, t.quotas = newLeases(t), newQuotas(t)
	t.pool.New = func() any { return new(scratch) }
	t.book.Store(&Book{})
	return t
}

// Swap puts a book in force whole.
func (t *Taker) Swap(b *Book) { t.book.Store(b) }

// Book returns the one in force.
func (t *Taker) Book() *Book { return t.book.Load() }

// Errors of a Taker, beside Faults. Any other says that we do not know.
var (
	ErrUnknownRule = errors.New("there is no such rule")
	// ErrConflict: the request id was used for another request.
	ErrConflict = errors.New("request_id was used for another request")
	// ErrStore wraps a failure of the store; never with a keys.Fallback.
	ErrStore = errors.New("the store cannot be reached")
	// ErrUnloaded: the book in force is Unknown. It is an ErrStore.
	ErrUnloaded = fmt.Errorf("%w: plan limits are not loaded yet", ErrStore)
)

// Request asks for tokens.
type Request struct {
	// Key is the caller's own key, as he sent it; it is hashed here.
	Key string
	// Rules name what to count against, all or nothing. None: the rules of the
	// key's plan that count Route.
	Rules []string
	Route string
	// Cost is what the request costs, in tokens; 0 looks without taking.
	Cost int64
	// RequestID makes a repeat within RequestMemory charge once. At most
	// MaxRequestID bytes.
	RequestID string
	// Reserve asks for a reservation: Cost is an estimate, to be settled.
	Reserve bool

	digest Digest
}

// Lifetimes and bounds of requests.
const (
	RequestMemory     = 10 * time.Minute
	ReservationExpiry = time.Minute
	MaxRequestID      = 128
	MaxKey            = 1024
)

func (r *Request) key() Digest {
	if r.digest == (Digest{}) {
		var room [128]byte // of keys as they are, no garbage
		r.digest = sha256.Sum256(append(room[:0], r.Key...))
	}
	return r.digest
}

func (r *Request) check() error {
	var bad Faults
	switch {
	case r.Key == "":
		bad.add("key", "empty")
	case len(r.Key) > MaxKey:
		bad.add("key", "too_long")
	}
	switch {
	case r.Cost < 0:
		bad.add("cost", "negative")
	case r.Cost > keys.MaxExact:
		bad.add("cost", "too_large")
	}
	if len(r.Rules) > MaxRules {
		bad.add("rules", "too_many")
	}
	for i, name := range r.Rules {
		for _, earlier := range r.Rules[:i] {
			if name == earlier {
				bad.add(fmt.Sprintf("rules[%d]", i), "named_twice")
			}
		}
	}
	if len(r.Route) > MaxRoute {
		bad.add("route", "too_long")
	}
	if len(r.RequestID) > MaxRequestID {
		bad.add("request_id", "too_long")
	}
	if r.Reserve && r.Cost == 0 {
		bad.add("cost", "nothing_to_reserve")
	}
	return bad.err()
}

// Take decides. Errors: Faults, ErrUnknownRule, ErrConflict, ErrStore.
func (t *Taker) Take(ctx context.Context, r *Request) (*Decision, error) {
	d := new(Decision)
	if err := t.TakeInto(ctx, r, d); err != nil {
		return nil, err
	}
	return d, nil
}

// TakeInto is Take into a Decision that was used before, and of which nobody uses
// anything any more: then a take that is decided by what is leased allocates
// nothing. After an error d says nothing.
func (t *Taker) TakeInto(ctx context.Context, r *Request, d *Decision) error {
	if err := r.check(); err != nil {
		return err
	}
	d.reset()
	book := t.book.Load()
	var err error
	if book.quotas {
		err = t.quotas.decide(ctx, book, r, d)
	} else {
		err = t.rates(ctx, book, r, d)
	}
	if err != nil {
		return err
	}
	if t.c.Recorder != nil {
		t.c.Recorder(r, d)
	}
	if t.c.Evidence != nil {
		t.c.Evidence.Record(r, d)
	}
	return nil
}

// rates decides by all that is no quota.
func (t *Taker) rates(ctx context.Context, book *Book, r *Request, d *Decision) error {
	if book.leases {
		if done, err := t.leases.take(ctx, book, r, d); done || err != nil {
			return err
		}
	}
	return t.ask(ctx, book, r, d)
}

func (t *Taker) instances() int64 {
	if t.c.Instances == nil {
		return 1
	}
	return t.c.Instances()
}

// ask decides by a call of the store, where it needs one.
func (t *Taker) ask(ctx context.Context, book *Book, r *Request, d *Decision) error {
	who, s, err := book.pick(r)
	if err != nil {
		return err
	}
	d.Version, d.Key = book.version, t.c.Hash(r.key())
	switch {
	case who != nil && who.State == Suspended:
		d.Reason = ReasonSuspended
	case s == nil:
		d.Allowed, d.Reason = true, ReasonUncounted
	default:
		return t.decide(ctx, r, s, d, false)
	}
	return nil
}

// decide asks the store; alone: which has just failed.
func (t *Taker) decide(ctx context.Context, r *Request, s *set, d *Decision, alone bool) error {
	kept := t.pool.Get().(*scratch)
	defer t.pool.Put(kept)
	ask, ans := &kept.ask, &kept.ans
	costs, err := t.askOf(r, s, d.Key, ask)
	if err != nil {
		return err
	}
	ask.Alone = alone
	if err := t.c.Store.Take(ctx, ask, ans); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	switch ans.Status {
	case keys.Conflict:
		return ErrConflict
	case keys.Late:
		return fmt.Errorf("%w: it came to decide too late", ErrStore)
	}
	d.read(s, costs, ans)
	if d.openOnly(s) {
		if s.strict == nil {
			d.Allowed, d.RetryAfter = true, 0
			return nil
		}
		return t.decide(ctx, r, s.strict, d, alone) // the others still count
	}
	if ans.Taken {
		d.held = t.held(r, s, costs, ans)
	}
	if r.Reserve && d.held != nil {
		d.Reservation = t.c.Sealer.Seal(d.held.encode())
	}
	return nil
}

func (t *Taker) now() int64 {
	if t.c.Now != nil {
		return t.c.Now()
	}
	return 0
}

// askOf fills ask. What it points to is made anew: a store may keep it.
func (t *Taker) askOf(r *Request, s *set, key keys.Account, ask *keys.Ask) (costs []int64, err error) {
	space := keys.PlanSpace(key)
	*ask = keys.Ask{Now: t.now(), Rules: s.rules, Keys: make([]string, len(s.bounds)), StoreGone: s.gone}
	if s.purse != nil {
		ask.Rules = s.purse.alone
	}
	costs = make([]int64, len(s.bounds))
	for i, x := range s.bounds {
		ask.Keys[i] = space.Rule(x.Name)
		if n := int(x.shards()); n > 1 { // while the store is gone: this instance's own
			ask.Keys[i] = keys.PlanShard(key, t.home%n).Rule(x.Name)
		}
		if r.Cost > 0 { // a look takes nothing, not even where requests count
			costs[i] = x.Cost(r.Route, r.Cost)
			ask.Cost = max(ask.Cost, costs[i])
			if costs[i] != costs[0] { // one cost for all is a shorter call
				ask.Costs = costs
			}
		}
	}
	if _, err := io.ReadFull(t.c.Rand, ask.AttemptID[:]); err != nil {
		return nil, fmt.Errorf("making an identity: %w", err)
	}
	if r.RequestID != "" && r.Cost > 0 {
		ask.Request = keys.Request{Key: space.Request(r.RequestID), Body: r.body(), Life: RequestMemory.Microseconds()}
	}
	return costs, nil
}

// body fingerprints everything that a repeat must repeat.
func (r *Request) body() (b [16]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%x %q %q %d %t", r.key(), r.Rules, r.Route, r.Cost, r.Reserve)
	return [16]byte(h.Sum(nil))
}
