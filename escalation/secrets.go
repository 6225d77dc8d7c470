package escalation

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
)

// minSecret is the shortest secret in bytes: below it, guessing the secret
// offline is cheaper than guessing passwords online.
const minSecret = 16

// Secrets are the keys under which tokens are sealed. It is safe for
// concurrent use.
type Secrets struct {
	seals []secret
	only  []byte // the only line, from which peppers may come; else nil
}

// secret is one line's keys: one per purpose, so that a token of one purpose
// cannot even be decrypted as another.
type secret struct {
	id  [4]byte // in clear at the head of every token
	use map[purpose]sealKey
}

type sealKey struct {
	aead cipher.AEAD
	// macs make the synthetic nonce: keying one costs more than using it.
	macs *sync.Pool
}

// NewSecrets makes Secrets of the lines of a secret file: the first seals, all
// open. A line has at least 16 bytes; blanks around it do not count. Errors
// are Faults that name secrets[i].
func NewSecrets(lines [][]byte) (*Secrets, error) {
	s := &Secrets{}
	var faults Faults
	if len(lines) == 0 {
		faults.Add("secrets", "at least one secret is needed")
	}
	for i, line := range lines {
		field := fmt.Sprintf("secrets[%d]", i)
		line = bytes.Clone(bytes.TrimSpace(line))
		if len(line) < minSecret {
			faults.Add(field, "shorter than %d bytes", minSecret)
			continue
		}
		k, err := newSecret(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		for _, o := range s.seals {
			if o.id == k.id {
				faults.Add(field, "the same as an earlier one")
			}
		}
		s.seals = append(s.seals, k)
		s.only = line
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if len(s.seals) > 1 {
		s.only = nil
	}
	return s, nil
}

// Equal reports whether both are of the same lines in the same order. nil is
// equal to nil only.
func (s *Secrets) Equal(o *Secrets) bool {
	if s == nil || o == nil {
		return s == o
	}
	// Key ids are derived from the lines; keys hold what cannot be compared.
	return slices.EqualFunc(s.seals, o.seals, func(a, b secret) bool { return a.id == b.id })
}

// GenerateSecrets makes one random secret, for a process that was given none:
// its tokens end with it.
func GenerateSecrets() (*Secrets, error) {
	line := make([]byte, 32)
	if _, err := rand.Read(line); err != nil {
		return nil, err
	}
	return NewSecrets([][]byte{fmt.Appendf(nil, "%x", line)})
}

func newSecret(line []byte) (secret, error) {
	s := secret{use: map[purpose]sealKey{}}
	id, err := derive(line, "guardd key id 1", len(s.id))
	if err != nil {
		return s, err
	}
	copy(s.id[:], id)
	for _, p := range purposes {
		key, err := derive(line, "guardd seal 1 "+string(p), chacha20poly1305.KeySize)
		if err != nil {
			return s, err
		}
		nonce, err := derive(line, "guardd nonce 1 "+string(p), sha256.Size)
		if err != nil {
			return s, err
		}
		aead, err := chacha20poly1305.NewX(key)
		if err != nil {
			return s, err
		}
		s.use[p] = sealKey{aead, &sync.Pool{New: func() any { return hmac.New(sha256.New, nonce) }}}
	}
	return s, nil
}

func derive(secret []byte, info string, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, nil, info, n)
}
