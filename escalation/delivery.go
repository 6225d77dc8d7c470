package escalation

import (
	"context"
	"fmt"
	"time"

	"github.com/guardd/guardd/keys/trace"
)

// Kinds of Message.
const (
	MessageCode   = "code"
	MessageNotice = "notice"
)

// Message is one thing to tell an account's owner.
type Message struct {
	ID   string // the same on every repetition
	Kind string // MessageCode or MessageNotice
	// Account is the name, normalised. It goes to the owner and nowhere else:
	// logs take AccountHash.
	Account, AccountHash string
	Realm, Flow          string
	Code                 string    // for MessageCode
	ExpiresAt            time.Time // of the code
	// Only: no other code is sent until ExpiresAt, so this mail is to be kept.
	Only bool
	// Hint is the first 16 characters of the challenge's token, by which a
	// developer tells codes apart.
	Hint string
	// Notice is what happened, for MessageNotice, and Suppressed how many
	// more notices the account had since the last that was sent.
	Notice     string
	Suppressed int64
	At         time.Time // when it happened
	// Trace is of the request that led to it; zero: it was of none.
	Trace trace.Context
}

// Deliverer delivers one message. It is called off the request's path, by a
// few goroutines at a time, and repeats by itself what may succeed later. An
// error that wraps ErrUndeliverable means that it failed for good.
// Any other error, too, means that it was not delivered: nobody repeats it.
// Between repetitions it sleeps by Pause, so that it holds nobody up.
type Deliverer interface {
	Deliver(ctx context.Context, m *Message) error
}

// deliver hands m to the realm's deliverer as it is now.
func (g *Guard) deliver(ctx context.Context, m *Message) error {
	d, err := g.live.Load().deliver[m.Realm], error(nil)
	if d == nil {
		err = fmt.Errorf("%w: realm %q has no delivery", ErrUndeliverable, m.Realm)
	} else {
		asked := g.c.Tracer.Ask(m.Trace)
		err = d.Deliver(trace.With(ctx, asked), m)
		asked.End("deliver "+m.Kind, err != nil, trace.Attribute{Key: "guardd.realm", Value: m.Realm})
	}
	if g.c.Delivered != nil {
		g.c.Delivered(m, err)
	}
	return err
}

// Close takes no more messages and waits until those on their way are
// delivered. When ctx ends before, it stops them, has their codes count as not
// sent, and returns ctx's error.
func (g *Guard) Close(ctx context.Context) error { return g.queue.close(ctx) }
