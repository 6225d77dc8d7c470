package escalation

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/guardd/guardd/keys"
)

// This file is what a challenge is to those who show one; answer.go judges what
// comes back, media.go, pow.go and code.go are the ways to solve one.

// View is what a page shows of a challenge.
type View struct {
	Realm, Flow string
	Kind        string   // wait, captcha, verify
	Kinds       []string // every way that satisfies it, as in Challenge
	ExpiresAt   time.Time
	NotBefore   time.Time // for wait, else zero
	Wait        time.Duration
	ReturnURL   string // sealed in the challenge; "" for none
	Providers   []ProviderView
	Now         time.Time // by the store's clock
}

// View shows what a challenge asks for. It changes nothing. Errors: Faults
// (token: invalid, expired).
func (g *Guard) View(_ context.Context, token string) (*View, error) {
	c, realm, err := g.openLive(token)
	if err != nil {
		return nil, err
	}
	shown, now := g.shownAs(realm, c, token), g.now()
	v := &View{
		Realm: c.realm, Flow: Flows[c.flow], Kind: shown.Kind, Kinds: shown.Kinds,
		ExpiresAt: shown.ExpiresAt, NotBefore: shown.NotBefore, ReturnURL: c.returnURL, Now: micros(now),
		Providers: g.providerViews(realm, c),
	}
	if c.rung == keys.Delay {
		v.Wait = time.Duration(max(c.notBefore()-now, 0)) * time.Microsecond
	}
	return v, nil
}

// openLive opens a challenge that can still be solved.
func (g *Guard) openLive(token string) (*challengeToken, *liveRealm, error) {
	c, realm, err := g.openAny(token)
	if err == nil && g.now() >= c.expires {
		err = Faults{{"token", string(ProofExpired)}}
	}
	return c, realm, err
}

// openAny opens a challenge, expired or not.
func (g *Guard) openAny(token string) (*challengeToken, *liveRealm, error) {
	c := g.c.Secrets.openChallenge(token)
	if c == nil {
		return nil, nil, Faults{{"token", string(ProofInvalid)}}
	}
	realm := g.live.Load().realms[c.realm]
	if realm == nil { // of a realm that is no more
		return nil, nil, Faults{{"token", string(ProofInvalid)}}
	}
	return c, realm, nil
}

// refresh makes c a challenge of its own that begins now.
func (g *Guard) refresh(c *challengeToken, now int64) (err error) {
	if c.id, err = g.newID(); err != nil {
		return err
	}
	c.issued, c.born, c.expires = now, max(c.born, now), now+challengeLifetime
	switch c.rung {
	case keys.Delay:
		c.expires = c.notBefore() + waitLifetime
	case keys.Captcha:
		var b [8]byte
		if _, err = io.ReadFull(g.c.Rand, b[:]); err != nil {
			return fmt.Errorf("drawing digits: %w", err)
		}
		c.digits = int64(binary.BigEndian.Uint64(b[:]) % maxDigits)
	}
	return err
}

// again returns a fresh challenge in place of c, which has been answered; second
// says that it is the second of two pictures. Who has waited half of his time is
// not made to wait anew.
func (g *Guard) again(realm *liveRealm, c *challengeToken, second bool) (*Challenge, error) {
	fresh, now := *c, g.now()
	if err := g.refresh(&fresh, now); err != nil {
		return nil, err
	}
	fresh.second = second && c.rung == keys.Captcha
	if c.rung == keys.Delay && now < c.expires {
		fresh.issued, fresh.born, fresh.expires = c.issued, c.born, c.expires
	}
	return g.shownAs(realm, &fresh, g.c.Secrets.seal(forChallenge, fresh.encode())), nil
}

// shownAs is c as visitors and handlers see it.
func (g *Guard) shownAs(realm *liveRealm, c *challengeToken, token string) *Challenge {
	page := g.c.PublicURL + "/challenges/" + token
	s := &Challenge{Kind: kinds[c.rung], Kinds: realm.ways(c), Token: token, ExpiresAt: micros(c.expires), Page: page}
	switch c.rung {
	case keys.Delay:
		s.NotBefore = micros(c.notBefore())
	case keys.Captcha:
		s.Image, s.Audio = page+"/image.png", page+"/audio.wav"
	}
	return s
}

var kinds = map[keys.Rung]string{keys.Delay: KindWait, keys.Captcha: KindCaptcha, keys.Verify: KindVerify}

// ways are all that solve c. Every challenge can be solved with a code, because
// strangers can use up everything else.
func (r *liveRealm) ways(c *challengeToken) []string {
	var ways []string
	switch c.rung {
	case keys.Delay:
		ways = append(ways, WayWait)
	case keys.Captcha:
		ways = append(ways, WayImage, WayAudio)
	}
	ways = append(ways, WayCode)
	if c.work > 0 {
		ways = append(ways, WayPow)
	}
	if c.rung == keys.Captcha {
		for _, p := range r.providers {
			ways = append(ways, p.Name())
		}
	}
	return ways
}
