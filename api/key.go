package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/guardd/guardd/escalation"
)

// Key is one caller's Bearer key. The key itself is kept nowhere: a configuration
// that leaks opens nothing.
type Key struct {
	Name   string   // for logs
	SHA256 [32]byte // of the key's bytes
	Realms []string // that it may act for; empty: all
	Role   Role     // what it may do at /admin/v1
}

// may reports whether the key is for the realm, by the name a request gives.
func (k *Key) may(realm string) bool {
	if realm == "" {
		realm = escalation.DefaultRealm
	}
	return len(k.Realms) == 0 || slices.Contains(k.Realms, realm)
}

var anybody = &Key{Name: "anybody"}

// identify returns the key that the request bears. Every configured key is
// compared, each in constant time, and by hash: neither the time taken nor
// the length says how close a guess came.
func (s *service) identify(r *http.Request) (*Key, error) {
	if len(s.Keys) == 0 {
		return anybody, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, problemUnauthorized("A key is needed: Authorization: Bearer KEY.")
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	var found *Key
	for i := range s.Keys {
		if subtle.ConstantTimeCompare(sum[:], s.Keys[i].SHA256[:]) == 1 {
			found = &s.Keys[i]
		}
	}
	if found == nil {
		return nil, problemUnauthorized("The key is not one of the configured ones.")
	}
	return found, nil
}
