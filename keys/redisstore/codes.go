package redisstore

import (
	"context"

	"github.com/guardd/guardd/keys"
)

var (
	sendScript  = newScript("bucket", "coderecord", "send")
	codeScript  = newScript("bucket", "coderecord", "code")
	tallyScript = newScript("bucket", "tally")
)

var (
	_ keys.Codes   = (*Store)(nil)
	_ keys.Tallies = (*Store)(nil)
)

// ask runs a script on the keys, whose first says where; pack is given the
// deadline and returns the header. It returns the reply after the status; a
// script that came to it too late did nothing, which is keys.ErrLate.
func (s *Store) ask(ctx context.Context, sc script, name string, now, deadline int64, first string, pack func(until int64) call, more ...any) (reply, int64, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	on, err := s.server(ctx, first)
	if err != nil {
		return reply{}, 0, wrap(name, err)
	}
	c := pack(on.until(ctx, now, deadline))
	sent := on.now()
	v, err := s.eval(ctx, on, sc, c.keys, append([]any{c.head}, more...)...)
	if err != nil {
		return reply{}, 0, wrap(name, err)
	}
	r := reply{s: v}
	late, at := r.from(0, 1) == 1, r.number()
	if r.bad {
		return r, 0, wrap(name, errReply)
	}
	if now == 0 {
		on.learn(sent, at) // of a late one too: the clock that made it late may be wrong
	}
	if late {
		return r, 0, wrap(name, keys.ErrLate)
	}
	return r, at, nil
}

// SendCode implements keys.Codes.
func (s *Store) SendCode(ctx context.Context, a *keys.CodeAsk, ans *keys.CodeAnswer) error {
	if err := a.Validate(); err != nil {
		return err
	}
	const name = "send code"
	p := &a.Proof
	r, now, err := s.ask(ctx, sendScript, name, a.Now, a.Deadline, a.Key, func(until int64) call {
		c := call{keys: []string{a.Key, a.SenderKey}}
		c.number(a.Now, until, p.Issued, p.NotBefore, p.Expires, p.Uses)
		c.small(uint8(p.Rung))
		c.key(p.Key, a.RevokedKey)
		c.head = append(c.head, a.Account[:]...)
		return c
	})
	if err != nil {
		return err
	}
	return wrap(name, readSent(a, r, now, ans))
}

// readSent fills ans from a reply of send.lua. Another's would be a mail whose
// code nobody can spend.
func readSent(a *keys.CodeAsk, r reply, now int64, ans *keys.CodeAnswer) error {
	*ans = keys.CodeAnswer{Now: now, Code: r.code(), State: keys.CodeState(r.from(0, uint8(keys.CodeAgain))),
		Proof: keys.ProofState(r.from(0, uint8(keys.ProofInvalid)))}
	if r.s != string(a.Account[:]) {
		return errReply
	}
	r.s = ""
	return r.end()
}

// What code.lua is to do.
const (
	deedLook uint8 = iota
	deedSpend
	deedUnsend
	deedConfirm
)

// code calls code.lua.
func (s *Store) code(ctx context.Context, name string, deed uint8, key string, serial, now int64) (live keys.Code, done bool, err error) {
	if err := keys.ValidCode(key, serial, now); err != nil {
		return live, false, err
	}
	r, _, err := s.ask(ctx, codeScript, name, now, 0, key, func(until int64) call {
		c := call{keys: []string{key}}
		c.number(now, until, serial)
		c.small(deed)
		return c
	})
	if err != nil {
		return live, false, err
	}
	live, done, err = readCode(serial, r)
	return live, done, wrap(name, err)
}

// readCode reads a reply of code.lua about serial.
func readCode(serial int64, r reply) (live keys.Code, done bool, err error) {
	live = r.code()
	if r.number() != serial {
		r.bad = true // another's would pass for one's own code
	}
	done = r.from(0, 1) == 1
	if err := r.end(); err != nil {
		return keys.Code{}, false, err
	}
	return live, done, nil
}

// LiveCode implements keys.Codes.
func (s *Store) LiveCode(ctx context.Context, key string, now int64) (keys.Code, error) {
	live, _, err := s.code(ctx, "live code", deedLook, key, 0, now)
	return live, err
}

// SpendCode implements keys.Codes.
func (s *Store) SpendCode(ctx context.Context, key string, serial, now int64) (bool, error) {
	_, done, err := s.code(ctx, "spend code", deedSpend, key, serial, now)
	return done, err
}

// ConfirmCode implements keys.Codes.
func (s *Store) ConfirmCode(ctx context.Context, key string, serial, now int64) error {
	_, _, err := s.code(ctx, "confirm code", deedConfirm, key, serial, now)
	return err
}

// UnsendCode implements keys.Codes.
func (s *Store) UnsendCode(ctx context.Context, key string, serial, now int64) error {
	_, _, err := s.code(ctx, "unsend code", deedUnsend, key, serial, now)
	return err
}

// Tally implements keys.Tallies.
func (s *Store) Tally(ctx context.Context, key string, now, window int64) (n, before int64, err error) {
	if err := keys.ValidTally(key, now, window); err != nil {
		return 0, 0, err
	}
	r, _, err := s.ask(ctx, tallyScript, "tally", now, 0, key, func(until int64) call {
		c := call{keys: []string{key}}
		c.number(now, until, window)
		return c
	})
	if err != nil {
		return 0, 0, err
	}
	n, before = r.number(), r.number()
	if n < 1 || r.number() != window {
		r.bad = true
	}
	if err := r.end(); err != nil {
		return 0, 0, wrap("tally", err)
	}
	return n, before, nil
}

// code reads one code.
func (r *reply) code() keys.Code {
	return keys.Code{Serial: r.number(), Sent: r.number(), Until: r.number(), Nth: int(r.number())}
}
