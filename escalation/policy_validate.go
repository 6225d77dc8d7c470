package escalation

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/keys"
)

// realmName keeps realm names fit for keys (no braces: they hold the hash tag
// of Redis Cluster), labels and file names.
var realmName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Bounds of the delay rung. A wait under a millisecond would be answered as
// retry_after_ms 0, "no wait"; nobody waits longer than ten minutes.
const (
	minWait = time.Millisecond
	maxWait = 10 * time.Minute
)

// Validate checks everything, fills in what was not given and compiles. It
// returns nil, or Faults that name every fault with its path
// (realms.default.flows.login.limits[2].capacity). After it, p holds the whole
// policy in force, and must not be changed.
func (p *Policy) Validate() error {
	realms, compiled, faults := map[string]*Realm{}, map[string]*realmRules{}, &Faults{}
	if len(p.Realms) == 0 {
		p.Realms = map[string]*Realm{DefaultRealm: {Delivery: Delivery{Driver: "log"}}}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Realms)) {
		path := "realms." + name
		if !realmName.MatchString(name) {
			faults.Add(path, "a realm's name is 1 to 64 of a-z, 0-9, _ and -, and does not begin with _ or -")
		}
		realms[name], compiled[name] = p.Realms[name].validate(path, faults)
	}
	if len(*faults) > 0 {
		return *faults
	}
	p.Realms, p.compiled = realms, compiled
	return nil
}

// validate returns the realm with everything filled in, and compiled.
func (r *Realm) validate(path string, faults *Faults) (*Realm, *realmRules) {
	if r == nil {
		r = &Realm{}
	}
	full := *r
	if full.Normalise == "" {
		full.Normalise = keys.Fold
	}
	if !full.Normalise.Valid() {
		faults.Add(path+".normalise", "%q is not one of exact, fold, email", full.Normalise)
	}
	if full.FamiliarPlaces == nil {
		full.FamiliarPlaces = new(bool)
		*full.FamiliarPlaces = true
	}
	if full.Events == nil {
		full.Events = new(bool)
		*full.Events = true
	}
	if full.Shards == 0 {
		full.Shards = 1
	}
	if full.Shards < 1 || full.Shards > keys.MaxShards {
		faults.Add(path+".shards", "must be from 1 to %d, not %d", keys.MaxShards, full.Shards)
	}
	c := &realmRules{shards: full.Shards, normalise: full.Normalise, familiar: *full.FamiliarPlaces, quiet: !*full.Events, clear: full.ClearNames}
	c.lists = full.Lists.compile(path+".lists", faults)
	for i, o := range full.ReturnOrigins {
		if !validOrigin(o) {
			faults.Add(fmt.Sprintf("%s.return_origins[%d]", path, i), "%q is not an origin such as https://app.example.com", o)
		}
	}
	c.origins = full.ReturnOrigins
	full.validChallenges(path, c, faults)
	var effects [4]keys.Effect
	full.Postures, effects = validPostures(full.Postures, path+".postures", faults)
	if full.StoreGone == "" {
		full.StoreGone = "local"
	}
	checkStoreGone(full.StoreGone, path+".store_gone", faults)
	if full.Breached.Verify == nil {
		full.Breached.Verify = new(bool)
	}
	full.Flows = full.validFlows(path, effects, c, faults)
	return &full, c
}

// validFlows fills in login, and lays the others over it where they are given.
func (r *Realm) validFlows(realm string, effects [4]keys.Effect, c *realmRules, faults *Faults) map[string]*Flow {
	path := realm + ".flows"
	for _, name := range slices.Sorted(maps.Keys(r.Flows)) {
		if !slices.Contains(Flows, name) {
			faults.Add(path+"."+name, "is not one of %s", strings.Join(Flows, ", "))
		}
	}
	flows := map[string]*Flow{}
	base := &Flow{Delay: defaultDelay(), StoreGone: r.StoreGone, Breached: r.Breached, Limits: defaultTable()}
	for i, name := range Flows { // login is first
		given, full := r.Flows[name], base
		if _, ok := r.Flows[name]; ok || name == DefaultFlow {
			full = given.over(base, effects, path+"."+name, faults)
			flows[name] = full
			full.checkShards(c.shards, name, realm+".shards", faults)
		}
		if name == DefaultFlow {
			base = full
		}
		if len(*faults) == 0 {
			c.flows[i] = full.compile(c.shards, effects, path+"."+name, faults)
		}
	}
	return flows
}

