package escalation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// Sent is what became of a Guard.Send.
type Sent struct {
	// Sent: a mail is on its way. False where one is already there whose code
	// is good until ValidUntil.
	Sent       bool
	ValidUntil time.Time
	// Challenge is what to solve before anything is sent from this address, or,
	// beside ValidUntil, to have the live code sent again: repeat with its proof.
	Challenge   *Challenge
	Realm, Flow string
}

// hintLen is how many characters of a challenge's token go along with its code,
// by which a developer tells codes apart. They are the seal's key id and nonce,
// and open nothing.
const hintLen = 16

// Send has a code sent to the owner of the challenge's account. It answers the
// same, after the same work, whether there is such an account or not: guardd
// does not know, and delivery is asynchronous. proof is of the picture that an
// earlier Sent asked for, or that has the live code sent again; "" for none.
// Errors: Faults (token: invalid, expired; proof: invalid, wrong_account),
// ErrTooMany (deliveries lag behind: repeat it later), ErrStore.
func (g *Guard) Send(ctx context.Context, token, proof string) (*Sent, error) {
	c, realm, err := g.openLive(token)
	if err != nil {
		return nil, err
	}
	if g.c.Codes == nil || g.live.Load().deliver == nil {
		return nil, errors.New("the guard has no codes, or nobody to deliver them")
	}
	ask := &keys.CodeAsk{
		Now: g.storeNow(), Account: c.account, Key: realm.at(c.account).Code(c.account),
		SenderKey: realm.at(c.account).Sender(c.ip), RevokedKey: realm.at(c.account).Revoked(c.account),
	}
	if proof != "" {
		if ask.Proof, err = g.price(realm, c, proof); err != nil {
			return nil, err
		}
	}
	var ans keys.CodeAnswer
	if err := g.c.Codes.SendCode(ctx, ask, &ans); err != nil && !(errors.Is(err, keys.ErrNoStore) && ans.Degraded) {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if !ans.Degraded {
		g.sawClock(ans.Now)
	}
	s := &Sent{Realm: c.realm, Flow: Flows[c.flow]}
	switch ans.State {
	case keys.CodeLives:
		s.ValidUntil = micros(ans.Code.Until)
		fallthrough // its mail may have been lost
	case keys.CodePriced:
		s.Challenge, err = g.picture(realm, c)
		return s, err
	}
	paid := ask.Proof.Key != "" && (ans.Proof == keys.ProofUsed || ans.Proof == keys.ProofNone)
	ok, err := g.post(ctx, realm, c, token, &ans, paid)
	switch {
	case err != nil:
		return nil, err
	case !ok && paid || g.queue.isClosed():
		return nil, ErrTooMany
	case !ok:
		s.Challenge, err = g.picture(realm, c)
		return s, err
	}
	s.Sent, s.ValidUntil = true, micros(ans.Code.Until)
	return s, nil
}

// picture is what to read before a code is sent to the account of c.
func (g *Guard) picture(realm *liveRealm, c *challengeToken) (*Challenge, error) {
	picture := *c
	picture.rung, picture.work = keys.Captcha, realm.pow.work(keys.Captcha, 0, 0, keys.Normal)
	return g.again(realm, &picture, false)
}

// price is what a solved picture is worth to the sender of codes.
func (g *Guard) price(realm *liveRealm, c *challengeToken, token string) (keys.Proof, error) {
	p := g.c.Secrets.openProof(token)
	switch {
	case p == nil || p.scope != c.scope || p.rung < keys.Captcha:
		return keys.Proof{}, Faults{{"proof", string(ProofInvalid)}}
	case p.account != c.account:
		return keys.Proof{}, Faults{{"proof", string(ProofWrongAccount)}}
	}
	return realm.proof(p), nil
}

// post hands the code to delivery, and reports whether there was room. One that
// fails counts as not sent, so that the next press sends another; but of a code
// sent again the first mail may have arrived.
func (g *Guard) post(ctx context.Context, realm *liveRealm, c *challengeToken, token string, ans *keys.CodeAnswer, paid bool) (bool, error) {
	id, err := g.newID()
	if err != nil {
		return false, err
	}
	m := &Message{
		ID: idText(id), Kind: MessageCode, Account: c.name, AccountHash: c.account.String(),
		Realm: c.realm, Flow: Flows[c.flow], Code: realm.code(c.account, ans.Code.Serial),
		ExpiresAt: micros(ans.Code.Until), At: micros(ans.Now), Only: !ans.Degraded, Hint: token[:hintLen], Trace: trace.From(ctx).Sent(),
	}
	if ans.Degraded {
		m.Code = realm.quarterCode(c.account, keys.Quarter(ans.Code.Sent), int64(ans.Code.Nth))
	}
	key, serial := realm.at(c.account).Code(c.account), ans.Code.Serial
	failed := func(ctx context.Context) {
		if ans.State == keys.CodeSent {
			_ = g.c.Codes.UnsendCode(ctx, key, serial, g.storeNow()) // else it is as one whose delivery nobody heard of
		}
	}
	l := &letter{account: c.account, place: c.ip.Wide(), paid: paid, drop: func() { failed(context.Background()) }}
	l.deliver = func(ctx context.Context) {
		if !ans.Degraded && g.past(ctx, key, serial) {
			return
		}
		err := g.deliver(ctx, m)
		ctx = context.WithoutCancel(ctx)
		switch {
		case err != nil:
			failed(ctx)
		case !ans.Degraded:
			_ = g.c.Codes.ConfirmCode(ctx, key, serial, g.storeNow()) // else it is sent again when somebody asks for it
		}
	}
	if !g.queue.put(c.realm, l) {
		l.drop()
		return false, nil
	}
	return true, nil
}

// past reports whether the code is known to live no more: its mail waited for
// so long that another was sent, and would be the newest with a code that is dead.
func (g *Guard) past(ctx context.Context, key string, serial int64) bool {
	live, err := g.c.Codes.LiveCode(ctx, key, g.storeNow())
	return err == nil && live.Serial != serial
}
