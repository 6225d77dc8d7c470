package escalation

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

func n64(n int64) *int64 { return &n }

func pct(s string) (p Percent) { _ = p.UnmarshalText([]byte(s)); return p }

func refill(s string) (r Refill) { _ = r.UnmarshalText([]byte(s)); return r }

func dur(s string) (d Duration) { _ = d.UnmarshalText([]byte(s)); return d }

func login(rows ...Limit) *Policy {
	return logged(&Policy{Realms: map[string]*Realm{"default": {Flows: map[string]*Flow{"login": {Limits: rows}}}}})
}

// TestDefaultPolicyIsTheTable holds the compiled rules to the published table.
func TestDefaultPolicyIsTheTable(t *testing.T) {
	rules := DefaultPolicy().compiled["default"].flows[0]
	want := []string{
		"pair burst 10/10/600 70 50 e", "pair sustained 20/5/86400 - 50 e",
		"account burst 20/20/3600 60 50 e", "account sustained 100/10/86400 - 60 e",
		"ip burst 40/20/600 60 50 e", "ip sustained 200/100/86400 - 50 e",
		"network burst 320/160/600 60 50 e", "network sustained 1600/800/86400 - 50 e",
		"global burst 0/0/0 - 20 -",
		"device burst 10/10/3600 - - -", "device sustained 30/10/86400 - - -", "device shared 60/30/3600 - - -",
	}
	var got []string
	for _, tier := range rules.kinds[kindV6|kindDevice].Tiers() {
		for _, l := range tier.Limits {
			got = append(got, strings.Join([]string{tier.Tier.String(), l.Name, limitText(l.Limit), stepText(l.Delay), stepText(l.Captcha), stepText(l.Verify)}, " "))
		}
	}
	if !reflect.DeepEqual(normal(got), normal(want)) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	flood := rules.flood.Tiers()[0].Limits[0]
	if flood.Limit != mustLimit(300, 300, time.Minute) || flood.Captcha != keys.Empty {
		t.Errorf("flood is %v", flood)
	}
	if p := rules.kinds[0].Pace(); p != (keys.Pace{Base: 1e6, Max: 30e6}) {
		t.Errorf("waits are %v", p)
	}
	want4 := [4]keys.Effect{{Divisor: 1}, {Divisor: 2}, {Divisor: 5, Floor: keys.Delay}, {Divisor: 1, Floor: keys.Captcha, Uncounted: true}}
	for p, e := range want4 {
		if got := rules.kinds[0].Effect(keys.Posture(p)); got != e {
			t.Errorf("posture %s: %+v, want %+v", keys.Posture(p), got, e)
		}
	}
}

func mustLimit(c, n int64, per time.Duration) keys.Limit {
	l, err := keys.NewLimit(c, n, per)
	if err != nil {
		panic(err)
	}
	return l
}

// normal turns capacity/count/seconds into the reduced limit, so that the
// table can be written as it is published.
func normal(rows []string) (out []string) {
	for _, r := range rows {
		f := strings.Fields(r)
		n := strings.Split(f[2], "/")
		if n[0] != "0" {
			l := mustLimit(atoi(n[0]), atoi(n[1]), time.Duration(atoi(n[2]))*time.Second)
			f[2] = l.String()
		}
		out = append(out, strings.Join(f, " "))
	}
	return out
}

func limitText(l keys.Limit) string {
	s := func(n int64) string { return itoa(int(n)) }
	if l.Zero() {
		return "0/0/0"
	}
	// whole seconds: scale the count up until the period is whole
	c, p := l.Count, l.Period
	for p%1e6 != 0 {
		c, p = c*10, p*10
	}
	return s(l.Capacity) + "/" + s(c) + "/" + s(p/1e6)
}

func stepText(t keys.Threshold) string {
	switch t {
	case keys.Never:
		return "-"
	case keys.Empty:
		return "e"
	}
	return itoa(int(t / 100))
}

