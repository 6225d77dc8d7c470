package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/guardd/guardd/api/client"
)

// Role is what a key may do at /admin/v1, beside what every key may at /v1.
type Role uint8

// The roles. Each may do what those before it may.
const (
	RoleNone    Role = iota // nothing
	RoleRead                // look: explain, lists, posture, audit
	RoleOperate             // and change
)

// Roles lists what a configuration may call them, in order.
var Roles = []string{"", "read", "operate"}

// String is its name; "" for RoleNone.
func (r Role) String() string { return Roles[r] }

// UnmarshalText reads read or operate.
func (r *Role) UnmarshalText(text []byte) error {
	for i, name := range Roles {
		if i > 0 && name == string(text) {
			*r = Role(i)
			return nil
		}
	}
	return fmt.Errorf("must be read or operate, not %q", text)
}

// loopback is who operates where no key has a role.
var loopback = &Key{Name: "loopback", Role: RoleOperate}

// operator returns the key that the request bears, when it may do this much.
// Where no key has a role, whoever is on this machine may do all. A page in a
// browser there may not, not even one whose host name has been made to lead to
// this machine, so the request must be for an address or for localhost.
func (s *operators) operator(r *http.Request, need Role) (*Key, error) {
	key := loopback
	switch {
	case s.keyed:
		var err error
		if key, err = s.identify(r); err != nil {
			return nil, err
		}
	case !s.loopback:
		return nil, problemUnauthorized("No api_keys entry has admin: read or operate, and the admin listener is not on loopback alone.")
	case !forThisMachine(r.Host):
		return nil, problemBrowser()
	}
	if key.Role < need {
		return nil, problemRole(key.Role, need)
	}
	return key, nil
}

func forThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if len(host) > 1 && host[0] == '[' {
		host = host[1 : len(host)-1]
	}
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

func problemRole(is, need Role) *client.Problem {
	has := "no role"
	if is > RoleNone {
		has = "the role " + is.String()
	}
	return problem(client.ProblemRole, http.StatusForbidden, "Not for this key",
		fmt.Sprintf("The key has %s (admin in its api_keys entry), and this is for %s.", has, need))
}
