package escalation

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/guardd/guardd/keys"
)

// Solution is what a visitor gave in answer to a challenge.
type Solution struct {
	Token string // of the challenge
	// Way is how it was solved: WayImage (the sound has the same digits),
	// WayCode, WayPow or a provider's name. "" judges by the look of Text.
	Way  string
	Text string // digits, code, or what the widget gave
	IP   string // the visitor's, for providers; "" where not known
}

// Solved is what became of a Solution.
type Solved struct {
	Proof        string // "" when it was not right
	ProofExpires time.Time
	Err          ProofError // why there is no proof
	// Challenge is a fresh one of the same kind, after an answer that was not
	// right: each takes one.
	Challenge *Challenge
	ReturnURL string // as sealed in the challenge
	// Realm and Flow are for logs and metrics.
	Realm, Flow string
}

// maxText is the longest answer in bytes: what providers' widgets give is the
// longest, a few KiB.
const maxText = 16 << 10

// Answer judges the answer to a challenge. A challenge takes one answer: one
// that is not right brings a fresh challenge of the same kind for the same
// account, and so does the right answer to a picture where its address has given
// many (ProofInsufficient: the next must be right, too). Errors: Faults (token:
// invalid; answer, way), ErrTooMany (of a proof of work), ErrStore.
func (g *Guard) Answer(ctx context.Context, s *Solution) (*Solved, error) {
	c, realm, err := g.openAny(s.Token)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Text == "":
		return nil, Faults{{"answer", "empty"}}
	case len(s.Text) > maxText:
		return nil, Faults{{"answer", "too_long"}}
	case s.Way != "" && !slices.Contains(realm.ways(c), s.Way):
		return nil, Faults{{"way", "unknown"}}
	}
	r := &Solved{ReturnURL: c.returnURL, Realm: c.realm, Flow: Flows[c.flow]}
	var p *proofToken
	if p, r.Err, err = g.judge(ctx, realm, c, s); err != nil {
		return nil, err
	}
	if p == nil {
		r.Challenge, err = g.again(realm, c, r.Err == ProofInsufficient)
		return r, err
	}
	r.Proof, r.ProofExpires = g.c.Secrets.seal(forProof, p.encode()), micros(p.expires)
	return r, nil
}

// judge takes the answer to c, and returns the proof of a right one, or why
// there is none.
func (g *Guard) judge(ctx context.Context, realm *liveRealm, c *challengeToken, s *Solution) (*proofToken, ProofError, error) {
	now := g.now()
	if now >= c.expires {
		return nil, ProofExpired, nil
	}
	way := s.Way
	if way == "" {
		way = look(c, s.Text)
	}
	rung, why, err := keys.Captcha, ProofError(""), error(nil)
	switch way {
	case WayImage, WayAudio:
		why, err = g.judgeDigits(ctx, realm, c, s.Text, now)
	case WayPow:
		rung = c.rung
		why, err = g.judgePow(ctx, realm, c, s.Text)
	case WayCode:
		rung = keys.Verify
		why, err = g.judgeCode(ctx, realm, c, s.Text, now)
	default:
		why, err = g.judgeProvider(ctx, realm, c, way, s)
	}
	if err != nil || why != "" {
		return nil, why, err
	}
	return g.prove(c, rung), "", nil
}

// look says what an answer is by its look: codes are longer than the digits of
// a picture, and what the proof of work gives is longer than codes.
func look(c *challengeToken, text string) string {
	n := len(blank(text))
	switch {
	case n > 4*codeLen && c.work > 0:
		return WayPow
	case n <= digitsLen && c.rung == keys.Captcha:
		return WayImage
	}
	return WayCode
}

// blank drops what people and keyboards put between and around characters.
func blank(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// same compares in a time that does not tell how much is right.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// first counts an answer to c, and returns why it does not count when it is not
// the first. Where nobody could remember it, it does not count either.
func (g *Guard) first(ctx context.Context, realm *liveRealm, c *challengeToken) ProofError {
	n, err := g.tally(ctx, realm.at(c.account).Tally("answer", idText(c.id)), c.life())
	switch {
	case err != nil:
		return ProofUnsure
	case n > 1:
		return ProofSpent
	}
	return ""
}

// tally counts one more of what may happen a few times.
func (g *Guard) tally(ctx context.Context, key string, window int64) (n int64, err error) {
	if g.c.Tallies == nil {
		return 0, fmt.Errorf("%w: the guard has no tallies", ErrStore)
	}
	n, _, err = g.c.Tallies.Tally(ctx, key, g.storeNow(), window)
	return n, err
}

// judgeDigits holds what was typed against the picture. A million guesses would
// be one that is right, so an address has few a minute. Beyond these one right
// answer is not enough (ProofInsufficient): the next picture must be read, too,
// which is guessed once in a million million. Nobody is refused: strangers behind the
// owner's own address would use the few up, and no code is sent from an
// address that has asked for many, unless a picture is read.
//
// When there is no room to remember the answer it counts: guessing twice at one
// picture is worth no more than guessing at two, and the proof is one however
// often it is given.
func (g *Guard) judgeDigits(ctx context.Context, realm *liveRealm, c *challengeToken, text string, now int64) (ProofError, error) {
	few, err := g.flood.few(ctx, realm.here.Proof("digits:"+c.ip.Counted().String()), now)
	if err != nil {
		return "", err
	}
	n, err := g.tally(ctx, realm.at(c.account).Tally("answer", idText(c.id)), c.life())
	switch {
	case err != nil && !errors.Is(err, keys.ErrNoStore):
		return ProofUnsure, nil
	case n > 1:
		return ProofSpent, nil
	case !same(blank(text), digitsText(c.digits)):
		return ProofWrongAnswer, nil
	case !few && !c.second:
		return ProofInsufficient, nil
	}
	return "", nil
}
