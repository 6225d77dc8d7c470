package soc

import (
	"fmt"
	"slices"
	"time"

	"github.com/guardd/guardd/aggregate"
)

var (
	began    = time.Date(2026, 11, 30, 4, 5, 6, 123456000, time.UTC)
	producer = Producer{Version: "1.2.3", Host: "login-1.example.com"}
)

const hashA, hashB = "wxyzWXYZ0123456789_-Ab", "abcdABCD0123456789_-Xy"

// hostile are what an attacker types for an account's name, to end a record, to
// begin one, or to be read as another field. They are what a realm that wants names
// told can be told (the guard takes no control characters; receivers of other
// programs' events might be given them).
var hostile = []string{
	`alice|bob\`, `a=b c=d`, `suser=root act=allow`, `"] [x@1 y="z`, `]`, `\`, `"`, `'; DROP TABLE users; --`,
	"two\nlines", "carriage\rreturn", "nul\x00byte", "tab\tbell\a", "\u2028\u2029", "\u202Egnp.eciffo", "\xff\xfe no UTF-8", "é😀漢字",
	`{"a":1}`, "CEF:0|x|y|z|1|n|10|", "<165>1 2003-10-11T22:14:15.003Z h a - - - x", `${jndi:ldap://x}`, "%s%n%d", "", " ", "\\n",
}

func finding(what, state string) *aggregate.Finding {
	f := &aggregate.Finding{V: 1, ID: what + "-1x2y3z", Realm: "default", What: what, State: state, Start: began, Last: began.Add(90 * time.Second),
		Posture: "high", Reason: "12 failures a minute where 0.3 are usual", Guesses: 1234, Peak: 56.5, Accounts: 321, Sources: 45,
		Groups: []aggregate.FindingGroup{{Kind: "source", Key: "203.0.113.7/32", PerMinute: 5}, {Kind: "source", Key: "2001:db8:1:2::/64"},
			{Kind: "network", Key: "198.51.100.0/24"}, {Kind: "password", Key: "0123456789abcdef"}, {Kind: "user_agent", Key: "script"}},
		Samples: []string{hashA, hashB}, Done: []aggregate.FindingAction{{Time: began.Add(time.Minute), What: "suspect 198.51.100.0/24"}}}
	if what == "operator_action" {
		f.By, f.Action, f.Was, f.Is = "night|shift=", "list.set", "", "deny 198.51.100.0/24"
	}
	if state == "closed" {
		f.End = began.Add(time.Hour)
	}
	return f
}

func attempt(action string) *aggregate.Event {
	return &aggregate.Event{V: 1, ID: "00112233445566aa-7", Instance: "00112233445566aa", Seq: 7, Kind: aggregate.KindAttempt, Time: began,
		Realm: "default", Flow: "login", Account: hashA, IP: "203.0.113.7", Network: "203.0.113.0/24", Attempt: "abcDEF0123456789_-abcd",
		Action: action, Would: action, Rung: action, Reasons: []string{"account.burst", "suspect"}, Posture: "elevated", UAClass: "firefox", Channel: "web",
		Tiers: []aggregate.TierLevel{{Tier: "account", Limit: "burst", Left: 9, Capacity: 20, Rung: "captcha"}}}
}

func outcome(outcome string) *aggregate.Event {
	e := attempt("")
	e.ID, e.Kind, e.Action, e.Would, e.Rung, e.Reasons, e.Posture, e.Tiers, e.Outcome = "00112233445566aa-8", aggregate.KindOutcome, "", "", "", nil, "", nil, outcome
	return e
}

var outcomes = []string{"success", "failure", "unknown_account", "second_factor_pending", "denied_by_policy", "not_checked", "abandoned"}

// samples are records of everything that there is to tell, by name.
func samples() map[string]*Record {
	all := map[string]*Record{}
	for _, what := range append(Kinds(), "of_a_newer_guardd") {
		for c, state := range map[Change]string{Opened: "open", Updated: "open", Closed: "closed", Once: "once"} {
			for _, posture := range []string{"", "elevated", "high", "critical"} {
				f := finding(what, state)
				f.Posture = posture
				all[fmt.Sprint(what, " ", c, " ", posture)] = OfFinding(f, c)
			}
		}
	}
	bare := &aggregate.Finding{V: 1, ID: "spray-1", Realm: "default", What: "spray", State: "open", Start: began, Learning: true}
	all["bare"] = OfFinding(bare, Opened)
	everywhere := finding("operator_action", "once")
	everywhere.Realm, everywhere.Posture = "", ""
	all["all realms"] = OfFinding(everywhere, Once)
	one := finding("hammering", "open")
	one.Samples, one.Groups, one.DryRun = one.Samples[:1], one.Groups[:1], true
	all["one account"] = OfFinding(one, Opened)
	all["held back"] = heldBack(map[string]int{"spray": 3, "hammering": 1}, began, began.Add(time.Minute))
	for _, a := range []string{"allow", "delay", "captcha", "verify", "deny"} {
		all["attempt "+a] = OfEvent(attempt(a))
		shadow := attempt("allow")
		shadow.Shadow, shadow.Would = true, a
		all["shadow "+a] = OfEvent(shadow)
	}
	for _, o := range outcomes {
		all["outcome "+o] = OfEvent(outcome(o))
		twice, late := outcome(o), outcome(o)
		twice.Duplicate, late.Expired = true, true
		all["twice "+o], all["late "+o] = OfEvent(twice), OfEvent(late)
	}
	six := attempt("captcha")
	six.IP, six.Network = "2001:db8:1:2::", "2001:db8:1::/48"
	all["IPv6"] = OfEvent(six)
	all["bare event"] = OfEvent(&aggregate.Event{V: 1, ID: "a-1", Kind: aggregate.KindAttempt, Time: began, Realm: "default", Account: hashA, Action: "allow"})
	for i, name := range hostile {
		f, e := finding("slow_guessing", "open"), attempt("verify")
		f.Samples = f.Samples[:1]
		f.Reason, e.Channel, e.Reasons = name, name, []string{name}
		rf, re := OfFinding(f, Opened), OfEvent(e)
		rf.Names, re.Names = map[string]string{hashA: name}, map[string]string{hashA: name}
		all[fmt.Sprint("hostile finding ", i)], all[fmt.Sprint("hostile event ", i)] = rf, re
	}
	return all
}

func names(all map[string]*Record) []string {
	var n []string
	for name := range all {
		n = append(n, name)
	}
	slices.Sort(n)
	return n
}
