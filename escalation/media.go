package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/guardd/guardd/keys"
)

// Media is a rendered picture or sound.
type Media struct {
	Bytes []byte
	Type  string // media type
}

// Renderer draws and speaks digits; captcha.Renderer does. Safe for concurrent
// use. id makes the noise: distinct for distinct challenges.
type Renderer interface {
	Image(id string, digits []byte) (*Media, error)
	// Audio speaks in lang, one of Languages.
	Audio(id string, digits []byte, lang string) (*Media, error)
}

// Languages are those that Guard.Audio speaks.
var Languages = []string{"en", "ja", "ru", "zh", "pt"}

const (
	digitsLen = 6
	maxDigits = 1_000_000
	// maxRenderings is how often the picture, and the sound, of one challenge is
	// rendered, over all instances: each draws other noise over the same digits,
	// and who has many renderings can average the noise away.
	maxRenderings = 3
)

// Image renders the picture of a challenge. Errors: Faults (token: invalid,
// expired), ErrTooMany (of one challenge, or from one address), ErrStore.
func (g *Guard) Image(ctx context.Context, token string) (*Media, error) {
	return g.render(ctx, token, WayImage, func(id string, digits []byte) (*Media, error) {
		return g.c.Renderer.Image(id, digits)
	})
}

// Audio speaks the digits of a challenge's picture; lang "" is the first of
// Languages. Errors as of Image, and Faults (lang: unknown).
func (g *Guard) Audio(ctx context.Context, token, lang string) (*Media, error) {
	if lang == "" {
		lang = Languages[0]
	}
	if !slices.Contains(Languages, lang) {
		return nil, Faults{{"lang", "unknown"}}
	}
	return g.render(ctx, token, WayAudio, func(id string, digits []byte) (*Media, error) {
		return g.c.Renderer.Audio(id, digits, lang)
	})
}

func (g *Guard) render(ctx context.Context, token, what string, draw func(string, []byte) (*Media, error)) (*Media, error) {
	c, realm, err := g.openLive(token)
	switch {
	case err != nil:
		return nil, err
	case c.rung != keys.Captcha:
		return nil, Faults{{"token", string(ProofInvalid)}}
	case g.c.Renderer == nil:
		return nil, errors.New("the guard has no renderer")
	}
	if err := g.mayFetch(ctx, realm, c, what); err != nil {
		return nil, err
	}
	digits := []byte(digitsText(c.digits))
	for i := range digits {
		digits[i] -= '0'
	}
	return draw(idText(c.id), digits)
}

// mayFetch counts a costly fetch of something of c.
func (g *Guard) mayFetch(ctx context.Context, realm *liveRealm, c *challengeToken, what string) error {
	n, err := g.tally(ctx, realm.at(c.account).Tally(what, idText(c.id)), c.life())
	switch {
	case errors.Is(err, keys.ErrNoStore):
		return ErrTooMany // nobody could remember it
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStore, err)
	case n > maxRenderings:
		return ErrTooMany
	}
	ok, err := g.flood.few(ctx, realm.here.Proof("fetch:"+c.ip.Counted().String()), g.now())
	if err == nil && !ok {
		err = ErrTooMany
	}
	return err
}

func digitsText(n int64) string { return fmt.Sprintf("%0*d", digitsLen, n) }
