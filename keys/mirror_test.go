package keys_test

import (
	"fmt"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

// What healthy replies say is known in the outage: what is spent, which proofs
// are used, which outcomes are booked, where the account has signed in.
func TestAnOutageKnowsWhatHealthyRepliesSaid(t *testing.T) {
	o := newOutage(t, 1)
	proof := keys.Proof{Key: "p", Rung: keys.Captcha, Issued: o.now - 1, Expires: o.now + keys.Day, Uses: 1}
	ask := func(cost int64, floor keys.Rung) (ans keys.Answer) {
		t.Helper()
		a := keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: cost, Floor: floor, Proof: proof, PlaceKey: "place", StateKey: "state", KKeys: [2]string{"k"}, RevokedKey: "revoked"}
		if err := o.Take(t.Context(), &a, &ans); err != nil {
			t.Fatal(err)
		}
		return ans
	}
	for key, v := range map[string][]byte{"state": keys.State{Posture: keys.High, Until: o.now + keys.Day}.Encode(), "k": keys.EncodeK(7, o.now+keys.Day)} {
		if err := o.shared.Put(t.Context(), key, v, keys.Day); err != nil { // another instance did
			t.Fatal(err)
		}
	}
	ans := ask(5, keys.Captcha)
	if ans.Proof != keys.ProofUsed || !ans.Let {
		t.Fatalf("%+v", ans)
	}
	if rcp := o.give(t, &ans, keys.Success); !rcp.Recorded {
		t.Fatalf("%+v", rcp)
	}
	o.primary.Set(keystest.NotDone)
	now := ask(1, keys.Captcha)
	switch {
	case !now.Degraded, now.Limits[0].Tokens() != 15:
		t.Errorf("%d are left of 20, of which 5 were spent", now.Limits[0].Tokens())
	case now.Let, now.Proof != keys.ProofSpent:
		t.Errorf("a used proof is worth it again here: %+v", now)
	case !now.Familiar, now.Posture != keys.High, now.K[0] != 7:
		t.Errorf("familiar %v, posture %v, k %v", now.Familiar, now.Posture, now.K)
	}
	if rcp := o.give(t, &ans, keys.Failure); !rcp.Duplicate || rcp.Prior != keys.Success {
		t.Errorf("a second outcome: %+v", rcp)
	}
}

func TestARevocationSeenInAReplyStandsInTheOutage(t *testing.T) {
	o := newOutage(t, 1)
	if _, err := o.shared.Revoke(t.Context(), "revoked", o.now, keys.Day); err != nil {
		t.Fatal(err)
	}
	ask := func(name string) keys.ProofState {
		a := keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: 1, Floor: keys.Captcha, RevokedKey: "revoked",
			Proof: keys.Proof{Key: name, Rung: keys.Verify, Issued: o.now - 1, Expires: o.now + keys.Day, Uses: 5}}
		var ans keys.Answer
		if err := o.Take(t.Context(), &a, &ans); err != nil {
			t.Fatal(err)
		}
		return ans.Proof
	}
	if s := ask("p"); s != keys.ProofInvalid {
		t.Fatal(s)
	}
	o.primary.Set(keystest.NotDone)
	if s := ask("another"); s != keys.ProofInvalid {
		t.Errorf("the proof is %v here", s)
	}
}

// A flood of names in healthy times leaves room for those of an outage.
func TestMirroringIsBounded(t *testing.T) {
	o := newOutage(t, 1)
	o.local = keys.NewMemory(keys.MemoryConfig{Buckets: 640, Marks: 64, Now: func() int64 { return o.now }})
	o.Fallback = keys.NewFallback(keys.FallbackConfig{Primary: o.primary, Local: o.local, Instances: 1})
	for i := range 5000 {
		var ans keys.Answer
		if err := o.Take(t.Context(), &keys.Ask{Rules: o.rules, Keys: []string{fmt.Sprint(i)}, Cost: 1}, &ans); err != nil {
			t.Fatal(err)
		}
	}
	if st := o.local.Stats(); st.Buckets > 640*3/4+64 || st.Buckets < 300 || st.Shared > 0 {
		t.Errorf("%+v", st)
	}
}
