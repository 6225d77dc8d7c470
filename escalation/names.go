package escalation

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"

	"github.com/guardd/guardd/keys"
)

// nameSeal seals account names of a realm that has them told (Realm.ClearNames), so
// that whoever tells them to a SOC can open them and nobody on the way: Kafka and
// Redis hold no more of a name than before. Its key comes of the realm's pepper,
// which all instances have, and which outlives sealing secrets as names do. A nil one
// seals nothing. Safe for concurrent use.
type nameSeal struct{ aead cipher.AEAD }

func newNameSeal(pepper []byte, realm string) (*nameSeal, error) {
	key, err := derive(pepper, "guardd name 1 "+realm, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &nameSeal{aead}, err
}

// nameStep is what names are padded to, so that their length says little. They have
// no NUL.
const nameStep = 32

// seal is bound to the account: under another hash it opens to nothing.
func (s *nameSeal) seal(name string, a keys.Account) string {
	if s == nil {
		return ""
	}
	padded := make([]byte, (len(name)+nameStep-1)/nameStep*nameStep)
	copy(padded, name)
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, padded, a[:]))
}

// open is "" of what was not sealed for the account.
func (s *nameSeal) open(sealed string, a keys.Account) string {
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if s == nil || err != nil || len(b) < s.aead.NonceSize() {
		return ""
	}
	name, err := s.aead.Open(nil, b[:s.aead.NonceSize()], b[s.aead.NonceSize():], a[:])
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(name, "\x00"))
}

// AccountName opens what an event has of an account's name (Trace.Name), as normalised.
// It is "" where the realm has no names told, whatever it had when the event was made,
// and of what was sealed for another account or with another pepper.
func (g *Guard) AccountName(realm, hash, sealed string) string {
	r := g.live.Load().realms[realm]
	a, ok := keys.ParseAccount(hash)
	if r == nil || !ok {
		return ""
	}
	return r.names.open(sealed, a)
}
