package aggregate

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// forge feeds forgeries one event after the other, ten seconds apart.
type forge struct {
	f  *forgeries
	at int64
}

func newForge() *forge { return &forge{newForgeries(), monday} }

func (x *forge) see(ip, account string, e Event) *Finding {
	x.at += 10 * keys.Second
	e.Realm, e.Account = "shop", account
	if e.Kind == "" {
		e.Kind = KindAttempt
	}
	return x.f.see(&e, x.at, accountHash(account), keys.AddressOf(netip.MustParseAddr(ip)))
}

var (
	invalid   = Event{ProofError: string(escalation.ProofInvalid)}
	badDevice = Event{Reasons: []string{"pair.burst", escalation.ReasonDeviceInvalid}}
	foreign   = Event{ProofError: string(escalation.ProofWrongAccount), Shown: "prfPRF0123456789_-prfP"}
	signedIn  = Event{Kind: KindOutcome, Outcome: "success"}
)

// TestManyForgedTokensFromOneAddress: of any kind, on the twentieth, once an hour.
func TestManyForgedTokensFromOneAddress(t *testing.T) {
	for name, e := range map[string]Event{"proofs": invalid, "devices": badDevice, "others' proofs": {ProofError: foreign.ProofError}} {
		x, found := newForge(), []int{}
		for i := range 400 { // an hour and seven minutes
			if f := x.see("198.51.100.7", fmt.Sprint("account ", i), e); f != nil {
				found = append(found, i)
				if f.What != TokenForgery || f.State != FindingOnce || f.Realm != "shop" || f.Groups[0] != (FindingGroup{Kind: "source", Key: "198.51.100.7/32"}) || f.Guesses < forgedMost || f.Accounts < forgedMost {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
		if len(found) != 1 || found[0] != forgedMost-1 {
			t.Errorf("%s: told at %v", name, found)
		}
	}
}

// TestOneProofForManyAccounts, from as many addresses.
func TestOneProofForManyAccounts(t *testing.T) {
	x, found := newForge(), []int{}
	for i := range 60 {
		if f := x.see(fmt.Sprintf("198.51.100.%d", i), fmt.Sprint("account ", i), foreign); f != nil {
			found = append(found, i)
			if f.Groups[0] != (FindingGroup{Kind: "proof", Key: foreign.Shown}) || f.Accounts != replayedMost {
				t.Errorf("%+v", f)
			}
		}
	}
	if len(found) != 1 || found[0] != replayedMost-1 {
		t.Errorf("told at %v", found)
	}
}

// TestWhatHonestPeopleShowIsNoForgery.
func TestWhatHonestPeopleShowIsNoForgery(t *testing.T) {
	quiet := func(name string, x *forge, ip, account string, e Event) {
		t.Helper()
		if f := x.see(ip, account, e); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	x := newForge()
	for i := range 500 { // a house whose devices' secret was lost: one in ten does not get in
		account := fmt.Sprint("account ", i)
		quiet("a lost secret", x, "198.51.100.7", account, badDevice)
		if i%10 > 0 {
			quiet("a lost secret", x, "198.51.100.7", account, signedIn)
		}
	}
	x = newForge()
	for i := range 500 { // everywhere
		quiet("a lost secret", x, fmt.Sprintf("2001:db8:%x::1", i), fmt.Sprint(i), badDevice)
	}
	x = newForge()
	for i := range 300 { // one every three minutes is less than twenty in twenty
		x.at += 170 * keys.Second
		quiet("now and then", x, "198.51.100.7", fmt.Sprint(i), invalid)
	}
	x = newForge()
	for i := range 300 {
		for _, e := range []escalation.ProofError{escalation.ProofExpired, escalation.ProofSpent, escalation.ProofWrongAddress, escalation.ProofTooEarly, escalation.ProofInsufficient, escalation.ProofWrongAnswer} {
			quiet(string(e), x, "198.51.100.7", fmt.Sprint(i), Event{ProofError: string(e), Shown: "p"})
		}
		for _, e := range []Event{{}, {Reasons: []string{escalation.ReasonDeviceSpent}}, {Kind: KindOutcome, Outcome: "failure"}} {
			quiet("nothing", x, "198.51.100.7", fmt.Sprint(i), e)
		}
	}
	x = newForge()
	for range 4 { // her name, her address, her old one
		for _, account := range []string{"alice", "alice@example.com", "alice@old.example"} {
			quiet("a form that carries the proof along", x, "198.51.100.7", account, foreign)
		}
	}
}

// TestNobodyBuysForgeriesWithHisOwnAccount: it gives back one, however often it signs in.
func TestNobodyBuysForgeriesWithHisOwnAccount(t *testing.T) {
	x := newForge()
	for i := range forgedMost + 1 {
		f := x.see("198.51.100.7", fmt.Sprint(i), invalid)
		if (f != nil) != (i == forgedMost) {
			t.Fatalf("token %d: %+v", i, f)
		}
		x.at -= 10 * keys.Second
		x.see("198.51.100.7", "own", signedIn)
	}
}

// TestForgersFillNoMemory: with more of them than are remembered each is forgotten
// sooner, and no more is kept.
func TestForgersFillNoMemory(t *testing.T) {
	x := newForge()
	for i := range 20 * forgersKept {
		x.at -= 10 * keys.Second
		x.see(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff), fmt.Sprint(i), foreign)
	}
	for name, a := range map[string]*aging{"shown": &x.f.shown, "signed": &x.f.signed, "pairs": &x.f.pairs, "counts": &x.f.counts, "told": &x.f.told} {
		if n := len(a.young.slots) + len(a.old.slots); n > 4*forgersKept {
			t.Errorf("%s holds %d slots", name, n)
		}
	}
}

// TestAForgeryFoundAgainHasItsId: a successor reads the hour again.
func TestAForgeryFoundAgainHasItsId(t *testing.T) {
	ids := map[string]bool{}
	for skip := range 5 {
		x := newForge()
		for i := range 60 {
			if i < skip {
				x.at += 10 * keys.Second
				continue
			}
			if f := x.see("198.51.100.7", fmt.Sprint(i), invalid); f != nil {
				ids[f.ID] = true
			}
		}
	}
	if len(ids) != 1 {
		t.Errorf("%v", ids)
	}
}
