package keys_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

const minute = 60 * keys.Second

// send presses for an account, from an address, in an outage or not.
func (o *outage) send(t *testing.T, account byte, from string, proof keys.Proof) (keys.CodeAnswer, error) {
	t.Helper()
	var ans keys.CodeAnswer
	err := o.SendCode(t.Context(), &keys.CodeAsk{Key: fmt.Sprint("code", account), SenderKey: from, Account: keys.Account{account}, Proof: proof, Deadline: o.now}, &ans)
	if err != nil && !errors.Is(err, keys.ErrNoStore) {
		t.Fatal(err)
	}
	if ans.Degraded != (err != nil) {
		t.Fatalf("degraded %v, but %v", ans.Degraded, err)
	}
	return ans, err
}

func (o *outage) image(id int) keys.Proof {
	return keys.Proof{Key: fmt.Sprint("image", id), Rung: keys.Captcha, Issued: o.now, Expires: o.now + 5*minute, Uses: 1}
}

func TestWithoutAStoreCodesAreThoseOfTheQuarter(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 4)
			o.now += 14 * minute // within a quarter of an hour
			before, err := o.send(t, 1, "a", keys.Proof{})
			if err != nil || before.State != keys.CodeSent {
				t.Fatalf("%+v %v", before, err)
			}
			o.primary.Set(fault)
			ans, err := o.send(t, 1, "a", keys.Proof{})
			if err == nil || ans.State != keys.CodeSent || ans.Code.Sent != o.now || ans.Code.Until != o.now+16*minute {
				t.Fatalf("%+v %v", ans, err)
			}
			if q := keys.Quarter(ans.Code.Sent); keys.Quarter(ans.Code.Until-1) != q+1 || keys.Quarter(ans.Code.Until) != q+2 {
				t.Errorf("a code of quarter %d is said to live until quarter %d", q, keys.Quarter(ans.Code.Until))
			}
			for i, want := range []keys.CodeState{keys.CodeLives, keys.CodeSent, keys.CodeSent, keys.CodePriced} {
				if ans, _ := o.send(t, byte(1+i), "a", keys.Proof{}); ans.State != want {
					t.Errorf("account %d: %s, not %s", 1+i, ans.State, want)
				}
			}
			_, live := o.LiveCode(t.Context(), "code1", 0)
			_, spend := o.SpendCode(t.Context(), "code1", before.Code.Serial, 0)
			unsend := o.UnsendCode(t.Context(), "code1", ans.Code.Serial, 0)
			for _, err := range []error{live, spend, unsend} {
				if !errors.Is(err, keys.ErrNoStore) {
					t.Errorf("%v", err)
				}
			}
			if ans, _ := o.send(t, 1, "a", keys.Proof{}); ans.State != keys.CodeSent {
				t.Errorf("what was not delivered keeps the next from being sent: %s", ans.State)
			}
			for want := range int64(3) {
				if n, _, err := o.Tally(t.Context(), "tally", 0, minute); err != nil || n != want+1 {
					t.Errorf("event %d is number %d (%v)", want+1, n, err)
				}
			}
			for _, op := range []string{"send code", "live code", "spend code", "unsend code", "tally"} {
				if !slices.Contains(o.errs, op) {
					t.Errorf("nobody was told of a failed %q", op)
				}
			}
			o.primary.Set(keystest.Healthy)
			o.now = before.Code.Until
			if fault == keystest.ReplyLost {
				// The store had codes sent and nobody heard: an image brings the last.
				if ans, err := o.send(t, 1, "b", o.image(1)); err != nil || ans.State != keys.CodeAgain {
					t.Errorf("after the outage %+v %v", ans, err)
				}
			} else if ans, err := o.send(t, 1, "b", keys.Proof{}); err != nil || ans.State != keys.CodeSent || ans.Code.Nth != 2 {
				t.Errorf("after the outage %+v %v", ans, err)
			}
		})
	}
}