func atoi(s string) (n int64) {
	for _, r := range s {
		n = 10*n + int64(r-'0')
	}
	return n
}

func TestTheDefaultPolicySurvivesARoundTrip(t *testing.T) {
	want := DefaultPolicy()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &Policy{}
	if err := json.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Realms, want.Realms) {
		t.Errorf("got %s", b)
	}
	if err := got.Validate(); err != nil || !reflect.DeepEqual(got.Realms, want.Realms) {
		t.Errorf("validating twice changes the policy: %v", err)
	}
}

// TestFaultsNameTheirPath is the score sheet of bad policies: each row alone,
// and what is said of it.
func TestFaultsNameTheirPath(t *testing.T) {
	const l0 = "realms.default.flows.login.limits[0]"
	row := func(l Limit) *Policy {
		if l.Tier == "" {
			l.Tier, l.Name = "account", "burst"
		}
		return login(l)
	}
	realm := func(r Realm) *Policy { return logged(&Policy{Realms: map[string]*Realm{"default": &r}}) }
	for name, c := range map[string]struct {
		p    *Policy
		path string
		says string
	}{
		"capacity zero":              {row(Limit{Capacity: n64(0)}), l0 + ".capacity", "at least 1"},
		"capacity negative":          {row(Limit{Capacity: n64(-1)}), l0 + ".capacity", "at least 1"},
		"capacity 2^53":              {row(Limit{Capacity: n64(1 << 53)}), l0 + ".capacity", "2^53"},
		"capacity 2^53 by k":         {row(Limit{Tier: "ip", Name: "burst", Capacity: n64(1 << 23)}), l0 + ".capacity", "2^53"},
		"capacity 2^53 by network":   {row(Limit{Tier: "ip", Name: "burst", Capacity: n64(1 << 47), Refill: refill("1/1us")}), l0 + ".capacity", "network"},
		"capacity 2^53 by posture":   {row(Limit{Tier: "global", Name: "burst", Capacity: n64(1<<53 - 1), Refill: refill("1/1us")}), l0 + ".capacity", "2^53"},
		"global, only refill":        {row(Limit{Tier: "global", Name: "burst", Refill: refill("1/1s")}), l0 + ".capacity", "at least 1"},
		"global, only capacity":      {row(Limit{Tier: "global", Name: "burst", Capacity: n64(5)}), l0 + ".refill", "at least 1"},
		"refill of nothing":          {row(Limit{Refill: refill("0/1h")}), l0 + ".refill", "at least 1"},
		"refill backwards":           {row(Limit{Refill: refill("-1/1h")}), l0 + ".refill", "at least 1"},
		"refill in no time":          {row(Limit{Refill: refill("1/0s")}), l0 + ".refill", "at least 1"},
		"refill in nanoseconds":      {row(Limit{Refill: refill("1/1500ns")}), l0 + ".refill", "microsecond"},
		"refill without a slash":     {row(Limit{Refill: refill("20")}), l0 + ".refill", "20/1h"},
		"refill without a unit":      {row(Limit{Refill: refill("20/1")}), l0 + ".refill", "20/1h"},
		"share without a sign":       {row(Limit{Delay: pct("60")}), l0 + ".delay", "70%"},
		"share over 100":             {row(Limit{Delay: pct("101%")}), l0 + ".delay", "70%"},
		"share below 0":              {row(Limit{Captcha: pct("-1%")}), l0 + ".captcha", "70%"},
		"share that is no number":    {row(Limit{Verify: pct("NaN%")}), l0 + ".verify", "70%"},
		"share too fine":             {row(Limit{Delay: pct("60.001%")}), l0 + ".delay", "70%"},
		"delay at captcha's share":   {row(Limit{Delay: pct("50%")}), l0 + ".delay", "never show"},
		"delay below captcha":        {row(Limit{Delay: pct("40%")}), l0 + ".delay", "never show"},
		"captcha below verify":       {row(Limit{Captcha: pct("20%"), Verify: pct("30%")}), l0 + ".captcha", "never show"},
		"captcha at empty":           {row(Limit{Captcha: pct("empty")}), l0 + ".captcha", "never show"},
		"delay below verify":         {row(Limit{Delay: pct("20%"), Captcha: pct("never"), Verify: pct("30%")}), l0 + ".delay", "never show"},
		"captcha under one token":    {row(Limit{Captcha: pct("4%")}), l0 + ".captcha", "less than one token"},
		"verify under one token":     {row(Limit{Verify: pct("1%")}), l0 + ".verify", "less than one token"},
		"verify at 0 %":              {row(Limit{Verify: pct("0%")}), l0 + ".verify", "less than one token"},
		"asked of a full bucket":     {row(Limit{Delay: pct("100%")}), l0 + ".delay", "full bucket"},
		"no rung":                    {row(Limit{Delay: pct("never"), Captcha: pct("never"), Verify: pct("never")}), l0, "no rung"},
		"rung of a device":           {row(Limit{Tier: "device", Name: "burst", Captcha: pct("50%")}), l0, "no rungs"},
		"verify on flood":            {row(Limit{Tier: "flood", Name: "burst", Verify: pct("empty")}), l0, "one rung"},
		"unknown tier":               {row(Limit{Tier: "country", Name: "burst"}), l0 + ".tier", "pair, account, ip, network, global, device, flood"},
		"no tier":                    {login(Limit{}), l0 + ".tier", "not one of"},
		"unknown name":               {row(Limit{Tier: "pair", Name: "weekly"}), l0 + ".name", "burst, sustained"},
		"shared account":             {row(Limit{Tier: "account", Name: "shared"}), l0 + ".name", "burst, sustained"},
		"sustained global":           {row(Limit{Tier: "global", Name: "sustained"}), l0 + ".name", "burst"},
		"two rows":                   {login(Limit{Tier: "pair", Name: "burst"}, Limit{Tier: "pair", Name: "burst"}), "realms.default.flows.login.limits[1]", "second row"},
		"nothing by account":         {login(Limit{Tier: "pair", Name: "burst", Off: true}, Limit{Tier: "pair", Name: "sustained", Off: true}, Limit{Tier: "account", Name: "burst", Off: true}, Limit{Tier: "account", Name: "sustained", Off: true}), "realms.default.flows.login.limits", "pair or account"},
		"no device":                  {login(Limit{Tier: "device", Name: "burst", Off: true}, Limit{Tier: "device", Name: "sustained", Off: true}), "realms.default.flows.login.limits", "device"},
		"base above max":             {realm(Realm{Flows: map[string]*Flow{"login": {Delay: Delay{Base: dur("31s")}}}}), "realms.default.flows.login.delay.base", "longer than max"},
		"base of nothing":            {realm(Realm{Flows: map[string]*Flow{"login": {Delay: Delay{Base: dur("0s")}}}}), "realms.default.flows.login.delay.base", "from 1ms"},
		"base not a time":            {realm(Realm{Flows: map[string]*Flow{"login": {Delay: Delay{Base: dur("soon")}}}}), "realms.default.flows.login.delay.base", "duration"},
		"max of a day":               {realm(Realm{Flows: map[string]*Flow{"login": {Delay: Delay{Max: dur("24h")}}}}), "realms.default.flows.login.delay.max", "to 10m"},
		"another flow's row":         {realm(Realm{Flows: map[string]*Flow{"otp": {Limits: []Limit{{Tier: "pair", Name: "burst", Delay: pct("50%")}}}}}), "realms.default.flows.otp.limits[0].delay", "never show"},
		"unknown flow":               {realm(Realm{Flows: map[string]*Flow{"logon": nil}}), "realms.default.flows.logon", "login, otp"},
		"realm with a brace":         {logged(&Policy{Realms: map[string]*Realm{"a}b": nil}}), "realms.a}b", "name"},
		"realm in capitals":          {logged(&Policy{Realms: map[string]*Realm{"Shop": nil}}), "realms.Shop", "name"},
		"realm too long":             {logged(&Policy{Realms: map[string]*Realm{strings.Repeat("a", 65): nil}}), "realms." + strings.Repeat("a", 65), "name"},
		"normalise":                  {realm(Realm{Normalise: "lower"}), "realms.default.normalise", "exact, fold, email"},
		"list, no network":           {realm(Realm{Lists: Lists{Allow: []ListEntry{{CIDR: "office"}}}}), "realms.default.lists.allow[0].cidr", "network"},
		"list, host bits":            {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "192.0.2.0/24"}, {CIDR: "203.0.113.7/24"}}}}), "realms.default.lists.deny[1].cidr", "203.0.113.0/24"},
		"list, twice":                {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "192.0.2.1"}, {CIDR: "::ffff:192.0.2.1"}}}}), "realms.default.lists.deny[1].cidr", "twice"},
		"list, zone":                 {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "fe80::1%eth0"}}}}), "realms.default.lists.deny[0].cidr", "network"},
		"list, half of all v4":       {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "::ffff:0:0/90"}}}}), "realms.default.lists.deny[0].cidr", ""},
		"list, deny everybody":       {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "0.0.0.0/0"}}}}), "realms.default.lists.deny[0].cidr", "force: true"},
		"list, all v4, mapped":       {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "::ffff:0:0/96"}}}}), "realms.default.lists.deny[0].cidr", "force: true"},
		"list, half of everybody":    {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "128.0.0.0/1"}}}}), "realms.default.lists.deny[0].cidr", "force: true"},
		"list, deny all v6":          {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "::/0"}}}}), "realms.default.lists.deny[0].cidr", "force: true"},
		"list, all v6 in use":        {realm(Realm{Lists: Lists{Deny: []ListEntry{{CIDR: "2000::/3"}}}}), "realms.default.lists.deny[0].cidr", "force: true"},
		"list, allow everybody":      {realm(Realm{Lists: Lists{Allow: []ListEntry{{CIDR: "::/0"}}}}), "realms.default.lists.allow[0].cidr", "force: true"},
		"origin with a path":         {realm(Realm{ReturnOrigins: []string{"https://app.example.com/"}}), "realms.default.return_origins[0]", "origin"},
		"origin without a scheme":    {realm(Realm{ReturnOrigins: []string{"app.example.com"}}), "realms.default.return_origins[0]", "origin"},
		"origin with a user":         {realm(Realm{ReturnOrigins: []string{"https://a@app.example.com"}}), "realms.default.return_origins[0]", "origin"},
		"origin of a script":         {realm(Realm{ReturnOrigins: []string{"javascript://app.example.com"}}), "realms.default.return_origins[0]", "origin"},
		"posture that is none":       {realm(Realm{Postures: map[string]*Effect{"normal": {}}}), "realms.default.postures.normal", "elevated"},
		"posture, floor that is no":  {realm(Realm{Postures: map[string]*Effect{"high": {Floor: "lock"}}}), "realms.default.postures.high.floor", "verify"},
		"posture, too large divisor": {realm(Realm{Postures: map[string]*Effect{"high": {Divisor: 65}}}), "realms.default.postures.high.divisor", "64"},
		"no delivery":                {&Policy{Realms: map[string]*Realm{"shop": {}}}, "realms.shop.delivery", "is needed"},
		"work without end":           {realm(Realm{Pow: Pow{Tries: 10001}}), "realms.default.pow.tries", "10000"},
		"work of nothing":            {realm(Realm{Pow: Pow{Cost: -1}}), "realms.default.pow.cost", "100000"},
		"a provider, twice":          {realm(Realm{Providers: []ThirdParty{{Name: "turnstile"}, {Name: "turnstile"}}}), "realms.default.providers[1].name", "twice"},
		"a notice that is none":      {realm(Realm{Notices: []string{"new_device", "birthday"}}), "realms.default.notices[1]", "success_after_failures"},
		"posture, negative divisor":  {realm(Realm{Postures: map[string]*Effect{"elevated": {Divisor: -2}}}), "realms.default.postures.elevated.divisor", "64"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.p.Validate()
			var f Faults
			if !errors.As(err, &f) {
				t.Fatalf("error is %v, want faults", err)
			}
			if len(f) != 1 || f[0].Field != c.path || !strings.Contains(f[0].Reason, c.says) {
				t.Errorf("faults are %q, want one at %s that says %q", f, c.path, c.says)
			}
			if last := c.path[strings.LastIndexByte(c.path, '.')+1:]; strings.HasPrefix(f[0].Reason, last+" ") {
				t.Errorf("%v: the field is named twice", f)
			}
		})
	}
}

