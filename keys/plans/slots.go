package plans

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/guardd/guardd/keys"
)

// SlotRequest asks for a slot of each rule, or for none.
type SlotRequest struct {
	// Key is the caller's own key, as he sent it; it is hashed here.
	Key string
	// Rules name rules of kind Concurrency. None: those of the key's plan that count
	// Route.
	Rules []string
	Route string
	// TTL is how long the slot lives unless it is renewed, from MinTTL; at most, and
	// if 0, as the rules say.
	TTL time.Duration
	// RequestID makes a repeat renew the first's slot as long as it is held, and not
	// occupy another. At most MaxRequestID bytes.
	RequestID string
}

// SlotDecision is the answer to an Acquire or a Renew. Whatever it is, it is not
// an error.
type SlotDecision struct {
	Allowed bool
	// Renewed: the slot was held already.
	Renewed bool
	// Slot is to be renewed and released; "" where nothing is held.
	Slot string
	// Expires is when it falls free unless it is renewed, TTL how long it was given.
	Expires time.Time
	TTL     time.Duration
	// Binding is the index in Limits of the rule with the fewest slots left. -1: none.
	Binding int
	Limits  []SlotState
	// RetryAfter is an estimate: nobody knows when another's work is done.
	RetryAfter time.Duration
	Degraded   bool         // as in a Decision, as are these
	Reason     string       // ReasonSuspended, ReasonUncounted or ""
	Version    string       // of the book
	Key        keys.Account // the keyed hash
	At         time.Time
}

// SlotState is one rule after the decision.
type SlotState struct {
	Rule string
	// Cap is how many slots there are, InUse how many are held: more, where the cap
	// was lowered meanwhile.
	Cap, InUse int64
	Allowed    bool // this rule would have given one
}

// Remaining is the slots that are free.
func (s *SlotState) Remaining() int64 { return max(s.Cap-s.InUse, 0) }

// SlotResult is what became of a slot, for metrics.
type SlotResult string

// The results.
const (
	SlotAcquired SlotResult = "acquired"
	SlotRenewed  SlotResult = "renewed"
	SlotRefused  SlotResult = "refused"
	SlotReleased SlotResult = "released"
	SlotMissing  SlotResult = "missing" // was to be released, and was not held any more
)

// SlotResults are all of them.
var SlotResults = []SlotResult{SlotAcquired, SlotRenewed, SlotRefused, SlotReleased, SlotMissing}

func (r *SlotRequest) check() error {
	q := Request{Key: r.Key, Rules: r.Rules, Route: r.Route, RequestID: r.RequestID}
	var bad Faults
	if err := q.check(); err != nil {
		bad = err.(Faults)
	}
	checkSlotTTL(r.TTL, &bad)
	return bad.err()
}

func checkSlotTTL(ttl time.Duration, bad *Faults) {
	if ttl != 0 && (ttl < MinTTL || ttl > MaxTTL) {
		bad.add("ttl_ms", "out_of_range")
	}
}

// HoldsSlots reports whether there is anything to acquire: any rule of kind
// Concurrency, as far as is known.
func (t *Taker) HoldsSlots() bool {
	b := t.book.Load()
	return b.slots || b.unknown
}

// Acquire decides. Errors: Faults, ErrUnknownRule, ErrStore.
func (t *Taker) Acquire(ctx context.Context, r *SlotRequest) (*SlotDecision, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	held := &slot{digest: sha256.Sum256([]byte(r.Key)), ttl: r.TTL}
	book := t.book.Load()
	who, bounds, err := book.pickSlots(held.digest, r.Rules, r.Route)
	if err != nil {
		return nil, err
	}
	for _, x := range bounds {
		held.rules = append(held.rules, x.Name)
	}
	if held.id, err = t.slotID(r, held); err != nil {
		return nil, err
	}
	d, err := t.occupy(ctx, book, who, bounds, held)
	if err == nil && d.Allowed && len(bounds) > 0 {
		d.Slot = t.c.Slots.Seal(held.encode())
	}
	return d, err
}

// slotID is that of the first request where it has an id: who repeats it gets no
// second slot.
func (t *Taker) slotID(r *SlotRequest, s *slot) (id [16]byte, err error) {
	if r.RequestID == "" {
		_, err = io.ReadFull(t.c.Rand, id[:])
		return id, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "slot %x %q %q", s.digest, s.rules, r.RequestID)
	return [16]byte(h.Sum(nil)), nil
}

