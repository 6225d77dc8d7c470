package moments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

// Journal is what operators did, in order; operate.Desk is one.
type Journal interface {
	// Since returns the entries after a number that are still kept, oldest first, at
	// most so many, and the number up to which it has looked.
	Since(ctx context.Context, seq int64, most int) ([]operate.Record, int64, error)
	// Last is the number of the last entry, 0 when there is none.
	Last(ctx context.Context) (int64, error)
}

// Config makes a Teller. Store, Journal, Realms, Shards, Bus and Instance are needed.
type Config struct {
	Store   keys.Documents
	Journal Journal
	// Realms are those there are, Shards how many shards one has.
	Realms func() []string
	Shards func(realm string) (n int, ok bool)
	Bus    aggregate.Bus
	// Instance is this process's name among those that share the store.
	Instance string
	Now      func() time.Time // the store's time; nil is the machine's
	// Told, when set, is given every finding that this instance has published.
	Told func(*aggregate.Finding)
	// Every is the time between two looks; 0: DefaultEvery.
	Every time.Duration
}

// DefaultEvery is the time between two looks: what comes and goes between them is
// not told of postures; of operators everything is.
const DefaultEvery = time.Second

const (
	// most is how many of the journal are told at once: they and what else is to be
	// told fit in one document and one call of the bus.
	most = 100
	// told is how long publishing may take, claim how long another waits for whoever
	// has said that he publishes.
	publishWait = 5 * time.Second
	claim       = 15 * keys.Second
	// young is how old an operator's action may be that is told by the first Teller
	// there ever is: an update must not tell a year of them.
	young = 3600 * keys.Second
	// kept outlives the journal: its numbers must not be told anew.
	kept = 2 * operate.JournalLifetime
)

// Teller tells. Told is safe for concurrent use; all else is for one goroutine.
type Teller struct {
	c    Config
	last *ledger // as it was when there was nothing to tell; nil: not known

	mu   sync.Mutex
	told map[of]uint64
}

type of struct{ realm, what string }

// New returns a Teller; Run has it tell.
func New(c Config) *Teller {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Told == nil {
		c.Told = func(*aggregate.Finding) {}
	}
	if c.Every <= 0 {
		c.Every = DefaultEvery
	}
	return &Teller{c: c, told: map[of]uint64{}}
}

