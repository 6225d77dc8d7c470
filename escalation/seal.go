package escalation

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"

	"golang.org/x/crypto/chacha20poly1305"
)

// purpose is what a token is for. Each has its own key.
type purpose string

const (
	forAttempt   purpose = "a" // what an outcome is reported with
	forChallenge purpose = "c" // what can be solved; a wait also proves itself
	forProof     purpose = "p" // what a solved challenge gave
	forDevice    purpose = "d" // what a known browser carries
	// What a caller of a general API reserved, to be settled.
	forReservation purpose = "r"
	forSlot        purpose = "s"
)

var purposes = []purpose{forAttempt, forChallenge, forProof, forDevice, forReservation, forSlot}

// Sizes of tokens in characters, so that a bent request cannot make us decode
// megabytes.
const (
	maxAttemptToken   = 512
	maxDeviceToken    = 1024
	maxChallengeToken = 1536 // a name of 512 bytes and a return_url of 400
)

// A token is base64url of: purpose (1 byte), key id (4), nonce (24),
// ciphertext and tag. The head is authenticated too.
const (
	headLen  = 1 + 4
	sealLen  = headLen + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
	maxToken = 4096 // of a reservation: 16 rules with long names
)

// seal encrypts and authenticates plain. The nonce is a keyed hash of the
// plaintext: the same attempt seals to the same string, at any instance, so a
// repeated request can be given its first answer again although no store holds
// it; and distinct plaintexts cannot share a nonce by chance of a bad generator.
func (s *Secrets) seal(p purpose, plain []byte) string {
	k := s.seals[0].use[p]
	m := k.macs.Get().(hash.Hash)
	defer k.macs.Put(m)
	m.Reset()
	m.Write(plain)
	var sum [sha256.Size]byte
	b := make([]byte, 0, sealLen+len(plain))
	b = append(b, p...)
	b = append(b, s.seals[0].id[:]...)
	b = append(b, m.Sum(sum[:0])[:chacha20poly1305.NonceSizeX]...)
	b = k.aead.Seal(b, b[headLen:], plain, b[:headLen])
	return base64.RawURLEncoding.EncodeToString(b)
}

// open is the inverse of seal; ok is false for everything that seal did not
// make, in exactly its spelling, for this purpose.
func (s *Secrets) open(p purpose, token string) (plain []byte, ok bool) {
	if len(token) > maxToken {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	// The decoder skips line breaks: only one spelling may be valid.
	if err != nil || len(b) < sealLen || base64.RawURLEncoding.EncodedLen(len(b)) != len(token) {
		return nil, false
	}
	if string(b[:1]) != string(p) {
		return nil, false
	}
	for i := range s.seals {
		if string(s.seals[i].id[:]) != string(b[1:headLen]) {
			continue
		}
		nonce, box := b[headLen:headLen+chacha20poly1305.NonceSizeX], b[headLen+chacha20poly1305.NonceSizeX:]
		plain, err = s.seals[i].use[p].aead.Open(nil, nonce, box, b[:headLen])
		return plain, err == nil
	}
	return nil, false
}
