package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// Store is what all instances share.
type Store interface {
	keys.Documents
	keys.Clearer
}

// Here is what an instance holds beside the shared store; keys.Fallback is one.
type Here interface {
	ClearHere(ctx context.Context, buckets []string) error
	Learn(ctx context.Context, key string, value []byte, ttl int64) error
}

// Config is what a Desk is made of. Guard and Store are needed.
type Config struct {
	Guard *escalation.Guard
	Store Store
	// Here is nil where the store is all that there is.
	Here Here
	// Recents are nil where nobody keeps them.
	Recents Recents
	// Realms lists the realms there are.
	Realms func() []string
	// Reload reads this instance's configuration again; with dry it only says
	// what is wrong with it. nil: there is none to read.
	Reload func(dry bool) error
	// Applied is told of every entry that this instance has taken over, for
	// metrics. nil: nobody is.
	Applied func(action string)
	Log     *slog.Logger // nil: nothing is logged
	// Every is the time between two looks at the journal; 0: DefaultEvery.
	Every time.Duration
}

// DefaultEvery leaves three quarters of the second within which a change holds
// everywhere.
const DefaultEvery = 250 * time.Millisecond

// The journal's bounds: whichever is reached first.
const (
	JournalKeeps    = 10_000
	JournalLifetime = 400 * keys.Day
)

// Desk is where operators ask. It is safe for concurrent use.
type Desk struct {
	c        Config
	journal  *keys.Journal
	instance string // tells its own entries

	mu     sync.Mutex      // one reader of the journal at a time
	begun  bool            // it has been looked at
	seen   int64           // the last entry that was read
	behind []*Record       // what could not be done here yet, in order
	listed map[string]bool // the realms whose lists hold here
	renew  time.Time       // when the lists are written again, so that they outlive a quiet year
	looked atomic.Int64
}

// New returns a Desk. instance is this process's name among those that share the
// store, another at every start.
func New(c Config, instance string) *Desk {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Every <= 0 {
		c.Every = DefaultEvery
	}
	if c.Applied == nil {
		c.Applied = func(string) {}
	}
	d := &Desk{c: c, instance: instance, listed: map[string]bool{},
		journal: keys.NewJournal(c.Store, "operators", JournalKeeps, JournalLifetime)}
	d.looked.Store(time.Now().UnixMicro())
	return d
}

// Who is an operator.
type Who struct {
	Name string
	// May says whether a realm is the operator's; nil: all are.
	May func(realm string) bool
}

func (w *Who) may(realm string) error {
	if realm == "" {
		realm = escalation.DefaultRealm
	}
	if w.May != nil && !w.May(realm) {
		return escalation.ErrRealm
	}
	return nil
}

// everywhere is for what concerns all realms.
func (w *Who) everywhere(realms []string) error {
	for _, r := range realms {
		if err := w.may(r); err != nil {
			return err
		}
	}
	return nil
}

// Everywhere is nil for who acts for every realm there is; plan limits, which are
// of none, are theirs alone.
func (d *Desk) Everywhere(w *Who) error { return w.everywhere(d.c.Realms()) }

// realm checks that a realm exists, and that it is the operator's.
func (d *Desk) realm(w *Who, name string) (string, error) {
	if err := w.may(name); err != nil {
		return "", err
	}
	if name == "" {
		name = escalation.DefaultRealm
	}
	if d.c.Guard.Policy().Realms[name] == nil {
		return "", escalation.Faults{{Field: "realm", Reason: "unknown"}}
	}
	return name, nil
}

// spaces of a realm that exists.
func (d *Desk) spaces(realm string) keys.Spaces {
	return keys.NewSpaces(realm, d.c.Guard.Policy().Realms[realm].Shards)
}

const maxReason = 200

// checkReason: who reads the journal a year from now must learn why.
func checkReason(reason string, faults *escalation.Faults) {
	switch {
	case strings.TrimSpace(reason) == "":
		faults.Add("reason", "missing")
	case len(reason) > maxReason:
		faults.Add("reason", "too_long")
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl):
		faults.Add("reason", "control")
	}
}

func faultsOf(f escalation.Faults) error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// unreachable wraps what the store says in what callers know.
func unreachable(err error) error {
	var faults escalation.Faults
	if err == nil || errors.As(err, &faults) || errors.Is(err, escalation.ErrRealm) || errors.Is(err, escalation.ErrStore) {
		return err
	}
	return fmt.Errorf("%w: %w", escalation.ErrStore, err)
}

// Realms lists those that are the operator's, in their order.
func (d *Desk) Realms(w *Who) []string {
	list := []string{}
	for _, r := range d.c.Realms() {
		if w.may(r) == nil {
			list = append(list, r)
		}
	}
	return list
}