func validPostures(given map[string]*Effect, path string, faults *Faults) (map[string]*Effect, [4]keys.Effect) {
	full, effects := defaultPostures(), [4]keys.Effect{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if full[name] == nil {
			faults.Add(path+"."+name, "is not one of elevated, high, critical")
			continue
		}
		full[name] = &Effect{}
		if given[name] != nil {
			*full[name] = *given[name]
		}
	}
	for name, e := range full {
		p, _ := keys.ParsePosture(name)
		k := keys.Effect{Divisor: e.Divisor, Uncounted: e.Uncounted}
		if e.Floor != "" {
			var err error
			if k.Floor, err = keys.ParseRung(e.Floor); err != nil {
				faults.Add(path+"."+name+".floor", "%v", err)
			}
		}
		if e.Divisor < 0 || e.Divisor > keys.MaxDivisor {
			faults.Add(path+"."+name+".divisor", "%d is not from 1 to %d", e.Divisor, keys.MaxDivisor)
		}
		effects[p] = k
	}
	return full, effects
}

// over lays f over base, row by row.
func (f *Flow) over(base *Flow, effects [4]keys.Effect, path string, faults *Faults) *Flow {
	full := &Flow{Delay: base.Delay, StoreGone: base.StoreGone, Breached: base.Breached, Limits: slices.Clone(base.Limits)}
	if f == nil {
		return full
	}
	if f.StoreGone != "" {
		checkStoreGone(f.StoreGone, path+".store_gone", faults)
		full.StoreGone = f.StoreGone
	}
	full.Breached = f.Breached.or(base.Breached)
	if !f.Delay.Base.IsZero() {
		full.Delay.Base = f.Delay.Base
	}
	if !f.Delay.Max.IsZero() {
		full.Delay.Max = f.Delay.Max
	}
	if f.Delay != (Delay{}) {
		full.Delay.check(path+".delay", faults)
	}
	rows := make([]int, len(f.Limits))
	seen := map[int]bool{}
	for i := range f.Limits {
		rowPath := fmt.Sprintf("%s.limits[%d]", path, i)
		at := rowOf(full.Limits, &f.Limits[i], rowPath, faults)
		if rows[i] = at; at < 0 {
			continue
		}
		if seen[at] {
			faults.Add(rowPath, "a second row for %s %s", f.Limits[i].Tier, f.Limits[i].Name)
		}
		seen[at] = true
		full.Limits[at] = f.Limits[i].over(full.Limits[at])
	}
	for i, at := range rows {
		if at >= 0 {
			full.checkRow(at, effects, fmt.Sprintf("%s.limits[%d]", path, i), faults)
		}
	}
	full.checkWhole(path+".limits", faults)
	return full
}

// rowOf finds the row of the table that l lies over; -1 and a fault for none.
func rowOf(table []Limit, l *Limit, path string, faults *Faults) int {
	var tiers, names []string
	for i := range table {
		t := &table[i]
		if t.Tier == l.Tier && t.Name == l.Name {
			return i
		}
		if t.Tier == l.Tier {
			names = append(names, t.Name)
		}
		if !slices.Contains(tiers, t.Tier) {
			tiers = append(tiers, t.Tier)
		}
	}
	if names == nil {
		faults.Add(path+".tier", "%q is not one of %s", l.Tier, strings.Join(tiers, ", "))
	} else {
		faults.Add(path+".name", "%q is not one of %s", l.Name, strings.Join(names, ", "))
	}
	return -1
}

// over lays what l gives over base.
func (l Limit) over(base Limit) Limit {
	base.Off = l.Off
	if l.Capacity != nil {
		base.Capacity = l.Capacity
	}
	if !l.Refill.IsZero() {
		base.Refill = l.Refill
	}
	for _, p := range []struct{ to, from *Percent }{{&base.Delay, &l.Delay}, {&base.Captcha, &l.Captcha}, {&base.Verify, &l.Verify}} {
		if !p.from.IsZero() {
			*p.to = *p.from
		}
	}
	return base
}

// storeGone are the least rungs of unknown devices while the shared store is
// gone.
var storeGone = map[string]keys.Rung{"local": keys.Allow, "challenge": keys.Captcha, "closed": keys.Verify}

func checkStoreGone(s, path string, faults *Faults) {
	if _, ok := storeGone[s]; !ok {
		faults.Add(path, "%q is not one of local, challenge, closed", s)
	}
}

func (d *Delay) check(path string, faults *Faults) {
	ok := true
	for _, f := range []struct {
		name string
		d    Duration
	}{{"base", d.Base}, {"max", d.Max}} {
		switch {
		case f.d.bad != "":
			faults.Add(path+"."+f.name, "%q is not a duration such as 1s or 1m30s", f.d.bad)
			ok = false
		case f.d.D < minWait || f.d.D > maxWait || f.d.D%time.Microsecond != 0:
			faults.Add(path+"."+f.name, "must be whole microseconds from %s to %s", minWait, maxWait)
			ok = false
		}
	}
	if ok && d.Base.D > d.Max.D {
		faults.Add(path+".base", "%s is longer than max, %s", d.Base.D, d.Max.D)
	}
}

// validOrigin accepts scheme://host[:port] in the spelling of a browser's
// Origin header, because that is what return_url is compared with.
func validOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		s == u.Scheme+"://"+u.Host && s == strings.ToLower(s) && !strings.ContainsAny(s, "\\ %*")
}
