package escalation

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// sharded is a policy whose one rung is verify at empty: who is let through, and
// how often, says what is left in which bucket.
func sharded(shards int, change ...func(*Realm)) *Policy {
	never, empty := PercentOf(keys.Never), PercentOf(keys.Empty)
	rows := []Limit{
		{Tier: "pair", Name: nameBurst, Off: true}, {Tier: "pair", Name: nameSustained, Off: true},
		{Tier: "account", Name: nameSustained, Off: true}, {Tier: "ip", Name: nameSustained, Off: true},
		{Tier: "network", Name: nameBurst, Off: true}, {Tier: "network", Name: nameSustained, Off: true},
		{Tier: "account", Name: nameBurst, Delay: never, Captcha: never, Verify: empty},
		{Tier: "ip", Name: nameBurst, Delay: never, Captcha: never, Verify: empty},
	}
	r := &Realm{Shards: shards, Flows: map[string]*Flow{"login": {Limits: rows}}}
	for _, f := range change {
		f(r)
	}
	return &Policy{Realms: map[string]*Realm{"default": r}}
}

// byShard finds names of accounts, so many in each shard of the default realm.
func (w *world) byShard(each int) [][]string {
	r := w.g.live.Load().realms["default"]
	names := make([][]string, len(r.spaces))
	for n, full := 0, 0; full < len(names); n++ {
		name := fmt.Sprint("user", n)
		a, _, err := r.account(name)
		if err != nil {
			w.Fatal(err)
		}
		for i, s := range r.spaces {
			if s == r.at(a) && len(names[i]) < each {
				if names[i] = append(names[i], name); len(names[i]) == each {
					full++
				}
			}
		}
	}
	return names
}

func TestAnAccountIsCountedExactlyInItsShard(t *testing.T) {
	w := newWorld(t, withPolicy(sharded(4)))
	for _, names := range w.byShard(1) {
		let := 0
		for i := range 30 {
			if w.try(Attempt{Account: names[0], IP: fmt.Sprint("198.51.100.", i)}).Proceed {
				let++
			}
		}
		if let != 20 {
			t.Errorf("%d guesses at %s, not 20", let, names[0])
		}
	}
}

func TestAnAddressHasItsPartInEveryShard(t *testing.T) {
	w := newWorld(t, withPolicy(sharded(4)))
	total := 0
	for i, names := range w.byShard(15) {
		let := 0
		for _, name := range names {
			v := w.try(Attempt{Account: name, IP: "192.0.2.1"})
			if v.Proceed {
				let++
			}
			for _, tier := range v.Tiers {
				if tier.Tier == "ip" && tier.Capacity != 10 {
					t.Errorf("shard %d says that its part is %d", i, tier.Capacity)
				}
			}
		}
		if let != 10 {
			t.Errorf("shard %d let %d guesses of one address through, not 10", i, let)
		}
		total += let
	}
	if total > 40 {
		t.Errorf("all together let %d through, more than the 40 of the whole", total)
	}
	// 20 per 10 min: a token of each shard's part is back after 2 min.
	w.pass(2*time.Minute - time.Microsecond)
	for i, names := range w.byShard(1) {
		if w.try(Attempt{Account: names[0], IP: "192.0.2.1"}).Proceed {
			t.Errorf("shard %d refills too soon", i)
		}
	}
	w.pass(time.Microsecond)
	for i, names := range w.byShard(1) {
		w.let(Attempt{Account: names[0], IP: "192.0.2.1"})
		if w.try(Attempt{Account: names[0], IP: "192.0.2.1"}).Proceed {
			t.Errorf("shard %d got more than one token back", i)
		}
	}
}

func TestPostureSuspectsAndSizesHoldInEveryShard(t *testing.T) {
	ctx := context.Background()
	spaces := keys.NewSpaces("default", 4)
	for what, c := range map[string]struct {
		put    func(w *world) error
		action Action
		reason string
	}{
		"posture": {func(w *world) error {
			return spaces.PutState(ctx, w.store, keys.State{Posture: keys.Critical, Until: t0 + keys.Day}, keys.Day)
		}, ActionCaptcha, "posture"},
		"suspect": {func(w *world) error {
			suspect := netip.MustParsePrefix("192.0.2.1/32")
			return spaces.Put(ctx, w.store, func(s keys.Space) string { return s.Suspect(suspect) }, keys.EncodeUntil(t0+keys.Day), keys.Day)
		}, ActionCaptcha, "suspect"},
	} {
		w := newWorld(t, withPolicy(sharded(4)))
		if err := c.put(w); err != nil {
			t.Fatal(err)
		}
		for i, names := range w.byShard(1) {
			if v := w.try(Attempt{Account: names[0], IP: "192.0.2.1"}); v.Action != c.action || strings.Join(v.Reasons, " ") != c.reason {
				t.Errorf("%s in shard %d: %s because of %v", what, i, v.Action, v.Reasons)
			}
		}
	}
	w := newWorld(t, withPolicy(sharded(4)))
	ip, err := keys.ParseAddress("192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := spaces.Put(ctx, w.store, func(s keys.Space) string { return s.K(ip.Counted()) }, keys.EncodeK(3, t0+keys.Day), keys.Day); err != nil {
		t.Fatal(err)
	}
	for i, names := range w.byShard(1) {
		for _, tier := range w.let(Attempt{Account: names[0], IP: "192.0.2.1"}).Tiers {
			if tier.Tier == "ip" && tier.Capacity != 30 {
				t.Errorf("k of 3 in shard %d: a part of %d, not 30", i, tier.Capacity)
			}
		}
	}
}

// oneSlot is a store as Redis Cluster is one: it refuses calls whose keys are not
// all in one slot.
type oneSlot struct {
	*keys.Memory
	t *testing.T
}

