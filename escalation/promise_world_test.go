package escalation_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/redisstore"
)

// The promises are kept over every store. breakable is a store that a test can
// take away in the ways in which stores go.
type breakable interface {
	keys.Store
	keys.Records
	keys.Tallies
	keys.Codes
	gone() // calls fail
	hang() // calls are not answered
	lost() // calls are done, but their answers do not arrive
	heal()
}

// overStores runs a promise over the twin and over a real Redis.
func overStores(t *testing.T, promise func(t *testing.T, s breakable)) {
	t.Run("memory", func(t *testing.T) {
		promise(t, &memory{Memory: keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 16, Marks: 1 << 18})})
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		client, err := redisstore.Open(server.URL(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		s := &redis{Store: redisstore.New(redisstore.Config{Client: client, Deadline: time.Second}), server: server}
		if err := s.Load(context.Background()); err != nil {
			t.Fatal(err)
		}
		promise(t, s)
	})
}

var errGone = errors.New("the store is gone")

const (
	fine = iota
	isGone
	isHanging
	isLost
)

type memory struct {
	*keys.Memory
	mode atomic.Int32
}

func (m *memory) gone() { m.mode.Store(isGone) }
func (m *memory) hang() { m.mode.Store(isHanging) }
func (m *memory) lost() { m.mode.Store(isLost) }
func (m *memory) heal() { m.mode.Store(fine) }

// fault does what the mode says around a call.
func (m *memory) fault(ctx context.Context, call func() error) error {
	switch m.mode.Load() {
	case isGone:
		return errGone
	case isHanging: // until its own deadline, as a client of a network does
		ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		return ctx.Err()
	case isLost:
		return errors.Join(call(), errGone)
	}
	return call()
}

func (m *memory) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	return m.fault(ctx, func() error { return m.Memory.Take(ctx, a, ans) })
}

func (m *memory) Give(ctx context.Context, r *keys.Return, rcp *keys.Receipt) error {
	return m.fault(ctx, func() error { return m.Memory.Give(ctx, r, rcp) })
}

func (m *memory) Tally(ctx context.Context, key string, now, window int64) (n, before int64, err error) {
	err = m.fault(ctx, func() (err error) { n, before, err = m.Memory.Tally(ctx, key, now, window); return err })
	return n, before, err
}

func (m *memory) SendCode(ctx context.Context, a *keys.CodeAsk, ans *keys.CodeAnswer) error {
	return m.fault(ctx, func() error { return m.Memory.SendCode(ctx, a, ans) })
}

func (m *memory) LiveCode(ctx context.Context, key string, now int64) (c keys.Code, err error) {
	err = m.fault(ctx, func() (err error) { c, err = m.Memory.LiveCode(ctx, key, now); return err })
	return c, err
}

func (m *memory) SpendCode(ctx context.Context, key string, serial, now int64) (ok bool, err error) {
	err = m.fault(ctx, func() (err error) { ok, err = m.Memory.SpendCode(ctx, key, serial, now); return err })
	return ok, err
}

func (m *memory) ConfirmCode(ctx context.Context, key string, serial, now int64) error {
	return m.fault(ctx, func() error { return m.Memory.ConfirmCode(ctx, key, serial, now) })
}

func (m *memory) UnsendCode(ctx context.Context, key string, serial, now int64) error {
	return m.fault(ctx, func() error { return m.Memory.UnsendCode(ctx, key, serial, now) })
}

type redis struct {
	*redisstore.Store
	server *redistest.Server
	mode   atomic.Int32
}

func (r *redis) gone() { r.server.Stop() }
func (r *redis) hang() { r.server.Pause() }
func (r *redis) lost() { r.mode.Store(isLost) }

func (r *redis) heal() {
	if r.mode.Swap(fine) == fine {
		r.server.Restart() // whatever it was: stopped, or paused
	}
}

func (r *redis) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	err := r.Store.Take(ctx, a, ans)
	if r.mode.Load() == isLost {
		return errors.Join(err, errGone)
	}
	return err
}

// fleet is instances that share a store, each with its fallback, and a clock
// that the test owns.
type fleet struct {
	*testing.T
	guards []*Guard
	clock  atomic.Int64
}

const start = int64(1_700_000_000_000_000)

func newFleet(t *testing.T, s breakable, instances int) *fleet {
	t.Helper()
	f := &fleet{T: t}
	f.clock.Store(start)
	secrets, err := NewSecrets([][]byte{[]byte("the secret of all instances")})
	if err != nil {
		t.Fatal(err)
	}
	for range instances {
		local := keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 14, Marks: 1 << 18, Now: f.clock.Load})
		fallback := keys.NewFallback(keys.FallbackConfig{Primary: s, Local: local, Instances: instances})
		g := NewGuard(t, Config{
			Store: fallback, Records: fallback, Policy: DefaultPolicy(), Secrets: secrets,
			Instances: instances, Now: f.clock.Load,
		})
		f.guards = append(f.guards, g)
	}
	return f
}

func (f *fleet) pass(d time.Duration) { f.clock.Add(d.Microseconds()) }

// check asks instance i; it is always answered.
func (f *fleet) check(i int, a Attempt) *Verdict {
	f.Helper()
	v, err := f.guards[i%len(f.guards)].Check(context.Background(), &a)
	if err != nil {
		f.Errorf("attempt of %s from %s: %v", a.Account, a.IP, err)
		return &Verdict{Action: ActionDeny, Would: ActionDeny}
	}
	return v
}

func (f *fleet) report(i int, v *Verdict, account, outcome, device string) *Recorded {
	f.Helper()
	r, err := f.guards[i%len(f.guards)].Report(context.Background(), &Report{Attempt: v.Attempt, Account: account, Outcome: outcome, Device: device}, nil)
	if err != nil {
		f.Errorf("reporting %s: %v", outcome, err)
		return &Recorded{}
	}
	return r
}

func (f *fleet) solve(v *Verdict, rung keys.Rung) string {
	f.Helper()
	if v.Challenge == nil || !slices.Contains(v.Challenge.Kinds, WayCode) {
		f.Errorf("%s offers no code: %+v", v.Action, v.Challenge)
		return ""
	}
	p, err := f.guards[0].Solve(context.Background(), v.Challenge.Token, rung)
	if err != nil {
		f.Error(err)
	}
	return p
}

// insist asks until it is let through or asked for a code, and solves every
// picture. A wait is passed by a code's proof if byCode, else it gives up.
func (f *fleet) insist(i int, a Attempt, byCode bool) *Verdict {
	f.Helper()
	for range 4 {
		v := f.check(i, a)
		switch {
		case v.Action == ActionCaptcha:
			a.Proof = f.solve(v, keys.Captcha)
		case v.Action == ActionDelay && byCode:
			a.Proof = f.solve(v, keys.Verify)
		default:
			return v
		}
	}
	return f.check(i, a)
}
