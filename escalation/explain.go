package escalation

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/guardd/guardd/keys"
)

// Explanation is everything that bears on an attempt of the subject if it were
// made now, with no proof. Nothing was taken for it.
type Explanation struct {
	Realm   string    `json:"realm"`
	Flow    string    `json:"flow"`
	Account string    `json:"account,omitempty"` // keyed hash
	IP      string    `json:"ip,omitempty"`
	Network string    `json:"network,omitempty"` // its /24 or /48
	Now     time.Time `json:"now"`               // by the store's clock

	// Action is what an attempt would be answered, and Reasons why. An account or
	// an address alone is judged by what counts it alone.
	Action   Action   `json:"action"`
	Reasons  []string `json:"reasons"`
	Shadow   bool     `json:"shadow"`   // nothing is enforced: everybody is let through
	Degraded bool     `json:"degraded"` // by this instance alone: the store cannot be reached

	List    *ListedAs    `json:"list,omitempty"` // the most specific entry that holds
	Limits  []LimitNow   `json:"limits"`
	Posture PostureNow   `json:"posture"`
	K       int64        `json:"k,omitzero"`         // learned size of the address
	KWide   int64        `json:"k_network,omitzero"` // and of its /48
	Suspect []SuspectNow `json:"suspect"`

	// Familiar: the account has signed in from the address within 30 days.
	Familiar bool `json:"familiar"`
	// Device is what the device token shown is worth: "", known, spent, invalid.
	Device string `json:"device,omitempty"`
	// RevokedAt is when devices, places and proofs were last made to count for
	// nothing.
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	Code      *CodeNow  `json:"code,omitempty"` // the live verification code, without what it says

	// Changes are what would change the answer; empty where it is allow.
	Changes []Change `json:"changes"`
}

