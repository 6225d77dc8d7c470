package escalation

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// cheap is a policy whose work is done at once.
func cheap(captcha bool) *Policy {
	p := slow()
	p.Realms["default"].Pow = Pow{Cost: 2, Tries: 4, SatisfiesCaptcha: captcha}
	return p
}

// solution is what the widget gives.
type solution struct {
	Challenge json.RawMessage `json:"challenge"`
	Solution  struct {
		Counter    uint32  `json:"counter"`
		DerivedKey string  `json:"derivedKey"`
		Time       float64 `json:"time"`
	} `json:"solution"`
}

func (s *solution) payload() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// toil solves a challenge as the published protocol says, and says how many
// tries it took.
func toil(t testing.TB, challenge []byte) (s solution, tries int) {
	t.Helper()
	var c struct {
		Parameters struct {
			Algorithm, Nonce, Salt, KeyPrefix string
			Cost, KeyLength                   int
		}
	}
	if err := json.Unmarshal(challenge, &c); err != nil {
		t.Fatal(err)
	}
	p := c.Parameters
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	nonce, salt, prefix := unhex(p.Nonce), unhex(p.Salt), unhex(p.KeyPrefix)
	if p.Algorithm != "PBKDF2/SHA-256" || len(nonce) == 0 || len(salt) == 0 || len(prefix) == 0 {
		t.Fatalf("%s", challenge)
	}
	for counter := uint32(0); ; counter++ {
		password := string(nonce) + string(binary.BigEndian.AppendUint32(nil, counter))
		key, err := pbkdf2.Key(sha256.New, password, salt, p.Cost, p.KeyLength)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(key, prefix) {
			s.Challenge, s.Solution.Counter, s.Solution.DerivedKey = challenge, counter, hex.EncodeToString(key)
			return s, int(counter) + 1
		}
	}
}

