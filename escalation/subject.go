package escalation

import (
	"context"
	"net/netip"

	"github.com/guardd/guardd/keys"
)

// Subject is whom an operator asks about or clears. Account is a name as typed,
// AccountHash what guardd shows in its place; one of the two. Device is a device
// token, as a browser carries it, DeviceHash what events show in its place, which
// goes with an account; one of the two.
type Subject struct {
	Realm, Flow          string // "" are the defaults
	Account, AccountHash string
	IP                   string
	Network              string // IPv4 /24 or IPv6 /48, or an address in it
	Device, DeviceHash   string
}

// Target is a Subject without names: journals and answers may hold it, and any
// instance can act on it.
type Target struct {
	Realm   string   `json:"realm"`
	Account string   `json:"account,omitempty"` // keyed hash
	IP      string   `json:"ip,omitempty"`      // canonical
	Network string   `json:"network,omitempty"`
	Devices []Device `json:"devices,omitempty"`
	// At are further addresses whose pairs with the account are meant.
	At []string `json:"at,omitempty"`
}

// Device is one known device of one account, by keyed hash and by HashID.
type Device struct {
	Account string `json:"account"`
	Hash    string `json:"hash"`
}

// namedDevice is a device that was asked about.
type namedDevice struct {
	account keys.Account
	hash    string
	claim   keys.Device // zero: not known
}

// resolved is a Subject ready to be looked at.
type resolved struct {
	realm      *liveRealm
	flow       byte
	account    keys.Account
	hasAccount bool
	ip         keys.Address // zero: none
	network    netip.Prefix // zero: none
	devices    []namedDevice
}

// resolve checks s. The error is Faults.
func (g *Guard) resolve(s *Subject) (*resolved, error) {
	r, faults := &resolved{}, &Faults{}
	l := g.live.Load()
	realm := s.Realm
	if realm == "" {
		realm = DefaultRealm
	}
	if r.realm = l.realms[realm]; r.realm == nil {
		faults.Add("realm", "unknown")
	}
	flow, ok := flowIndex(s.Flow)
	if r.flow = flow; !ok {
		faults.Add("flow", "unknown")
	}
	r.resolveAccount(s, faults)
	var err error
	if s.IP != "" {
		if r.ip, err = keys.ParseAddress(s.IP); err != nil {
			faults.Add("ip", "%v", err)
		}
	}
	if s.Network != "" {
		if r.network, ok = parseWide(s.Network); !ok {
			faults.Add("network", "not_network")
		}
	}
	if r.realm != nil {
		g.resolveDevices(s, r, faults)
	}
	if s.Account+s.AccountHash+s.IP+s.Network+s.Device+s.DeviceHash == "" {
		faults.Add("account", "missing")
	}
	if len(*faults) > 0 {
		return nil, *faults
	}
	return r, nil
}

func flowIndex(name string) (byte, bool) {
	if name == "" {
		name = DefaultFlow
	}
	for i, f := range Flows {
		if f == name {
			return byte(i), true
		}
	}
	return 0, false
}

func (r *resolved) resolveAccount(s *Subject, faults *Faults) {
	switch {
	case s.Account != "" && s.AccountHash != "":
		faults.Add("account_hash", "not_with_account")
	case s.Account != "" && r.realm != nil:
		a, _, err := r.realm.account(s.Account)
		if err != nil {
			faults.Add("account", "%v", err)
		}
		r.account, r.hasAccount = a, true
	case s.AccountHash != "":
		a, ok := keys.ParseAccount(s.AccountHash)
		if !ok {
			faults.Add("account_hash", "not_hash")
		}
		r.account, r.hasAccount = a, true
	}
}

func (g *Guard) resolveDevices(s *Subject, r *resolved, faults *Faults) {
	switch {
	case s.DeviceHash != "" && s.Device != "":
		faults.Add("device_hash", "not_with_device")
	case s.DeviceHash != "" && !r.hasAccount:
		faults.Add("account_hash", "missing") // it is counted where its account is
	case s.DeviceHash != "":
		if _, ok := keys.ParseAccount(s.DeviceHash); !ok { // as long, of the same alphabet
			faults.Add("device_hash", "not_hash")
		}
		r.devices = []namedDevice{{account: r.account, hash: s.DeviceHash}}
	case s.Device != "":
		t := g.c.Secrets.openDevice(r.realm.name, s.Device)
		if t == nil || len(t.entries) == 0 {
			faults.Add("device", "invalid")
			return
		}
		for _, e := range t.entries {
			r.devices = append(r.devices, namedDevice{e.account, HashID(e.id), keys.Device{Issued: e.born, Expires: e.expires()}})
		}
	}
}

