package aggregate

import (
	"context"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// Overview is what the logins of a realm look like, for whoever looks at it. It is
// worked out by whoever reads the realm, and kept in the store for the others. Names
// are in it as hashes only.
type Overview struct {
	// AsOf is the time of the latest event; zero: nobody has read any.
	AsOf time.Time `json:"as_of,omitzero"`
	// Shadow: the last attempt was not held to what it was answered.
	Shadow bool `json:"shadow"`
	// Minutes are the last minutesShown, oldest first, those without events included.
	Minutes []Minute `json:"minutes"`
	// Networks (IPv4 /24, IPv6 /48) and accounts are those with the most failures and
	// refusals since Since; of accounts by strangers only.
	Since     time.Time         `json:"since,omitzero"`
	Networks  []OverviewNetwork `json:"networks"`
	Accounts  []OverviewAccount `json:"accounts"`
	Campaigns []Finding         `json:"campaigns"` // that are open, the latest sign first
	Detection OverviewDetection `json:"detection"`
}

// Minute is what happened within one: attempts by what was answered (in shadow: what
// would have been), and outcomes.
type Minute struct {
	Time      time.Time `json:"time"`
	Allow     uint64    `json:"allow"`
	Delay     uint64    `json:"delay"`
	Captcha   uint64    `json:"captcha"`
	Verify    uint64    `json:"verify"`
	Deny      uint64    `json:"deny"`
	Successes uint64    `json:"successes"`
	Failures  uint64    `json:"failures"`
}

// OverviewNetwork is one network.
type OverviewNetwork struct {
	Network string `json:"network"`
	ASN     uint32 `json:"asn,omitzero"` // 0: not known
	Load
}

// OverviewAccount is one account, by its keyed hash.
type OverviewAccount struct {
	Account string `json:"account"`
	Load
}

// OverviewDetection is what detection sees: as WatchStatus.
type OverviewDetection struct {
	Watched   bool    `json:"watched"` // somebody looks at all
	Learning  bool    `json:"learning"`
	Level     string  `json:"level"`
	Expected  float64 `json:"expected_per_minute"`
	Excess    float64 `json:"excess_per_minute"`
	Networks  int     `json:"suspect_networks"`
	Passwords int     `json:"suspect_passwords"`
}

const (
	// minutesShown is how far back an Overview goes.
	minutesShown = 30
	// topShown is how many networks and accounts there are in one, campaignsShown how
	// many campaigns.
	topShown, campaignsShown = 10, 20
	minute                   = 60 * keys.Second

	docOverview = "overview"
	// overviewEvery is how often one is written, if anything has happened: whoever
	// looks at another instance is that late. overviewKept is for how long it is kept.
	overviewEvery = 5 * time.Second
	overviewKept  = 2 * 3600 * keys.Second
)

// overview adds up what an Overview is made of. Not safe for concurrent use.
type overview struct {
	minutes  [minutesShown]Minute // by minute modulo minutesShown
	last     int64                // the newest event
	shadow   bool
	networks busy[string]
	accounts busy[string]
	changed  bool
}

// see takes an event.
func (o *overview) see(e *Event, at int64) {
	o.last, o.changed = max(o.last, at), true
	m := o.minute(at)
	if m == nil {
		return
	}
	l := Load{}
	switch {
	case e.Kind == KindAttempt:
		o.shadow = e.Shadow
		if n := m.of(e.Would); n != nil {
			*n++
		}
		if e.Would != string(escalation.ActionAllow) {
			l.Asked = 1
		}
	case e.Duplicate || e.Expired:
		return
	default:
		switch out, _ := keys.ParseOutcome(e.Outcome); out {
		case keys.Success:
			m.Successes++
			l.Successes = 1
		case keys.Failure, keys.UnknownAccount, keys.Abandoned:
			m.Failures++
			l.Failures = 1
		}
	}
	if l == (Load{}) {
		return
	}
	o.networks.add(at, e.Network, l)
	if !e.KnownDevice && !e.Familiar {
		o.accounts.add(at, e.Account, l)
	}
}

// minute is where an event of that time is counted; nil where that is too long ago.
func (o *overview) minute(at int64) *Minute {
	if at < o.last-(minutesShown-1)*minute {
		return nil
	}
	start := at - at%minute
	m := &o.minutes[start/minute%minutesShown]
	if t := micro(start); !m.Time.Equal(t) { // of half an hour before
		*m = Minute{Time: t}
	}
	return m
}

// of is the count of an action.
func (m *Minute) of(action string) *uint64 {
	switch escalation.Action(action) {
	case escalation.ActionAllow:
		return &m.Allow
	case escalation.ActionDelay:
		return &m.Delay
	case escalation.ActionCaptcha:
		return &m.Captcha
	case escalation.ActionVerify:
		return &m.Verify
	case escalation.ActionDeny:
		return &m.Deny
	}
	return nil
}

// overview is the realm's at now. The handler's lock is held.
func (r *realm) overview(now int64) *Overview {
	o := &Overview{Shadow: r.seen.shadow, Minutes: []Minute{}, Networks: []OverviewNetwork{}, Accounts: []OverviewAccount{}, Campaigns: []Finding{},
		Detection: OverviewDetection{Learning: true, Level: keys.Normal.String()}}
	if r.seen.last > 0 {
		o.AsOf = micro(r.seen.last)
	}
	for start := now - now%minute - (minutesShown-1)*minute; start <= now; start += minute {
		m := r.seen.minutes[start/minute%minutesShown]
		if t := micro(start); !m.Time.Equal(t) {
			m = Minute{Time: t}
		}
		o.Minutes = append(o.Minutes, m)
	}
	networks, since := r.seen.networks.top(now, topShown)
	for _, n := range networks {
		x := OverviewNetwork{Network: n.key, Load: n.Load}
		if p, err := netip.ParsePrefix(n.key); err == nil && r.asn != nil {
			x.ASN = r.asn(p.Addr())
		}
		o.Networks = append(o.Networks, x)
	}
	o.Since = micro(since)
	accounts, _ := r.seen.accounts.top(now, topShown)
	for _, a := range accounts {
		o.Accounts = append(o.Accounts, OverviewAccount{a.key, a.Load})
	}
	if r.watch != nil {
		w := r.watch.Status()
		o.Detection = OverviewDetection{true, w.Learning, w.Level.String(), w.Expected, w.Excess, w.Networks, w.Tags}
		o.Campaigns = append(o.Campaigns, r.watch.Open(campaignsShown)...)
	}
	return o
}

// writeOverview keeps the realm's overview for other instances.
func (r *reader) writeOverview(ctx context.Context, x *realm) {
	r.mu.Lock()
	due := x.seen.changed && time.Since(x.shown) >= overviewEvery
	var o *Overview
	if due {
		o, x.shown, x.seen.changed = x.overview(r.a.now()), time.Now(), false
	}
	r.mu.Unlock()
	if !due {
		return
	}
	b, err := json.Marshal(o)
	if err == nil {
		err = r.put(ctx, keys.Learned(x.name, docOverview), b, overviewKept)
	}
	if err != nil {
		r.a.failed(opSave, err) // the next one is due soon
	}
}

// Overview is what a realm looks like to its reader here; nil where it has none here.
func (a *Aggregator) Overview(name string) *Overview {
	a.mu.Lock()
	readers := make([]*reader, 0, len(a.readers))
	for r := range a.readers {
		readers = append(readers, r)
	}
	a.mu.Unlock()
	for _, r := range readers {
		r.mu.Lock()
		var o *Overview
		if x := r.realms[name]; x != nil {
			o = x.overview(a.now())
		}
		r.mu.Unlock()
		if o != nil {
			return o
		}
	}
	return nil
}

// ReadOverview is what the realm's reader, wherever it is, has written of late; nil
// when nobody has. Errors: the store's.
func ReadOverview(ctx context.Context, d keys.Documents, realm string) (*Overview, error) {
	b, err := d.Get(ctx, keys.Learned(realm, docOverview))
	if err != nil || b == nil {
		return nil, err
	}
	o := &Overview{}
	if err := json.Unmarshal(b, o); err != nil {
		return nil, err
	}
	return o, nil
}