func (w *world) pow(token string) []byte {
	w.Helper()
	b, err := w.g.Pow(context.Background(), token)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

func TestWorkStandsInPlaceOfTheWait(t *testing.T) {
	w := newMailed(t, withPolicy(cheap(false)))
	v := w.at(alice, home, keys.Delay)
	s, tries := toil(t, w.pow(v.Challenge.Token))
	if tries < 5 || tries > 8 { // from 4 to 2 x 4 - 1, counted from 0
		t.Errorf("%d tries", tries)
	}
	other := w.at(bobs, home, keys.Delay)
	if r := w.answer(Solution{Token: other.Challenge.Token, Way: WayPow, Text: s.payload()}); r.Err != ProofWrongAnswer {
		t.Errorf("for another challenge: %q", r.Err)
	}
	r := w.answer(Solution{Token: v.Challenge.Token, Way: WayPow, Text: s.payload()})
	if r.Err != "" {
		t.Fatal(r.Err)
	}
	if again := w.answer(Solution{Token: v.Challenge.Token, Way: WayPow, Text: s.payload()}); again.Err != ProofSpent {
		t.Errorf("again: %q", again.Err)
	}
	if v := w.try(Attempt{Account: alice, IP: "198.51.100.7", Proof: r.Proof}); v.ProofError != ProofWrongAddress {
		t.Errorf("from another network: %q", v.ProofError)
	}
	w.let(Attempt{Account: alice, IP: home, Proof: r.Proof})
	// Not a second time, and neither does the wait of the same challenge.
	w.pass(v.RetryAfter)
	for what, proof := range map[string]string{"the proof": r.Proof, "the wait": v.Challenge.Token} {
		if v := w.try(Attempt{Account: alice, IP: home, Proof: proof}); v.ProofError != ProofSpent {
			t.Errorf("%s again: %s, %q", what, v.Action, v.ProofError)
		}
	}
	captcha := w.at(alice, home, keys.Captcha)
	_, err := w.g.Pow(context.Background(), captcha.Challenge.Token)
	wantFault(t, err, "token", "invalid")
}

// TestWorkForAShorterWaitIsTooEarly once the wait needed is longer.
func TestWorkForAShorterWaitIsTooEarly(t *testing.T) {
	w := newMailed(t) // its thresholds are whole tokens: the second guess below waits longer
	w.pass(0)
	first := w.at(alice, home, keys.Delay)
	second := w.try(Attempt{Account: alice, IP: home})
	done := func(v *Verdict) string {
		c := w.c.Secrets.openChallenge(v.Challenge.Token)
		return w.c.Secrets.seal(forProof, w.g.prove(c, keys.Delay).encode())
	}
	early, late := done(first), done(second)
	w.let(Attempt{Account: alice, IP: home, Proof: early})
	if v := w.try(Attempt{Account: alice, IP: home, Proof: late}); v.ProofError != ProofTooEarly {
		t.Errorf("%s, %q", v.Action, v.ProofError)
	}
}

func TestWorkThatIsNotDone(t *testing.T) {
	for name, bend := range map[string]func(*solution) string{
		"a guessed counter": func(s *solution) string {
			s.Solution.DerivedKey = s.Solution.DerivedKey[:32] + "00"
			return s.payload()
		},
		"no key":              func(s *solution) string { s.Solution.DerivedKey = ""; return s.payload() },
		"another counter":     func(s *solution) string { s.Solution.Counter++; return s.payload() },
		"the challenge alone": func(s *solution) string { return base64.StdEncoding.EncodeToString(s.Challenge) },
		"not base64":          func(s *solution) string { return "{}" + s.payload() },
		"not JSON":            func(s *solution) string { return base64.StdEncoding.EncodeToString([]byte("counter=1")) },
	} {
		w := newMailed(t, withPolicy(cheap(false)))
		v := w.at(alice, home, keys.Delay)
		s, _ := toil(t, w.pow(v.Challenge.Token))
		if r := w.answer(Solution{Token: v.Challenge.Token, Way: WayPow, Text: bend(&s)}); r.Err != ProofWrongAnswer {
			t.Errorf("%s: %q", name, r.Err)
		}
	}
}

func TestWorkInPlaceOfAPictureOnlyWhereTheRealmSaysSo(t *testing.T) {
	w := newMailed(t, withPolicy(cheap(true)))
	v := w.at(alice, home, keys.Captcha)
	s, _ := toil(t, w.pow(v.Challenge.Token))
	w.let(Attempt{Account: alice, IP: home, Challenge: v.Challenge.Token, Answer: s.payload()}) // told by its look
	verify := w.at(alice, home, keys.Verify)
	_, err := w.g.Pow(context.Background(), verify.Challenge.Token)
	wantFault(t, err, "token", "invalid")
	if v := w.at(alice, home, keys.Verify); len(v.Challenge.Kinds) != 1 {
		t.Errorf("verify by %v", v.Challenge.Kinds)
	}
	for range maxRenderings + 1 {
		_, err = w.g.Pow(context.Background(), w.at("carol", home, keys.Captcha).Challenge.Token)
	}
	if err != nil {
		t.Error(err)
	}
	token := w.at("dave", home, keys.Captcha).Challenge.Token
	for range maxRenderings + 1 {
		_, err = w.g.Pow(context.Background(), token)
	}
	if !errors.Is(err, ErrTooMany) { // each costs us a derivation
		t.Error(err)
	}
}

// TestWorkRisesWithDepthAndPosture by what a visitor's device has to try, not
// by the rules alone.
func TestWorkRisesWithDepthAndPosture(t *testing.T) {
	for _, c := range []struct {
		deeper  bool // below the threshold, so that the wait has doubled once
		posture keys.Posture
		want    int
	}{{false, keys.Normal, 4}, {true, keys.Normal, 8}, {false, keys.Elevated, 8}, {true, keys.Elevated, 16}, {false, keys.High, 16}} {
		w := newMailed(t, withPolicy(cheap(false)))
		w.put(keys.NewSpace("default", 0).State(), keys.State{Posture: c.posture, Until: t0 + keys.Day}.Encode())
		v := w.at(alice, home, keys.Delay)
		for range 40 { // a posture may ask for a wait before any bucket does
			if v.Tiers[0].Rung == keys.Delay {
				break
			}
			w.let(Attempt{Account: alice, IP: home, Proof: w.waited(v)})
			v = w.try(Attempt{Account: alice, IP: home})
		}
		if c.deeper {
			w.let(Attempt{Account: alice, IP: home, Proof: w.waited(v)})
			v = w.try(Attempt{Account: alice, IP: home})
		}
		if _, tries := toil(t, w.pow(v.Challenge.Token)); tries <= c.want || tries > 2*c.want { // the counter begins at 0
			t.Errorf("deeper %v, %s, to wait %v: %d tries, want more than %d and at most twice that", c.deeper, c.posture, v.RetryAfter, tries, c.want)
		}
	}
}

// TestWork is the score sheet of how much is asked.
func TestWork(t *testing.T) {
	const s = int64(1e6)
	r := powRules{cost: 1, tries: 100}
	for _, c := range []struct {
		rules   powRules
		needed  keys.Rung
		wait    int64
		posture keys.Posture
		want    int64
	}{
		{r, keys.Delay, s, keys.Normal, 100},
		{r, keys.Delay, 2 * s, keys.Normal, 200},
		{r, keys.Delay, 16 * s, keys.Normal, 1600},
		{r, keys.Delay, 30 * s, keys.Normal, 1600}, // the maximum is no whole step
		{r, keys.Delay, 600 * s, keys.Normal, 3200},
		{r, keys.Delay, s, keys.Elevated, 200},
		{r, keys.Delay, s, keys.Critical, 800},
		{r, keys.Delay, 30 * s, keys.Critical, 12800},
		{r, keys.Captcha, 0, keys.Normal, 0},
		{r, keys.Verify, 0, keys.Normal, 0},
		{powRules{cost: 1, tries: 100, captcha: true}, keys.Captcha, 0, keys.Normal, 6400},
		{powRules{cost: 1, tries: 100, captcha: true}, keys.Captcha, 0, keys.Critical, maxPowWork},
		{powRules{cost: 1, tries: 100, captcha: true}, keys.Verify, 0, keys.Normal, 0},
		{powRules{}, keys.Delay, s, keys.Normal, 0}, // off
	} {
		if got := c.rules.work(c.needed, c.wait, s, c.posture); got != c.want {
			t.Errorf("%s of %v at %s: %d tries, want %d", c.needed, time.Duration(c.wait)*time.Microsecond, c.posture, got, c.want)
		}
	}
}
