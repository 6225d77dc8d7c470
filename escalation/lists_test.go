package escalation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestOperatorsEntriesCountBesideThePolicys(t *testing.T) {
	policy := &Policy{Realms: map[string]*Realm{"default": {Lists: Lists{
		Allow: []ListEntry{{CIDR: "10.0.0.0/8"}},
		Deny:  []ListEntry{{CIDR: "10.1.0.0/16"}, {CIDR: "192.0.2.0/24", ExpiresAt: micros(t0 + time.Hour.Microseconds())}},
	}}}}
	w := newWorld(t, withPolicy(policy))
	hour := func(n int) time.Time { return micros(t0).Add(time.Duration(n) * time.Hour) }
	set := func(l Lists) {
		t.Helper()
		if err := w.g.SetLists("default", l); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, ips map[string]string) {
		t.Helper()
		for ip, want := range ips {
			v := w.try(Attempt{Account: "somebody at " + ip, IP: ip})
			got := "none"
			switch {
			case v.Action == ActionDeny:
				got = "deny"
			case len(v.Reasons) > 0 && v.Reasons[0] == ReasonListAllow:
				got = "allow"
			}
			if got != want {
				t.Errorf("%s: %s is on %s, not %s", when, ip, got, want)
			}
		}
	}
	want("policy alone", map[string]string{"10.2.0.1": "allow", "10.1.0.1": "deny", "192.0.2.1": "deny", "203.0.113.1": "none"})
	set(Lists{
		Allow: []ListEntry{{CIDR: "10.1.2.0/24", ExpiresAt: hour(2)}, {CIDR: "203.0.113.0/24"}, {CIDR: "192.0.2.0/24"}},
		Deny:  []ListEntry{{CIDR: "10.1.2.3", ExpiresAt: hour(1)}, {CIDR: "203.0.113.0/24", ExpiresAt: hour(3)}},
	})
	want("first hour", map[string]string{"10.1.2.3": "deny", "10.1.2.4": "allow", "10.1.3.1": "deny", "203.0.113.1": "deny", "192.0.2.1": "deny"})
	w.pass(time.Hour)
	want("second hour", map[string]string{"10.1.2.3": "allow", "10.1.2.4": "allow", "203.0.113.1": "deny", "192.0.2.1": "allow"})
	w.pass(time.Hour)
	want("third hour", map[string]string{"10.1.2.3": "deny", "10.1.2.4": "deny", "203.0.113.1": "deny"})
	w.pass(time.Hour)
	want("fourth hour", map[string]string{"203.0.113.1": "allow"})
	if err := w.g.SetPolicy(logged(&Policy{Realms: map[string]*Realm{"default": {}}})); err != nil {
		t.Fatal(err)
	}
	want("after a reload", map[string]string{"203.0.113.1": "allow", "10.2.0.1": "none", "192.0.2.1": "allow"})
	set(Lists{})
	want("taken away", map[string]string{"203.0.113.1": "none"})

	for name, l := range map[string]Lists{
		"host bits": {Deny: []ListEntry{{CIDR: "192.0.2.1/24"}}}, "everybody": {Deny: []ListEntry{{CIDR: "0.0.0.0/0"}}},
		"twice": {Allow: []ListEntry{{CIDR: "192.0.2.1"}, {CIDR: "192.0.2.1/32"}}}, "too many": {Deny: make([]ListEntry, MaxListed+1)},
	} {
		var faults Faults
		if err := w.g.SetLists("default", l); !errors.As(err, &faults) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Ten thousand entries are found as fast as one, and each is found.
func TestTenThousandEntries(t *testing.T) {
	w := newWorld(t)
	var l Lists
	for i := range MaxListed {
		l.Deny = append(l.Deny, ListEntry{CIDR: fmt.Sprintf("10.%d.%d.%d", i>>12, i>>4&255, i&15)})
	}
	if err := w.g.SetLists("default", l); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 4095, 4096, MaxListed - 1} {
		if v := w.try(Attempt{Account: "a", IP: l.Deny[i].CIDR}); v.Action != ActionDeny {
			t.Errorf("entry %d: %s", i, v.Action)
		}
	}
	x, err := w.g.Explain(context.Background(), &Subject{IP: "10.9.9.9"})
	if err != nil || x.List != nil {
		t.Errorf("an address beside them: %+v (%v)", x, err)
	}
}
