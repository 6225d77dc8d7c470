package escalation

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/guardd/guardd/keys"
)

// A proof of work is compatible with version 2 of ALTCHA's protocol, so that
// its widget solves it unmodified. The solver counts up from 0, derives a key
// of nonce, counter and salt for each, and is done at the one whose key begins
// with keyPrefix. We choose that counter, so the work is known within a factor
// of two, and a visitor is not the unlucky one who needs five times as long.
// Nothing is stored: nonce, salt and counter come of the challenge's id and the
// realm's key.

// Bounds and defaults. PBKDF2 of 5000 rounds takes 0.5 ms natively and 1 to 5
// ms in a browser, so 100 to 200 tries are a second for one worker of a phone,
// and less than the shortest wait elsewhere.
const (
	powAlgorithm    = "PBKDF2/SHA-256"
	defaultPowCost  = 5000
	defaultPowTries = 100
	maxPowCost      = 100_000 // we derive one key for each challenge: 10 ms
	maxPowTries     = 10_000
	maxPowWork      = 20_000 // what a phone does in the 90 s after which the widget gives up
	powKeyLen       = 32
	powPrefixLen    = 16
	// depths is how often the wait of a delay can double up to its maximum.
	depths = 5
)

// powRules are a realm's proof of work.
type powRules struct {
	cost    int
	tries   int64
	captcha bool // it satisfies captcha, too
}

// work is the least number of tries asked for: the deeper below the threshold
// (where the wait has doubled) and the higher the posture, the more. 0: none is
// offered.
func (p powRules) work(needed keys.Rung, wait, base int64, posture keys.Posture) int64 {
	depth := depths + 1 // a captcha is asked for beyond all delays
	switch {
	case needed == keys.Delay:
		depth = min(bits.Len64(uint64(max(wait/max(base, 1), 1)))-1, depths)
	case needed != keys.Captcha || !p.captcha:
		return 0
	}
	return min(p.tries<<(depth+int(posture)), maxPowWork)
}

// powPuzzle is what is asked and what the answer is.
type powPuzzle struct {
	nonce, salt []byte // 12 bytes each
	counter     uint32
	derived     []byte
}

// puzzle makes the challenge's. Its counter is from work to 2 x work - 1.
func (r *liveRealm) puzzle(c *challengeToken) (p powPuzzle) {
	m := hmac.New(sha256.New, r.codes)
	m.Write([]byte("pow"))
	m.Write(c.id[:])
	b := m.Sum(nil)
	p.nonce, p.salt = b[:12], b[12:24]
	p.counter = uint32(c.work + int64(binary.BigEndian.Uint64(b[24:])%uint64(c.work)))
	return p
}

// solve derives the key of the right counter.
func (p *powPuzzle) solve(cost int) (err error) {
	password := binary.BigEndian.AppendUint32(append([]byte(nil), p.nonce...), p.counter)
	p.derived, err = pbkdf2.Key(sha256.New, string(password), p.salt, cost, powKeyLen)
	return err
}

// powChallenge is the JSON that the widget reads. Its fields are in the order
// of their names, as the signature wants them.
type powChallenge struct {
	Parameters powParameters `json:"parameters"`
	Signature  string        `json:"signature"`
}

type powParameters struct {
	Algorithm string `json:"algorithm"`
	Cost      int    `json:"cost"`
	ExpiresAt int64  `json:"expiresAt"` // Unix seconds
	KeyLength int    `json:"keyLength"`
	KeyPrefix string `json:"keyPrefix"`
	Nonce     string `json:"nonce"`
	Salt      string `json:"salt"`
}

// powPayload is what of the widget's payload (JSON in base64) counts; the
// challenge in it is ours, and is not believed.
type powPayload struct {
	Solution struct {
		Counter    uint32 `json:"counter"`
		DerivedKey string `json:"derivedKey"`
	} `json:"solution"`
}

// Pow returns the proof of work that solves a challenge, as the JSON that the
// ALTCHA widget (version 2 of its protocol) reads; the widget's payload is the
// answer. Errors: Faults (token: invalid, expired), ErrTooMany, ErrStore.
func (g *Guard) Pow(ctx context.Context, token string) ([]byte, error) {
	c, realm, err := g.openLive(token)
	switch {
	case err != nil:
		return nil, err
	case c.work == 0:
		return nil, Faults{{"token", string(ProofInvalid)}}
	}
	few, err := g.mayFetch(ctx, realm, c, WayPow)
	switch {
	case err != nil:
		return nil, err
	case !few:
		return nil, ErrTooMany
	}
	p := realm.puzzle(c)
	if err := p.solve(realm.pow.cost); err != nil {
		return nil, fmt.Errorf("making a proof of work: %w", err)
	}
	q := powChallenge{Parameters: powParameters{
		Algorithm: powAlgorithm, Cost: realm.pow.cost, ExpiresAt: c.expires / keys.Second, KeyLength: powKeyLen,
		KeyPrefix: hex.EncodeToString(p.derived[:powPrefixLen]), Nonce: hex.EncodeToString(p.nonce), Salt: hex.EncodeToString(p.salt),
	}}
	if q.Signature, err = realm.signPow(&q.Parameters); err != nil {
		return nil, err
	}
	return json.Marshal(&q)
}

// signPow signs the parameters as the protocol says. What is given back is
// judged by the sealed challenge alone; the signature is for solvers that hold
// it necessary.
func (r *liveRealm) signPow(p *powParameters) (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	m := hmac.New(sha256.New, r.codes)
	m.Write([]byte("pow signature"))
	m.Write(b)
	return hex.EncodeToString(m.Sum(nil)), nil
}

// judgePow takes a payload. The right counter alone could be guessed; the key
// that it gives cannot, and is derived only when the counter is right.
func (g *Guard) judgePow(ctx context.Context, realm *liveRealm, c *challengeToken, text string) (ProofError, error) {
	if c.work == 0 {
		return ProofInvalid, nil
	}
	if why := g.first(ctx, realm, c); why != "" {
		return why, nil
	}
	b, err := base64.StdEncoding.DecodeString(blank(text))
	var given powPayload
	if err != nil || json.Unmarshal(b, &given) != nil {
		return ProofWrongAnswer, nil
	}
	p := realm.puzzle(c)
	if given.Solution.Counter != p.counter {
		return ProofWrongAnswer, nil
	}
	if err := p.solve(realm.pow.cost); err != nil {
		return "", fmt.Errorf("checking a proof of work: %w", err)
	}
	if !same(given.Solution.DerivedKey, hex.EncodeToString(p.derived)) {
		return ProofWrongAnswer, nil
	}
	return "", nil
}