// parseWide reads a neighbourhood, by itself or by an address in it.
func parseWide(s string) (netip.Prefix, bool) {
	p, err := parseCIDR(s)
	if err != nil {
		return p, false
	}
	wide := keys.AddressOf(p.Addr()).Wide()
	return wide, p == wide || p.IsSingleIP()
}

// Target resolves names to what may be written down. Errors: Faults.
func (g *Guard) Target(s *Subject) (*Target, error) {
	r, err := g.resolve(s)
	if err != nil {
		return nil, err
	}
	t := &Target{Realm: r.realm.name}
	if r.hasAccount {
		t.Account = r.account.String()
	}
	if r.ip != (keys.Address{}) {
		t.IP = r.ip.String()
	}
	if r.network.IsValid() {
		t.Network = r.network.String()
	}
	for _, d := range r.devices {
		if !r.hasAccount || d.account == r.account {
			t.Devices = append(t.Devices, Device{d.account.String(), d.hash})
		}
	}
	if len(r.devices) > 0 && len(t.Devices) == 0 {
		return nil, Faults{{"device", "wrong_account"}}
	}
	return t, nil
}

// Counters names everything that counts a target, in the store and here.
type Counters struct {
	// Buckets are those in the store, of every flow and shard.
	Buckets []string
	// Suspects are the marks of suspect networks.
	Suspects []string
	here     []string // flood guard
}

// Counters of t: of an account its own counters, those that all its known devices
// share, and its pairs with IP and At; of an address alone its own counters and
// flood guard; of a network its own; of devices theirs alone, whatever their
// account; and where an address or
// a network is meant the mark that it is suspect. An unknown realm has none: its
// policy was taken away.
func (g *Guard) Counters(t *Target) (c Counters) {
	r := g.live.Load().realms[t.Realm]
	if r == nil {
		return c
	}
	account, hasAccount := keys.ParseAccount(t.Account)
	ip, err := keys.ParseAddress(t.IP)
	hasIP := err == nil
	for _, flow := range Flows {
		if hasAccount && len(t.Devices) == 0 {
			s := r.at(account)
			c.Buckets = append(c.Buckets, s.Account(flow, account), s.Devices(flow, account))
			for _, at := range append([]string{t.IP}, t.At...) {
				if a, err := keys.ParseAddress(at); err == nil {
					c.Buckets = append(c.Buckets, s.Pair(flow, account, a))
				}
			}
		}
		for _, d := range t.Devices {
			if a, ok := keys.ParseAccount(d.Account); ok {
				c.Buckets = append(c.Buckets, r.at(a).Device(flow, d.Hash))
				c.here = append(c.here, r.here.Proof(d.Hash))
			}
		}
		if hasIP && !hasAccount {
			for _, s := range r.spaces {
				c.Buckets = append(c.Buckets, s.IP(flow, ip))
			}
			c.here = append(c.here, r.here.IP(flow, ip))
		}
	}
	wide, err := netip.ParsePrefix(t.Network)
	if err == nil && wide.Addr().Is6() {
		at := keys.AddressOf(wide.Addr())
		for _, flow := range Flows {
			for _, s := range r.spaces {
				c.Buckets = append(c.Buckets, s.Network(flow, at))
			}
		}
	}
	for _, s := range r.spaces {
		if err == nil {
			c.Suspects = append(c.Suspects, s.Suspect(wide))
		}
		if hasIP && !hasAccount {
			c.Suspects = append(c.Suspects, s.Suspect(ip.Counted()))
		}
	}
	return c
}

// ClearHere takes away what this instance's flood guard counts of the target. It
// returns how many counters there were.
func (g *Guard) ClearHere(ctx context.Context, c *Counters) (int, error) {
	return g.flood.all(func(m *keys.Memory) (int, error) { return m.Clear(ctx, c.here) })
}

// HeldHere counts what ClearHere would take away.
func (g *Guard) HeldHere(ctx context.Context, c *Counters) (int, error) {
	return g.flood.all(func(m *keys.Memory) (int, error) { return m.Held(ctx, c.here) })
}