// Renew has a slot live r.TTL from now, or as long as before; Key and Rules, where
// r has them, must be the slot's. A slot that has expired is acquired anew, if
// there is room. Errors: Faults, ErrUnknownRule (its rules are no more), ErrStore.
func (t *Taker) Renew(ctx context.Context, token string, r *SlotRequest) (*SlotDecision, error) {
	held, err := t.openSlot(token)
	if err != nil {
		return nil, err
	}
	var bad Faults
	if r.Key != "" && sha256.Sum256([]byte(r.Key)) != held.digest {
		bad.add("key", "not_of_slot")
	}
	for i, name := range r.Rules {
		if !slices.Contains(held.rules, name) {
			bad.add(fmt.Sprintf("rules[%d]", i), "not_of_slot")
		}
	}
	checkSlotTTL(r.TTL, &bad)
	if err := bad.err(); err != nil {
		return nil, err
	}
	if r.TTL != 0 {
		held.ttl = r.TTL
	}
	book := t.book.Load()
	who, bounds, err := book.pickSlots(held.digest, held.rules, "")
	if err != nil {
		return nil, err
	}
	d, err := t.occupy(ctx, book, who, bounds, held)
	if err == nil && d.Allowed {
		d.Slot = token
	}
	return d, err
}

func (t *Taker) openSlot(token string) (*slot, error) {
	if token == "" {
		return nil, Faults{{"slot", "empty"}}
	}
	if plain, ok := t.c.Slots.Open(token); ok {
		if s, ok := decodeSlot(plain); ok {
			return s, nil
		}
	}
	return nil, Faults{{"slot", "invalid"}}
}

// Release frees a slot, and reports whether it was still held. Errors: Faults,
// ErrStore.
func (t *Taker) Release(ctx context.Context, token string) (released bool, err error) {
	held, err := t.openSlot(token)
	if err != nil {
		return false, err
	}
	q := keys.SlotReturn{Now: t.now(), ID: held.id}
	space := keys.PlanSpace(t.c.Hash(held.digest))
	for _, name := range held.rules {
		q.Keys = append(q.Keys, space.Slots(name))
	}
	released, degraded, err := t.c.Store.Release(ctx, &q)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrStore, err)
	}
	result := SlotReleased
	if !released {
		result = SlotMissing
	}
	t.recordSlot(result, degraded)
	return released, nil
}

func (t *Taker) recordSlot(r SlotResult, degraded bool) {
	if t.c.SlotRecorder != nil {
		t.c.SlotRecorder(r, degraded)
	}
}

// occupy asks the store for what held names.
func (t *Taker) occupy(ctx context.Context, book *Book, who *owner, bounds []*bound, held *slot) (*SlotDecision, error) {
	d := &SlotDecision{Version: book.version, Key: t.c.Hash(held.digest), Binding: -1}
	switch {
	case who != nil && who.State == Suspended:
		d.Reason = ReasonSuspended
	case len(bounds) == 0:
		d.Allowed, d.Reason = true, ReasonUncounted
		return d, nil
	default:
		if err := t.decideSlots(ctx, bounds, held, d); err != nil {
			return nil, err
		}
	}
	result := SlotRefused
	switch {
	case d.Renewed:
		result = SlotRenewed
	case d.Allowed:
		result = SlotAcquired
	}
	t.recordSlot(result, d.Degraded)
	return d, nil
}

func (t *Taker) decideSlots(ctx context.Context, bounds []*bound, held *slot, d *SlotDecision) error {
	space := keys.PlanSpace(d.Key)
	a := keys.SlotAsk{Now: t.now(), ID: held.id, TTL: held.ttl.Microseconds()}
	for _, x := range bounds {
		life := x.ttl().Microseconds()
		a.Keys, a.Caps, a.Lives = append(a.Keys, space.Slots(x.Name)), append(a.Caps, x.Capacity), append(a.Lives, life)
		if held.ttl == 0 {
			a.TTL = max(a.TTL, life)
		}
		a.GoneClosed = a.GoneClosed || x.Failure == Closed
	}
	var ans keys.SlotAnswer
	if err := t.c.Store.Acquire(ctx, &a, &ans); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	d.read(bounds, &ans)
	if strict := openSlots(bounds, d); strict != nil {
		if len(*strict) > 0 { // the others still count
			return t.decideSlots(ctx, *strict, held, d)
		}
		d.Allowed, d.RetryAfter = true, 0
		d.TTL = time.Duration(a.TTL) * time.Microsecond
		d.Expires = d.At.Add(d.TTL)
	}
	return nil
}

