package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
// expired), ErrTooMany (of one challenge, or from busy addresses), ErrStore.
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
	digits := []byte(digitsText(c.digits))
	for i := range digits {
		digits[i] -= '0'
	}
	few, err := g.mayFetch(ctx, realm, c, what)
	if err != nil {
		return nil, err
	}
	if !few {
		leave, err := g.lane.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return draw(idText(c.id), digits)
}

// mayFetch counts a costly fetch of something of c, and reports whether it is one
// of the few that its address has a minute. When there is no room to count it is
// rendered all the same: whoever crowds the twin must not hide the pictures from
// everybody, and the noise of one process is the same every time.
func (g *Guard) mayFetch(ctx context.Context, realm *liveRealm, c *challengeToken, what string) (few bool, err error) {
	n, err := g.tally(ctx, realm.at(c.account).Tally(what, idText(c.id)), c.life())
	switch {
	case err != nil && !errors.Is(err, keys.ErrNoStore):
		return false, fmt.Errorf("%w: %w", ErrStore, err)
	case n > maxRenderings:
		return false, ErrTooMany
	}
	return g.flood.few(ctx, realm.here.Proof("fetch:"+c.ip.Counted().String()), g.now())
}

// laneLen is how many may wait in the lane: at 10 ms each, half a second.
const laneLen = 64

// lane renders for addresses that fetch much, one at a time: strangers behind an
// owner's address cost a part of one processor, and do not keep the owner's
// picture from her. Its zero value is ready.
type lane struct {
	waiting atomic.Int64
	mu      sync.Mutex
}

// enter waits for the turn; leave ends it. ErrTooMany: too many wait.
func (l *lane) enter() (leave func(), err error) {
	if l.waiting.Add(1) > laneLen {
		l.waiting.Add(-1)
		return nil, ErrTooMany
	}
	l.mu.Lock()
	return func() { l.mu.Unlock(); l.waiting.Add(-1) }, nil
}

func digitsText(n int64) string { return fmt.Sprintf("%0*d", digitsLen, n) }