func TestAllFaultsAreNamedAtOnce(t *testing.T) {
	p := login(
		Limit{Tier: "account", Name: "burst", Capacity: n64(0)},
		Limit{Tier: "pair", Name: "burst", Refill: refill("x"), Delay: pct("y")},
	)
	p.Realms["Bad"] = &Realm{Normalise: "lower"}
	err := p.Validate()
	for _, path := range []string{"realms.Bad", "realms.Bad.normalise", "realms.default.flows.login.limits[0].capacity",
		"realms.default.flows.login.limits[1].refill", "realms.default.flows.login.limits[1].delay"} {
		wantFault(t, err, path, "")
	}
	if p.compiled != nil {
		t.Error("a policy with faults was compiled")
	}
}

// TestRowsLieOverTheTable holds overlaying and inheriting to a sheet.
func TestRowsLieOverTheTable(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{"shop": {Delivery: Delivery{Driver: "log"}, Flows: map[string]*Flow{
		"login": {
			Delay:  Delay{Max: dur("1m")},
			Limits: []Limit{{Tier: "account", Name: "burst", Capacity: n64(30)}, {Tier: "ip", Name: "burst", Capacity: n64(50), Captcha: pct("40%")}, {Tier: "pair", Name: "sustained", Off: true}},
		},
		"otp": {Limits: []Limit{{Tier: "account", Name: "burst", Refill: refill("1/1h")}, {Tier: "network", Name: "burst", Capacity: n64(99)}}},
	}}}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	limit := func(flow int, tier keys.Tier, name string) string {
		for _, s := range p.compiled["shop"].flows[flow].kinds[kindV6].Tiers() {
			for _, l := range s.Limits {
				if s.Tier == tier && l.Name == name {
					return l.Limit.String() + " " + stepText(l.Delay) + " " + stepText(l.Captcha)
				}
			}
		}
		return "off"
	}
	for _, c := range []struct {
		flow int
		tier keys.Tier
		name string
		want string
	}{
		{0, keys.TierAccount, "burst", "30, refill 1 per 3m0s 60 50"},
		{0, keys.TierPair, "sustained", "off"},
		{0, keys.TierPair, "burst", "10, refill 1 per 1m0s 70 50"},
		{0, keys.TierNetwork, "burst", "400, refill 1 per 3.75s 60 40"}, // 8 x ip, wherever ip goes
		{1, keys.TierAccount, "burst", "30, refill 1 per 1h0m0s 60 50"}, // login's, but for the refill
		{1, keys.TierNetwork, "burst", "99, refill 1 per 3.75s 60 40"},
		{1, keys.TierPair, "sustained", "off"},
		{3, keys.TierAccount, "burst", "30, refill 1 per 3m0s 60 50"}, // signup is not given
	} {
		if got := limit(c.flow, c.tier, c.name); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", Flows[c.flow], c.tier, c.name, got, c.want)
		}
	}
	if pace := p.compiled["shop"].flows[1].kinds[0].Pace(); pace != (keys.Pace{Base: 1e6, Max: 60e6}) {
		t.Errorf("otp waits %v, want login's", pace)
	}
}

