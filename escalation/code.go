package escalation

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/guardd/guardd/keys"
)

// crockford is the alphabet of codes: no letter that looks like a digit, and
// no U, so that few codes are words.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// codeLen is 50 bits at 5 a character: whoever guesses a million a second at
// one code for all of its 12 hours has a chance of 1 in 26,000.
const codeLen = 10

// code is what the account's code of this serial says. It comes of the realm's
// own key, which does not change when sealing secrets rotate: a code in the
// mail outlives that.
func (r *liveRealm) code(a keys.Account, serial int64) string { return r.codeText("code", a, serial) }

// quarterCodes is how many codes a quarter of an hour has, one after another:
// whoever has used the first may need a second while the store is still gone.
// No more than keys.MaxQuarterMails are sent without an image.
const quarterCodes = 8

// quarterCode is the nth code of a quarter of an hour, for when no store
// remembers serials.
func (r *liveRealm) quarterCode(a keys.Account, quarter, nth int64) string {
	return r.codeText("quarter", a, quarter*quarterCodes+nth%quarterCodes)
}

func (r *liveRealm) codeText(what string, a keys.Account, n int64) string {
	m := hmac.New(sha256.New, r.codes)
	m.Write([]byte(what))
	m.Write(a[:])
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	bits := binary.BigEndian.Uint64(m.Sum(nil))
	var b [codeLen]byte
	for i := range b {
		b[i] = crockford[bits>>59]
		bits <<= 5
	}
	return string(b[:])
}

// spell undoes what people do to a code: blanks, small letters, and the letters
// that the alphabet leaves out because they look like digits.
func spell(s string) string {
	return lookAlikes.Replace(strings.ToUpper(blank(s)))
}

var lookAlikes = strings.NewReplacer("O", "0", "I", "1", "L", "1")

// judgeCode holds what was typed against the account's live code, and those of
// this quarter of an hour and the last, which are sent when no store remembers
// serials. The store may have come back since, so both are always compared.
// When there is no room to remember answers, a code is judged all the same:
// it is the one way that nobody else can use up.
func (g *Guard) judgeCode(ctx context.Context, realm *liveRealm, c *challengeToken, text string, now int64) (ProofError, error) {
	if g.c.Codes == nil {
		return "", fmt.Errorf("%w: the guard has no codes", ErrStore)
	}
	if g.first(ctx, realm, c) == ProofSpent {
		return ProofSpent, nil
	}
	typed, key := spell(text), realm.at(c.account).Code(c.account)
	live, err := g.c.Codes.LiveCode(ctx, key, g.storeNow())
	if err != nil && !errors.Is(err, keys.ErrNoStore) {
		return "", fmt.Errorf("%w: %w", ErrStore, err)
	}
	if err == nil && same(typed, realm.code(c.account, live.Serial)) && live.Serial != 0 {
		spent, err := g.c.Codes.SpendCode(ctx, key, live.Serial, g.storeNow())
		switch {
		case err != nil && !errors.Is(err, keys.ErrNoStore):
			return "", fmt.Errorf("%w: %w", ErrStore, err)
		case err != nil:
			return ProofUnsure, nil
		case !spent:
			return ProofSpent, nil
		}
		return "", nil
	}
	for q := keys.Quarter(now); q >= keys.Quarter(now)-1; q-- {
		for nth := range int64(quarterCodes) {
			if same(typed, realm.quarterCode(c.account, q, nth)) {
				return g.spendQuarter(ctx, realm, c.account, q, nth, live, err != nil), nil
			}
		}
	}
	if err != nil {
		return ProofUnsure, nil // it may be the code of a serial that we cannot know
	}
	return ProofWrongAnswer, nil
}

// spendQuarter lets a quarter's code be used once: for each instance while
// there is no store. There (alone), live is the code that this instance sent;
// its life ends, so that the next press sends another.
func (g *Guard) spendQuarter(ctx context.Context, realm *liveRealm, a keys.Account, quarter, nth int64, live keys.Code, alone bool) ProofError {
	key := realm.at(a).Tally("quarter", fmt.Sprintf("%s:%d:%d", a, quarter, nth))
	if n, err := g.tally(ctx, key, 2*keys.MinCodeLife); err == nil && n > 1 {
		return ProofSpent
	}
	if alone && live.Serial != 0 && keys.Quarter(live.Sent) == quarter && int64(live.Nth)%quarterCodes == nth {
		_, _ = g.c.Codes.SpendCode(ctx, realm.at(a).Code(a), live.Serial, g.storeNow())
	}
	return ""
}