// Run tells until ctx ends. Failed, when not nil, is told of looks that failed.
func (t *Teller) Run(ctx context.Context, failed func(error)) {
	ticker := time.NewTicker(t.c.Every)
	defer ticker.Stop()
	for {
		if err := t.Look(ctx); err != nil && failed != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// key is where the ledger is.
const key = "gd:{operators}:told"

// ledger is what has been told, and what is being told.
type ledger struct {
	Journal  int64              `json:"journal"`
	Postures map[string]posture `json:"postures"` // by realm; one that is not there is normal
	// Pending is published by By, or from Until on by whoever comes.
	Pending []aggregate.Finding `json:"pending,omitempty"`
	By      string              `json:"by,omitzero"`
	Until   int64               `json:"until,omitzero"`
}

// Look tells what is new. An error says what could not be looked at, or told; the
// next look tries again.
func (t *Teller) Look(ctx context.Context) error {
	now := t.c.Now().UnixMicro()
	postures, errs := t.postures(ctx, now)
	seq, err := t.c.Journal.Last(ctx)
	if err != nil {
		return errors.Join(errs, err)
	}
	if t.last != nil && t.last.Journal == seq && !t.last.differs(postures) {
		return errs
	}
	was, l, err := t.read(ctx, now)
	if err != nil {
		return errors.Join(errs, err)
	}
	if len(l.Pending) > 0 {
		if now < l.Until {
			return errs // somebody is at it
		}
	} else {
		changed, err := t.add(ctx, l, postures, seq, now)
		if err != nil {
			return errors.Join(errs, err)
		}
		if !changed {
			t.last = l
			return errs
		}
	}
	return errors.Join(errs, t.tell(ctx, was, l, now))
}

// read returns the ledger, and the document that it is.
func (t *Teller) read(ctx context.Context, now int64) (doc []byte, l *ledger, err error) {
	t.last = nil
	if doc, err = t.c.Store.Get(ctx, key); err != nil {
		return nil, nil, err
	}
	l = &ledger{}
	if doc == nil || json.Unmarshal(doc, l) != nil { // what is none is written anew
		if l, err = t.first(ctx, now); err != nil {
			return nil, nil, err
		}
	}
	if l.Postures == nil {
		l.Postures = map[string]posture{}
	}
	return doc, l, nil
}

// first is the ledger before anything was told.
func (t *Teller) first(ctx context.Context, now int64) (*ledger, error) {
	l := &ledger{}
	last, err := t.c.Journal.Last(ctx)
	if err != nil {
		return nil, err
	}
	l.Journal = max(last-most, 0)
	records, _, err := t.c.Journal.Since(ctx, l.Journal, most)
	for _, r := range records {
		if now-r.At.UnixMicro() > young {
			l.Journal = r.Seq
		}
	}
	return l, err
}

// add puts what is new among what is to be told, and reports whether anything is.
func (t *Teller) add(ctx context.Context, l *ledger, postures map[string]posture, seq, now int64) (changed bool, err error) {
	if changed = l.differs(postures) || l.Journal != seq; !changed {
		return false, nil
	}
	if seq < l.Journal {
		l.Journal = 0 // another store
	}
	records, upto, err := t.c.Journal.Since(ctx, l.Journal, most) // the rest at the next look
	if err != nil {
		return false, err
	}
	for i := range records {
		l.Pending = append(l.Pending, operatorAction(&records[i]))
	}
	l.Journal = max(upto, l.Journal)
	for _, realm := range slices.Sorted(maps.Keys(postures)) {
		was, is := l.Postures[realm].orNormal(), postures[realm]
		if was.Posture != is.Posture {
			l.Pending = append(l.Pending, postureChange(realm, was, is, now))
		}
		l.Postures[realm] = is
	}
	return true, nil
}

// tell says in the ledger who publishes, publishes, and says that it is done.
func (t *Teller) tell(ctx context.Context, was []byte, l *ledger, now int64) error {
	l.By, l.Until = t.c.Instance, now+claim
	doc, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return err
	}
	mine, err := t.c.Store.Swap(ctx, key, was, doc, kept)
	if err != nil || !mine {
		return err // another was ahead; after an error nobody knows, and the claim runs out
	}
	if err := t.publish(ctx, l.Pending); err != nil {
		return fmt.Errorf("findings: %w", err) // from Until on, whoever can
	}
	t.count(l.Pending)
	l.Pending, l.By, l.Until = nil, "", 0
	done, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = t.c.Store.Swap(ctx, key, doc, done, kept)
	return err
}

func (t *Teller) publish(ctx context.Context, list []aggregate.Finding) error {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	msgs := make([]aggregate.Message, 0, len(list))
	for i := range list {
		b, err := list[i].AppendTo(nil)
		if err != nil {
			return err
		}
		msgs = append(msgs, aggregate.Message{Key: list[i].Realm, Value: bytes.Clone(b)})
	}
	return t.c.Bus.Publish(ctx, aggregate.TopicFindings, msgs)
}

func (t *Teller) count(list []aggregate.Finding) {
	t.mu.Lock()
	for i := range list {
		t.told[of{list[i].Realm, list[i].What}]++
	}
	t.mu.Unlock()
	for i := range list {
		t.c.Told(&list[i])
	}
}

// Told is how many findings of that kind this Teller has published that concern a
// realm.
func (t *Teller) Told(realm, what string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told[of{realm, what}] + t.told[of{"", what}]
}