func TestListsTheMostSpecificWinsAndDenyOnATie(t *testing.T) {
	wantListed(t, Lists{
		Allow: []ListEntry{{CIDR: "10.0.0.0/8", Reason: "ours"}, {CIDR: "10.1.2.0/24"}, {CIDR: "10.9.0.0/16"}, {CIDR: "2001:db8::/32"}, {CIDR: "::ffff:192.0.2.0/120"}},
		Deny:  []ListEntry{{CIDR: "10.1.0.0/16"}, {CIDR: "10.9.0.0/16"}, {CIDR: "2001:db8:bad::/48"}, {CIDR: "64:ff9b::198.51.100.0/120"}, {CIDR: "203.0.113.7"}},
	}, map[string]listing{
		"10.2.3.4": allowed, "10.1.3.4": denied, "10.1.2.4": allowed, "10.9.1.1": denied, "11.0.0.1": unlisted,
		"2001:db8::1": allowed, "2001:db8:bad::1": denied, "2001:db9::1": unlisted,
		"192.0.2.9": allowed, "198.51.100.9": denied, "64:ff9b::c633:6409": denied, "203.0.113.7": denied, "203.0.113.8": unlisted,
	})
}

func wantListed(t *testing.T, lists Lists, want map[string]listing) {
	t.Helper()
	p := logged(&Policy{Realms: map[string]*Realm{"default": {Lists: lists}}})
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for ip, want := range want {
		a, err := keys.ParseAddress(ip)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := p.compiled["default"].lists.lookup(a, t0); got != want {
			t.Errorf("%s: %d, want %d", ip, got, want)
		}
	}
}

