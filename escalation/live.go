package escalation

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/guardd/guardd/keys"
)

// live is a policy bound to the secrets: what one Check uses from beginning to
// end, while another may be swapped in.
type live struct {
	policy    *Policy
	realms    map[string]*liveRealm
	deliver   map[string]Deliverer
	providers map[string][]Provider
}

type liveRealm struct {
	*realmRules
	name     string
	spaces   keys.Spaces
	here     keys.Space // of what only this instance's memory holds
	pepper   keys.Pepper
	requests []byte // key for hashing request ids
	tagger   *tagger
	names    *nameSeal // nil: names are not told
	codes    []byte    // key of verification codes and proofs of work
	// providers are those whose challenges stand in place of a picture.
	providers []Provider
	// listed is the policy's lists and the operators'.
	listed atomic.Pointer[listTable]
	floods [flowCount]*floodRules // nil: none
}

// bind derives each realm's keys. Faults name realms.X.pepper_file and realms.X.delivery.
func bind(p *Policy, c *Config, operators map[string]Lists) (*live, error) {
	s := c.Secrets
	instances := c.Live
	if instances == nil {
		instances = func() int { return c.Instances }
	}
	l, faults := &live{policy: p, realms: map[string]*liveRealm{}, deliver: c.Deliver, providers: c.Providers}, &Faults{}
	for _, name := range slices.Sorted(maps.Keys(p.Realms)) {
		r, path := p.Realms[name], "realms."+name+".pepper_file"
		secret := r.Pepper
		switch {
		case len(secret) == 0 && r.PepperFile != "":
			faults.Add(path, "it is empty, or has not been read")
			continue
		case len(secret) == 0 && s.only == nil:
			// Otherwise every name would hash anew, and every count start
			// afresh, on the day that the second secret moves to the front.
			faults.Add(path, "is needed, because there is more than one secret: put the secret that names were hashed with so far in it")
			continue
		case len(secret) == 0:
			secret = s.only
		case len(secret) < minSecret:
			faults.Add(path, "holds fewer than %d bytes", minSecret)
			continue
		}
		pepper, err := keys.NewPepper(secret, name)
		if err != nil {
			return nil, err
		}
		requests, err := derive(secret, "guardd request 1 "+name, 32)
		if err != nil {
			return nil, err
		}
		codes, err := derive(secret, "guardd code 1 "+name, 32)
		if err != nil {
			return nil, err
		}
		tags, err := derive(secret, "guardd tag 1 "+name, 32)
		if err != nil {
			return nil, err
		}
		b := &liveRealm{
			realmRules: p.compiled[name], name: name, spaces: keys.NewSpaces(name, p.compiled[name].shards), here: keys.NewSpace(name, 0),
			pepper: pepper, requests: requests, codes: codes, tagger: &tagger{secret: tags}, providers: c.Providers[name],
		}
		if b.clear {
			if b.names, err = newNameSeal(secret, name); err != nil {
				return nil, err
			}
		}
		own := operators[name]
		table := b.realmRules.lists.with(&own, "lists", faults)
		b.listed.Store(&table)
		if c.Deliver != nil && c.Deliver[name] == nil {
			faults.Add("realms."+name+".delivery", "there is nobody to deliver")
		}
		for i, f := range b.flows {
			if f.flood != nil {
				b.floods[i] = &floodRules{whole: f.flood, live: instances}
			}
		}
		l.realms[name] = b
	}
	if len(*faults) > 0 {
		return nil, *faults
	}
	return l, nil
}

// account normalises and hashes a name, and returns both.
func (r *liveRealm) account(name string) (keys.Account, string, error) {
	n, err := r.normalise.Apply(name)
	if err != nil {
		return keys.Account{}, "", err
	}
	return r.pepper.Account(n), n, nil
}

// visitor names what bears on an account and an address.
func (r *liveRealm) visitor(a keys.Account, ip keys.Address) keys.Visitor {
	return r.at(a).Visitor(a, ip)
}

// bucketKeys names one bucket a tier of the rules.
func bucketKeys(rules *keys.Rules, flow string, of keys.Visitor, device [16]byte) []string {
	tiers := rules.Tiers()
	names := make([]string, len(tiers))
	for i := range tiers {
		switch tiers[i].Tier {
		case keys.TierPair:
			names[i] = of.Pair(flow)
		case keys.TierAccount:
			names[i] = of.Account(flow)
		case keys.TierIP:
			names[i] = of.IP(flow)
		case keys.TierNetwork:
			names[i] = of.Network(flow)
		case keys.TierGlobal:
			names[i] = of.Global(flow)
		case keys.TierDevice:
			names[i] = of.Device(flow, HashID(device))
		case keys.TierDevices:
			names[i] = of.Devices(flow)
		}
	}
	return names
}

// at is the shard that everything about the account is counted in: one script
// call, one slot.
func (r *liveRealm) at(a keys.Account) keys.Space { return r.spaces.Of(a) }

// kKeys are the learned sizes of the address and, for IPv6, its /48, as the
// account's shard knows them.
func kKeys(of keys.Visitor, ip keys.Address) (k [2]string) {
	k[0] = of.K()
	if ip.Is6() {
		k[1] = of.WideK()
	}
	return k
}

// placeKey is where the account signed in from the address; "" where the realm
// has no familiar places.
func (r *liveRealm) placeKey(of keys.Visitor) string {
	if !r.familiar {
		return ""
	}
	return of.Place()
}