// Whoever presses, however long the outage: at most MaxQuarterMails a day but
// for images, and with an image there is always a code to be had.
func TestMailsOfAnOutage(t *testing.T) {
	o := newOutage(t, 1)
	o.primary.Set(keystest.NotDone)
	var free []int64
	paid := 0
	for i := range 3 * 24 * 12 { // every five minutes for three days
		from := fmt.Sprint("stranger", i)
		ans, _ := o.send(t, 1, from, keys.Proof{})
		if ans.State == keys.CodeSent {
			free = append(free, o.now)
		}
		free = slices.DeleteFunc(free, func(at int64) bool { return o.now-at >= keys.Day })
		if len(free) > keys.MaxQuarterMails {
			t.Fatalf("%d mails in a day for nothing", len(free))
		}
		if ans.State == keys.CodePriced && i%3 == 0 {
			ans, _ = o.send(t, 1, from, o.image(i))
			if ans.State != keys.CodeSent || ans.Proof != keys.ProofUsed {
				t.Fatalf("who solves an image gets %s", ans.State)
			}
			paid++
		}
		o.now += 5 * minute
	}
	if paid < 100 {
		t.Errorf("only %d presses were priced", paid)
	}
}

func TestAPrimaryWithoutCodesIsAnOutageForThem(t *testing.T) {
	type only struct{ keys.Store }
	f := keys.NewFallback(keys.FallbackConfig{Primary: only{keys.NewMemory(keys.MemoryConfig{})}, Local: keys.NewMemory(keys.MemoryConfig{})})
	var ans keys.CodeAnswer
	if err := f.SendCode(t.Context(), &keys.CodeAsk{Key: "c", SenderKey: "s"}, &ans); !errors.Is(err, keys.ErrNoStore) || ans.State != keys.CodeSent || !ans.Degraded {
		t.Errorf("%+v %v", ans, err)
	}
	if n, _, err := f.Tally(t.Context(), "t", 0, 1); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

// The twin goes on by the primary's clock: a code's quarter is the same on every
// instance.
func TestAnOutageKeepsTheStoresClockForCodes(t *testing.T) {
	const ahead = 3600 * keys.Second
	local, shared := int64(1_800_000_000)*keys.Second, int64(1_800_000_000)*keys.Second+ahead
	p := &keystest.Faulty{Subject: keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return shared }})}
	f := keys.NewFallback(keys.FallbackConfig{Primary: p, Local: keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return local }})})
	for fault, account := range []string{"a", "b"} {
		p.Set(keystest.Fault(fault)) // healthy, then gone
		var ans keys.CodeAnswer
		f.SendCode(t.Context(), &keys.CodeAsk{Key: account, SenderKey: "s"}, &ans)
		if ans.Now != shared || ans.Code.Sent != shared {
			t.Errorf("%s is sent at %d, not %d", account, ans.Code.Sent, shared)
		}
	}
}

// A code of a quarter that is yet to come is accepted nowhere: where the clock has
// stepped back, the next press sends one of this quarter.
func TestAClockThatStepsBackDoesNotKeepACodeWaiting(t *testing.T) {
	now := int64(1_800_000_060) * keys.Second
	p := &keystest.Faulty{Subject: keys.NewMemory(keys.MemoryConfig{})}
	p.Set(keystest.NotDone)
	f := keys.NewFallback(keys.FallbackConfig{Primary: p, Local: keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return now }})})
	for _, c := range []struct {
		step int64
		want keys.CodeState
	}{{0, keys.CodeSent}, {-keys.Second, keys.CodeLives}, {-3600 * keys.Second, keys.CodeSent}, {0, keys.CodeLives}} {
		now += c.step
		var ans keys.CodeAnswer
		f.SendCode(t.Context(), &keys.CodeAsk{Key: "c", SenderKey: "s"}, &ans)
		if ans.State != c.want || keys.Quarter(ans.Code.Sent) > keys.Quarter(now) {
			t.Errorf("after a step of %d s: %v, sent at %d", c.step/keys.Second, ans.State, ans.Code.Sent)
		}
	}
}