// Who means everybody (a realm that only an office may use) says so.
func TestACatchAllIsListedByForce(t *testing.T) {
	wantListed(t, Lists{
		Allow: []ListEntry{{CIDR: "192.0.2.0/24"}},
		Deny:  []ListEntry{{CIDR: "0.0.0.0/0", Force: true}, {CIDR: "::/0", Force: true}},
	}, map[string]listing{"192.0.2.9": allowed, "198.51.100.1": denied, "2001:db8::1": denied})
}

func TestAPepperOutlivesTheSealingSecrets(t *testing.T) {
	two := secrets(t, "the second secret, to be moved up", string(testSecret))
	c := Config{Store: keys.NewMemory(keys.MemoryConfig{}), Policy: DefaultPolicy(), Secrets: two}
	c.Records = c.Store.(*keys.Memory)
	_, err := New(c)
	wantFault(t, err, "realms.default.pepper_file", "")

	one := newWorld(t)
	c.Policy.Realms["default"].Pepper = testSecret
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := one.g.live.Load().realms["default"].account(alice)
	b, _, _ := g.live.Load().realms["default"].account(alice)
	if a != b {
		t.Error("the secret put into the pepper file hashes names otherwise than it did as the only secret")
	}
	for _, bad := range []*Realm{{PepperFile: "pepper"}, {Pepper: []byte("short")}} {
		c.Policy = logged(&Policy{Realms: map[string]*Realm{"default": bad}})
		_, err := New(c)
		wantFault(t, err, "realms.default.pepper_file", "")
	}
}

func TestSetPolicySwapsWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	before := w.g.Policy()
	wantFault(t, w.g.SetPolicy(login(Limit{Tier: "account", Name: "burst", Capacity: n64(0)})), "realms.default.flows.login.limits[0].capacity", "")
	if w.g.Policy() != before {
		t.Error("a bad policy was swapped in")
	}
	after := login(Limit{Tier: "account", Name: "burst", Capacity: n64(7)})
	if err := w.g.SetPolicy(after); err != nil {
		t.Fatal(err)
	}
	if v := w.let(Attempt{Account: alice, IP: home}); w.g.Policy() != after || v.Tiers[2].Capacity != 7 {
		t.Errorf("the new policy is not in force: %v", v.Tiers)
	}
}