// openSlots are the rules that still count where, in an outage, only such refuse
// as are to let everything through then; nil where that is not so.
func openSlots(bounds []*bound, d *SlotDecision) *[]*bound {
	if !d.Degraded || d.Allowed {
		return nil
	}
	strict := []*bound{}
	for i, x := range bounds {
		switch {
		case x.Failure == Open:
		case !d.Limits[i].Allowed:
			return nil
		default:
			strict = append(strict, x)
		}
	}
	if len(strict) == len(bounds) {
		return nil
	}
	return &strict
}

func (d *SlotDecision) read(bounds []*bound, ans *keys.SlotAnswer) {
	d.Allowed, d.Renewed, d.Degraded, d.At = ans.Allowed, ans.Renewed, ans.Degraded, time.UnixMicro(ans.Now).UTC()
	d.Binding, d.Limits, d.RetryAfter = -1, d.Limits[:0], 0
	if d.Allowed {
		d.Expires = time.UnixMicro(ans.Expires).UTC()
		d.TTL = d.Expires.Sub(d.At)
	}
	for i, x := range bounds {
		s := SlotState{Rule: x.Name, Cap: ans.Caps[i], InUse: ans.InUse[i]}
		s.Allowed = d.Allowed || s.InUse < s.Cap && !(d.Degraded && x.Failure == Closed)
		d.Limits = append(d.Limits, s)
		if b := d.Binding; b < 0 || d.Limits[b].Allowed && !s.Allowed || d.Limits[b].Allowed == s.Allowed && s.Remaining() < d.Limits[b].Remaining() {
			d.Binding = i
		}
	}
	if !d.Allowed {
		d.RetryAfter = max(time.Duration(ans.NextProbe)*time.Microsecond, leastRetry)
	}
}

// pickSlots resolves what a request for slots is about, as pick does for tokens.
func (b *Book) pickSlots(key Digest, names []string, route string) (who *owner, chosen []*bound, err error) {
	if b.unknown {
		return nil, nil, ErrUnloaded
	}
	who = b.keys[key]
	if len(names) == 0 {
		if who == nil {
			return nil, nil, Faults{{"key", "not_registered"}}
		}
		for _, x := range who.rules {
			if x.Kind == Concurrency && x.factor(route) > 0 {
				chosen = append(chosen, x)
			}
		}
		return who, chosen, nil
	}
	for i, name := range names {
		x := b.rules[name]
		if who != nil {
			if j := slices.IndexFunc(who.rules, func(r *bound) bool { return r.Name == name }); j >= 0 {
				x = who.rules[j]
			}
		}
		switch {
		case x == nil:
			return nil, nil, fmt.Errorf("%w: %q", ErrUnknownRule, name)
		case x.Kind != Concurrency:
			return nil, nil, Faults{{fmt.Sprintf("rules[%d]", i), "not_concurrency"}}
		}
		chosen = append(chosen, x)
	}
	return who, chosen, nil
}

// slot is what a sealed one holds: all that is needed to renew and release it at
// any instance, and nothing that names anybody.
type slot struct {
	id     [16]byte
	digest Digest // of the key: its own numbers may have changed meanwhile
	ttl    time.Duration
	rules  []string
}

func (s *slot) encode() []byte {
	b := append(append(make([]byte, 0, 128), s.id[:]...), s.digest[:]...)
	b = binary.AppendUvarint(b, uint64(s.ttl.Microseconds()))
	for _, name := range s.rules {
		b = appendText(b, name)
	}
	return b
}

// decodeSlot is the inverse of encode; ok is false for anything else.
func decodeSlot(b []byte) (s *slot, ok bool) {
	const head = 16 + 32
	if len(b) < head {
		return nil, false
	}
	s = &slot{id: [16]byte(b), digest: Digest(b[16:])}
	r := reader{b: b[head:]}
	s.ttl = time.Duration(r.number()) * time.Microsecond
	for len(r.b) > 0 && !r.bad {
		s.rules = append(s.rules, r.text())
	}
	return s, !r.bad && len(s.rules) > 0 && len(s.rules) <= MaxRules
}