func (o oneSlot) hold(names ...string) {
	o.t.Helper()
	tag := ""
	for _, n := range names {
		if n == "" {
			continue
		}
		if at := n[:strings.Index(n, "}")+1]; tag == "" {
			tag = at
		} else if at != tag {
			o.t.Errorf("%s is not in %s with the rest", n, tag)
		}
	}
}

func (o oneSlot) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	o.hold(append(a.Keys, a.StateKey, a.SuspectKeys[0], a.SuspectKeys[1], a.KKeys[0], a.KKeys[1], a.RevokedKey, a.PlaceKey, a.Proof.Key, a.Request.Key)...)
	return o.Memory.Take(ctx, a, ans)
}

func (o oneSlot) Give(ctx context.Context, r *keys.Return, rcp *keys.Receipt) error {
	o.hold(append(r.Keys, r.StateKey, r.KKeys[0], r.KKeys[1], r.OutcomeKey, r.PlaceKey, r.FailuresKey)...)
	return o.Memory.Give(ctx, r, rcp)
}

func (o oneSlot) SendCode(ctx context.Context, a *keys.CodeAsk, ans *keys.CodeAnswer) error {
	o.hold(a.Key, a.SenderKey, a.RevokedKey, a.Proof.Key)
	return o.Memory.SendCode(ctx, a, ans)
}

// Everything that is remembered of an account must be looked for where it was
// put.
func TestWhatIsKnownOfAnAccountIsFoundInItsShard(t *testing.T) {
	w := newWorld(t, withPolicy(sharded(16, func(r *Realm) {
		for i := range r.Flows["login"].Limits {
			if l := &r.Flows["login"].Limits[i]; l.Tier == "ip" && l.Name == nameBurst {
				l.Capacity = n64(16 * 40)
			}
		}
	})), func(c *Config) {
		o := oneSlot{c.Store.(*keys.Memory), t}
		c.Store, c.Tallies, c.Codes = o, o, o
		c.Deliver = map[string]Deliverer{"default": &inbox{}}
	})
	for _, names := range w.byShard(1) {
		name := names[0]
		device := w.signIn(name, "192.0.2.1", "")
		if v := w.let(Attempt{Account: name, IP: "198.51.100.1", Device: device}); !v.KnownDevice {
			t.Errorf("%s: the device is not known", name)
		}
		first := w.let(Attempt{Account: name, IP: "192.0.2.1", RequestID: "r"})
		if again := w.let(Attempt{Account: name, IP: "192.0.2.1", RequestID: "r"}); len(again.Tiers) == 0 || again.Tiers[0] != first.Tiers[0] {
			t.Errorf("%s: a repeat is judged anew: %+v", name, again.Tiers)
		}
		w.pass(time.Second)
		if err := w.g.Revoke(context.Background(), "default", name); err != nil {
			t.Fatal(err)
		}
		if v := w.try(Attempt{Account: name, IP: "198.51.100.1", Device: device}); v.KnownDevice {
			t.Errorf("%s: the device is known after its revocation", name)
		}
		w.pass(time.Second)
		for w.try(Attempt{Account: name, IP: "198.51.100.2"}).Proceed {
		}
		proof := w.solve(w.try(Attempt{Account: name, IP: "198.51.100.2"}), keys.Verify)
		asked := w.try(Attempt{Account: name, IP: "2001:db8::1"})
		if s, err := w.g.Send(context.Background(), asked.Challenge.Token, w.solve(asked, keys.Verify)); err != nil || !s.Sent {
			t.Errorf("%s: a code: %+v, %v", name, s, err)
		}
		for i := range 6 {
			if v := w.try(Attempt{Account: name, IP: "198.51.100.2", Proof: proof}); v.Proceed != (i < 5) {
				t.Errorf("%s: use %d of a proof: %s (%s)", name, i+1, v.Action, v.ProofError)
			}
		}
	}
}

func TestTooManyShardsAreRefusedByTheirPath(t *testing.T) {
	for _, c := range []struct {
		shards int
		change func(*Realm)
		want   string // "" is good
	}{
		{0, nil, ""}, {1, nil, ""}, {4, nil, ""},
		{5, nil, "ip burst (40) in flow login"},
		{-1, nil, "from 1 to 256"},
		{257, nil, "from 1 to 256"},
		{4, func(r *Realm) {
			r.Flows = map[string]*Flow{"otp": {Limits: []Limit{{Tier: "ip", Name: "burst", Capacity: n64(39), Refill: refill("20/10m")}}}}
		}, "ip burst (39) in flow otp"},
		{2, func(r *Realm) {
			r.Flows = map[string]*Flow{"login": {Limits: []Limit{{Tier: "network", Name: "burst", Capacity: n64(19), Refill: refill("20/10m")}}}}
		}, "network burst (19) in flow login"},
		{2, func(r *Realm) {
			r.Flows = map[string]*Flow{"login": {Limits: []Limit{{Tier: "global", Name: "burst", Capacity: n64(19), Refill: refill("20/10m")}}}}
		}, "global burst (19) in flow login"},
		{5, func(r *Realm) {
			r.Flows = map[string]*Flow{"login": {Limits: []Limit{{Tier: "ip", Name: "burst", Capacity: n64(59), Captcha: PercentOf(500), Delay: PercentOf(9000)}}}}
		}, "captcha is less than one token"},
	} {
		r := &Realm{Shards: c.shards}
		if c.change != nil {
			c.change(r)
		}
		err := logged(&Policy{Realms: map[string]*Realm{"shop": r}}).Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%d shards: %v", c.shards, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "realms.shop.shards: ") || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%d shards: %v, want realms.shop.shards: %s", c.shards, err, c.want)
		}
	}
}