// ListedAs is an entry of a list that holds.
type ListedAs struct {
	List      string    `json:"list"`
	CIDR      string    `json:"cidr"`
	Reason    string    `json:"reason,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Policy    bool      `json:"policy"` // it stands in the policy, where alone it can be changed
}

// LimitNow is one limit as it is.
type LimitNow struct {
	Tier     string `json:"tier"`
	Limit    string `json:"limit"`
	Left     int64  `json:"left"` // whole tokens
	Capacity int64  `json:"capacity"`
	Refill   string `json:"refill"`
	Rung     string `json:"rung"` // what it asks one guess for
	// Counted: it counts for this attempt; from a familiar place or a known
	// device, others do.
	Counted bool `json:"counted"`
	// FreeIn is how long until it asks for nothing, and FullIn until it is full,
	// if nobody takes from it.
	FreeIn Millis `json:"free_in_ms"`
	FullIn Millis `json:"full_in_ms"`

	rung keys.Rung
}

// Millis is a time in milliseconds, rounded up.
type Millis int64

func millis(us int64) Millis { return Millis((us + 999) / 1000) }

// PostureNow is the realm's posture.
type PostureNow struct {
	Posture  string    `json:"posture"`
	Pin      string    `json:"pin,omitempty"` // an operator's, while it lasts
	PinUntil time.Time `json:"pin_until,omitzero"`
	// Aggregator's is what it would be without the pin.
	Aggregator string    `json:"aggregator,omitempty"`
	Until      time.Time `json:"until,omitzero"` // unless it is confirmed
}

// SuspectNow is a network under suspicion.
type SuspectNow struct {
	Network string    `json:"network"`
	Until   time.Time `json:"until"`
}

// CodeNow is a live verification code.
type CodeNow struct {
	Sent  time.Time `json:"sent"`
	Until time.Time `json:"until"`
	Nth   int       `json:"nth"` // among those sent within 24 hours
}

// The kinds of a Change.
const (
	ChangeProof   = "proof"   // any of Ways
	ChangeWait    = "wait"    // After, with no guess meanwhile
	ChangeClear   = "clear"   // an operator's, of By
	ChangeUnlist  = "unlist"  // an operator takes the entry By from the list
	ChangePosture = "posture" // an operator's pin, or the end of it
	ChangeDevice  = "device"  // a known device of the account
)

// Change is one thing that would bring allow.
type Change struct {
	Kind  string   `json:"kind"`
	Ways  []string `json:"ways,omitempty"`
	After Millis   `json:"after_ms,omitzero"`
	// By says what has to be cleared, all of it: account, account+ip, ip, network,
	// device; or the entry.
	By []string `json:"by,omitempty"`
}

// Explain looks at everything that bears on the subject. Errors: Faults, ErrStore.
func (g *Guard) Explain(ctx context.Context, s *Subject) (*Explanation, error) {
	r, err := g.resolve(s)
	if err != nil {
		return nil, err
	}
	device := r.device()
	if len(r.devices) > 0 && device == nil {
		return nil, Faults{{"device", "wrong_account"}}
	}
	if r.ip == (keys.Address{}) && r.network.IsValid() && !r.hasAccount {
		r.ip = keys.AddressOf(r.network.Addr()) // any address in it meets its counters
	}
	l := &inquiry{g: g, r: r, flow: r.realm.flows[r.flow], onlyWide: s.IP == "" && s.Network != "" && !r.hasAccount, device: device}
	x := &Explanation{Realm: r.realm.name, Flow: Flows[r.flow], Shadow: g.c.Shadow, Action: ActionAllow,
		Reasons: []string{}, Limits: []LimitNow{}, Suspect: []SuspectNow{}, Changes: []Change{}}
	if r.hasAccount {
		x.Account = r.account.String()
	}
	if r.ip != (keys.Address{}) {
		x.Network = r.ip.Wide().String()
		if !l.onlyWide {
			x.IP = r.ip.String()
		}
	}
	if err := l.fill(ctx, x); err != nil {
		return nil, err
	}
	return x, nil
}

// device is the entry of the token that is meant, and makes its account the one
// asked about.
func (r *resolved) device() *namedDevice {
	for i := range r.devices {
		d := &r.devices[i]
		if !r.hasAccount {
			r.account, r.hasAccount = d.account, true
		}
		if d.account == r.account {
			return d
		}
	}
	return nil
}

// inquiry is one Explain under way.
type inquiry struct {
	g        *Guard
	r        *resolved
	flow     *flowRules
	device   *namedDevice
	onlyWide bool // a network alone
	listing  listing
	entry    *listed
}

func (l *inquiry) hasIP() bool { return l.r.ip != (keys.Address{}) }

func (l *inquiry) fill(ctx context.Context, x *Explanation) error {
	now := l.g.now()
	if l.hasIP() && !l.onlyWide {
		if l.listing, l.entry = l.r.realm.listed.Load().lookup(l.r.ip, now); l.entry != nil {
			x.List = &ListedAs{List: l.listing.String(), CIDR: l.entry.prefix.String(), Reason: l.entry.Reason,
				ExpiresAt: l.entry.ExpiresAt, Policy: l.entry.policy}
		}
	}
	ans, rules, err := l.ask(ctx, x)
	if err != nil {
		return err
	}
	x.Now = micros(ans.Now)
	if err := l.floods(ctx, x, ans); err != nil {
		return err
	}
	l.records(ctx, x, ans)
	l.code(ctx, x)
	l.decide(x, ans, rules)
	return nil
}

// ask looks at the limits of the subject in one shard, or where no account says
// which in all of them, whose parts are added up.
func (l *inquiry) ask(ctx context.Context, x *Explanation) (*keys.Answer, *keys.Rules, error) {
	kind := kindOf(l.r.ip, l.listing == allowed, l.device != nil)
	spaces := l.r.realm.spaces
	switch {
	case !l.hasIP():
		kind |= kindNowhere
	case !l.r.hasAccount:
		kind |= kindNobody
	}
	if l.r.hasAccount {
		spaces = keys.Spaces{l.r.realm.at(l.r.account)}
	}
	rules := l.flow.kinds[kind]
	var first *keys.Answer
	for _, s := range spaces {
		ans := &keys.Answer{Now: l.g.now(), InForce: keys.InForce{K: [2]int64{1, 1}}}
		if rules != nil {
			ask := l.askOf(rules, s)
			if err := l.g.c.Store.Take(ctx, ask, ans); err != nil {
				return nil, nil, fmt.Errorf("%w: %w", ErrStore, err)
			}
			if ans.Status != keys.Decided {
				return nil, nil, fmt.Errorf("%w: it came to decide too late", ErrStore)
			}
		}
		l.limits(x, rules, ans, first != nil)
		if first == nil {
			first = ans
			continue
		}
		first.Needed, first.Wait, first.Causes = max(first.Needed, ans.Needed), max(first.Wait, ans.Wait), first.Causes|ans.Causes
		first.Degraded = first.Degraded || ans.Degraded
	}
	x.Degraded, x.Familiar = first.Degraded, first.Familiar
	if l.hasIP() && !l.onlyWide {
		x.K = first.K[0]
	}
	if l.hasIP() && l.r.ip.Is6() {
		x.KWide = first.K[1]
	}
	x.Device = deviceWords[first.Device]
	return first, rules, nil
}

var deviceWords = map[keys.DeviceState]string{keys.DeviceKnown: "known", keys.DeviceSpent: "spent", keys.DeviceInvalid: "invalid"}

// askOf names everything that bears on the subject in one shard, and takes
// nothing.
func (l *inquiry) askOf(rules *keys.Rules, s keys.Space) *keys.Ask {
	ask := &keys.Ask{Now: l.g.storeNow(), Rules: rules, StoreGone: l.flow.gone, StateKey: s.State()}
	flow := Flows[l.r.flow]
	of := s.Visitor(l.r.account, l.r.ip)
	ask.Keys = bucketKeys(rules, flow, of, [16]byte{})
	if l.device != nil {
		for i, t := range rules.Tiers() {
			if t.Tier == keys.TierDevice {
				ask.Keys[i] = s.Device(flow, l.device.hash)
			}
		}
		ask.Device = l.device.claim
		if ask.Device.Issued == 0 { // only its hash is known: as if it were good
			now := l.g.now()
			ask.Device = keys.Device{Issued: now, Expires: now + keys.DeviceLifetime}
		}
	}
	if l.r.hasAccount {
		ask.RevokedKey = s.Revoked(l.r.account)
	}
	if l.hasIP() {
		ask.SuspectKeys[1] = s.Suspect(l.r.ip.Wide())
		if !l.onlyWide {
			ask.SuspectKeys[0] = s.Suspect(l.r.ip.Counted())
		}
		ask.KKeys[0] = s.K(l.r.ip.Counted())
		if l.r.ip.Is6() {
			ask.KKeys[1] = s.K(l.r.ip.Wide())
		}
		if l.r.hasAccount {
			ask.PlaceKey = l.r.realm.placeKey(of)
		}
	}
	return ask
}

// limits takes over an answer's limits; with add they are further parts of the
// same ones.
func (l *inquiry) limits(x *Explanation, rules *keys.Rules, ans *keys.Answer, add bool) {
	for i := range ans.Limits {
		a := &ans.Limits[i]
		tier := &rules.Tiers()[a.Tier]
		if a.Limit.Zero() || l.onlyWide && tier.Tier == keys.TierIP {
			continue
		}
		spec := &tier.Limits[a.Index]
		free := int64(0)
		if a.Looked {
			free = spec.Steps.Relief(a.Limit, a.Left)
		}
		n := LimitNow{Tier: tier.Tier.String(), Limit: spec.Name, Left: a.Tokens(), Capacity: a.Limit.Capacity,
			Refill: refillText(a.Limit), Rung: a.Rung.String(), rung: a.Rung, Counted: a.Looked, FreeIn: millis(free),
			FullIn: millis((a.Limit.Units() - a.Left + a.Limit.Count - 1) / a.Limit.Count)}
		if !add {
			x.Limits = append(x.Limits, n)
			continue
		}
		at := slices.IndexFunc(x.Limits, func(m LimitNow) bool { return m.Tier == n.Tier && m.Limit == n.Limit })
		if at < 0 { // a baseline that not every shard has yet
			x.Limits = append(x.Limits, n)
			continue
		}
		sum := &x.Limits[at]
		sum.Left, sum.Capacity = sum.Left+n.Left, sum.Capacity+n.Capacity
		sum.rung, sum.FreeIn, sum.FullIn = max(sum.rung, n.rung), max(sum.FreeIn, n.FreeIn), max(sum.FullIn, n.FullIn)
		sum.Rung = sum.rung.String()
	}
}

// refillText is a limit's refill, for people.
func refillText(l keys.Limit) string {
	return fmt.Sprintf("%d per %s", l.Count, time.Duration(l.Period)*time.Microsecond)
}

// floods looks at this instance's own guard of the address.
func (l *inquiry) floods(ctx context.Context, x *Explanation, ans *keys.Answer) error {
	limits := l.r.realm.floods[l.r.flow]
	if limits == nil || !l.hasIP() || l.onlyWide || l.listing == allowed {
		return nil
	}
	rules := limits.share()
	ask := keys.Ask{Now: ans.Now, Rules: rules, Keys: []string{l.r.realm.here.IP(Flows[l.r.flow], l.r.ip)}}
	ask.KKeys[0] = l.r.realm.here.K(l.r.ip.Counted())
	var flood keys.Answer
	if err := l.g.flood.buckets.Take(ctx, &ask, &flood); err != nil {
		return err
	}
	l.limits(x, rules, &flood, false)
	if flood.Needed > keys.Allow && ans.Device != keys.DeviceKnown {
		ans.Needed, ans.Causes = max(ans.Needed, keys.Captcha), ans.Causes|keys.ByFlood
	}
	return nil
}

// records reads what an answer does not tell. What cannot be read is left out:
// the answer is degraded then.
func (l *inquiry) records(ctx context.Context, x *Explanation, ans *keys.Answer) {
	x.Posture.Posture = ans.Posture.String()
	docs, ok := l.g.c.Records.(keys.Documents)
	if !ok || x.Degraded {
		return
	}
	s := l.r.realm.spaces[0]
	if l.r.hasAccount {
		s = l.r.realm.at(l.r.account)
	}
	read := func(key string) []byte {
		b, err := docs.Get(ctx, key)
		x.Degraded = x.Degraded || err != nil
		return b
	}
	x.Posture = PostureOf(keys.DecodeState(read(s.State())), ans.Now)
	if l.r.hasAccount {
		if at := keys.Until(read(s.Revoked(l.r.account))); at > 0 {
			x.RevokedAt = micros(at)
		}
	}
	if !l.hasIP() {
		return
	}
	networks := []netip.Prefix{l.r.ip.Wide()}
	if !l.onlyWide {
		networks = append(networks, l.r.ip.Counted())
	}
	for _, p := range slices.Compact(networks) {
		if until := keys.Until(read(s.Suspect(p))); until > ans.Now {
			x.Suspect = append(x.Suspect, SuspectNow{p.String(), micros(until)})
		}
	}
}

// PostureOf is a realm's state at now, as operators see it.
func PostureOf(s keys.State, now int64) PostureNow {
	p := PostureNow{Posture: s.Effective(now).String()}
	if now < s.PinUntil {
		p.Pin, p.PinUntil = s.Pin.String(), micros(s.PinUntil)
	}
	if now < s.Until {
		p.Aggregator, p.Until = s.Posture.String(), micros(s.Until)
	}
	return p
}

func (l *inquiry) code(ctx context.Context, x *Explanation) {
	if !l.r.hasAccount || l.g.c.Codes == nil || x.Degraded {
		return
	}
	c, err := l.g.c.Codes.LiveCode(ctx, l.r.realm.at(l.r.account).Code(l.r.account), l.g.storeNow())
	if err != nil {
		x.Degraded = true
		return
	}
	if c.Serial != 0 {
		x.Code = &CodeNow{micros(c.Sent), micros(c.Until), c.Nth}
	}
}

// decide says what an attempt would be answered, and what would change that.
func (l *inquiry) decide(x *Explanation, ans *keys.Answer, rules *keys.Rules) {
	if l.listing == denied {
		x.Action, x.Reasons = ActionDeny, []string{ReasonListDeny}
		if !x.List.Policy {
			x.Changes = append(x.Changes, Change{Kind: ChangeUnlist, By: []string{x.List.CIDR}})
		}
		if !x.List.ExpiresAt.IsZero() {
			x.Changes = append(x.Changes, Change{Kind: ChangeWait, After: millis(x.List.ExpiresAt.UnixMicro() - ans.Now)})
		}
		return
	}
	ans.Let = ans.Needed == keys.Allow
	if rules != nil {
		d := Decide(rules, ans)
		x.Action, x.Reasons = d.Action, d.Reasons
	} else if !ans.Let {
		x.Reasons = []string{ReasonFlood}
		x.Action = ActionCaptcha
	}
	if l.listing == allowed {
		x.Reasons = append(x.Reasons, ReasonListAllow)
	}
	if !ans.Let {
		l.changes(x, ans)
	}
}

// clearedBy says what an operator clears to fill a limit again.
var clearedBy = map[string]string{"account": "account", "pair": "account+ip", "ip": "ip", "flood": "ip", "network": "network", "device": "device"}

func (l *inquiry) changes(x *Explanation, ans *keys.Answer) {
	c := &challengeToken{rung: ans.Needed, wait: ans.Wait, work: l.r.realm.pow.work(ans.Needed, ans.Wait, l.flow.pace.Base, ans.Posture)}
	x.Changes = append(x.Changes, Change{Kind: ChangeProof, Ways: l.r.realm.ways(c)})
	clear, known := Change{Kind: ChangeClear}, true
	wait := Millis(0)
	for _, n := range x.Limits {
		if n.rung == keys.Allow {
			continue
		}
		wait = max(wait, n.FreeIn)
		by := clearedBy[n.Tier]
		if known = known && by != ""; by != "" && !slices.Contains(clear.By, by) {
			clear.By = append(clear.By, by)
		}
	}
	// A floor below the rung that is needed would be needed when that is gone.
	for _, s := range x.Suspect {
		if ans.Familiar {
			break
		}
		wait = max(wait, millis(s.Until.UnixMicro()-ans.Now))
		by := "network"
		if p, err := netip.ParsePrefix(s.Network); err == nil && p == l.r.ip.Counted() {
			by = "ip"
		}
		if !slices.Contains(clear.By, by) {
			clear.By = append(clear.By, by)
		}
	}
	if l.flow.kinds[0].Effect(ans.Posture).Floor > keys.Allow && !ans.Familiar {
		x.Changes = append(x.Changes, Change{Kind: ChangePosture})
		until := x.Posture.Until
		if x.Posture.Pin != "" {
			until = x.Posture.PinUntil
		}
		wait, known = max(wait, millis(until.UnixMicro()-ans.Now)), false
	}
	if wait > 0 && ans.Causes&keys.ByStoreGone == 0 {
		x.Changes = append(x.Changes, Change{Kind: ChangeWait, After: wait})
	}
	if len(clear.By) > 0 && known && ans.Causes&keys.ByStoreGone == 0 {
		x.Changes = append(x.Changes, clear)
	}
	if l.r.hasAccount && ans.Device == keys.DeviceNone {
		x.Changes = append(x.Changes, Change{Kind: ChangeDevice})
	}
}
