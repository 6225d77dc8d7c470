package keys

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func press(t *testing.T, m *Memory, name string, p Proof) (CodeAnswer, error) {
	t.Helper()
	var ans CodeAnswer
	err := m.SendCode(t.Context(), &CodeAsk{Key: "code" + name, SenderKey: "from" + name, Proof: p}, &ans)
	if err != nil && !errors.Is(err, ErrNoStore) {
		t.Fatal(err)
	}
	return ans, err
}

// fill presses from new addresses for new accounts until most have no room.
func fill(t *testing.T, m *Memory) (kept map[string]Code) {
	t.Helper()
	kept = map[string]Code{}
	for i := range 2000 {
		if ans, err := press(t, m, fmt.Sprint(i), Proof{}); err == nil && ans.State == CodeSent {
			kept[fmt.Sprint(i)] = ans.Code
		} else if ans.State != CodePriced || ans.Degraded != (err != nil) {
			t.Fatalf("without room: %+v %v", ans, err)
		}
	}
	if len(kept) < 50 || len(kept) > 64*2 {
		t.Fatalf("%d codes were kept with room for 128", len(kept))
	}
	return kept
}

// stranded is an account that has no room.
func stranded(t *testing.T, m *Memory) string {
	t.Helper()
	for i := range 1000 {
		name := fmt.Sprint("newcomer", i)
		if _, err := press(t, m, name, Proof{}); err != nil {
			return name
		}
	}
	t.Fatal("every newcomer has room")
	return ""
}

func image(id string, now int64) Proof {
	return Proof{Key: id, Rung: Captcha, Issued: now, Expires: now + 300*Second, Uses: 1}
}

func TestWithoutRoomNoCodeIsForgottenAndNobodyIsKeptOut(t *testing.T) {
	m, now := clocked(MemoryConfig{Marks: 64 * 16})
	kept := fill(t, m)
	name := stranded(t, m)
	ans, err := press(t, m, name, image("good", *now))
	if !errors.Is(err, ErrNoStore) || ans.State != CodeSent || ans.Proof != ProofUsed || ans.Code.Until != (Quarter(*now)+2)*900*Second {
		t.Errorf("a newcomer who solves an image: %+v %v", ans, err)
	}
	if ans, _ := press(t, m, name, image("good", *now)); ans.State != CodePriced || ans.Proof != ProofSpent {
		t.Errorf("the same image again: %+v", ans)
	}
	if m.Stats().Unkept == 0 {
		t.Error("nobody is told that there is no room")
	}
	*now += CodeLife(1) - 1
	for name, c := range kept {
		if live, err := m.LiveCode(t.Context(), "code"+name, 0); err != nil || live != c {
			t.Fatalf("%s: %+v lives (%v), not %+v", name, live, err, c)
		}
		if spent, err := m.SpendCode(t.Context(), "code"+name, c.Serial, 0); err != nil || !spent {
			t.Fatalf("%s cannot be spent: %v", name, err)
		}
	}
	*now += 2 * Day
	if later := fill(t, m); len(later) < 50 { // what is over makes room
		t.Errorf("two days later %d newcomers found room", len(later))
	}
}

func TestWithoutRoomForAnImageItCountsForACode(t *testing.T) {
	m, now := clocked(MemoryConfig{Marks: 64 * 16})
	fill(t, m)
	l := limitOf(t, "burst", 100_000, 1, time.Hour)
	l.Steps = Steps{Never, 10000, Never}
	r := rulesOf(t, TierAccount, 0, l)
	for i := range 3000 {
		mustTake(t, m, &Ask{Rules: r, Keys: []string{"a"}, Cost: 1, Proof: captchaProof(i, Captcha)})
	}
	name, before := stranded(t, m), m.Stats().Marks
	for i := range 100 {
		if ans, _ := press(t, m, name, image(fmt.Sprint("more", i), *now)); ans.State != CodeSent {
			t.Fatalf("image %d: %+v", i, ans)
		}
	}
	if after := m.Stats().Marks; after > before {
		t.Errorf("%d marks became %d", before, after)
	}
}

func TestAFloodOfAddressesFreesNoSender(t *testing.T) {
	m, now := clocked(MemoryConfig{Marks: 64 * 16})
	from := func(address string, account int) CodeAnswer {
		var ans CodeAnswer
		key := fmt.Sprint("code", account)
		if err := m.SendCode(t.Context(), &CodeAsk{Key: key, SenderKey: address, Account: Account{byte(account)}}, &ans); err != nil {
			t.Fatal(err)
		}
		if ans.State == CodeSent { // so that the next address can send too
			if ok, err := m.SpendCode(t.Context(), key, ans.Code.Serial, 0); !ok {
				t.Fatal(ok, err)
			}
		}
		return ans
	}
	for account := range 3 {
		from("first", account)
	}
	*now += Day - 1
	sent := 0
	for i := range 1000 {
		if from(fmt.Sprint("address", i), i%3).State == CodeSent {
			sent++
		}
	}
	if sent < 50 || sent > 64*2 {
		t.Errorf("%d addresses sent for nothing with room for 128", sent)
	}
	if ans := from("first", 2); ans.State != CodeSent {
		t.Errorf("one of its own three: %+v", ans)
	}
	if ans := from("first", 3); ans.State != CodePriced {
		t.Errorf("a fourth account within a day: %+v", ans)
	}
}

func TestWithoutRoomATallyIsNotKnown(t *testing.T) {
	m, now := clocked(MemoryConfig{Marks: 64 * 4})
	unknown := 0
	for i := range 1000 {
		n, _, err := m.Tally(t.Context(), fmt.Sprint(i), 0, Second)
		switch {
		case errors.Is(err, ErrNoStore):
			unknown++
		case err != nil || n != 1:
			t.Fatalf("%d: %d %v", i, n, err)
		}
	}
	if unknown < 900 {
		t.Errorf("%d of 1000 tallies had no room for 64", unknown)
	}
	if n, _, err := m.Tally(t.Context(), "0", 0, Second); n != 2 || err != nil {
		t.Errorf("the first was forgotten: %d %v", n, err)
	}
	*now += 2*Second + Slack
	if n, _, err := m.Tally(t.Context(), "new", 0, Second); n != 1 || err != nil {
		t.Errorf("what is over makes no room: %d %v", n, err)
	}
}

func TestStatsCountCodes(t *testing.T) {
	m, _ := clocked(MemoryConfig{})
	press(t, m, "a", Proof{})
	m.Tally(t.Context(), "t", 0, Second)
	if s := m.Stats(); s.Marks != 3 {
		t.Errorf("%d marks: a code, a sender and a tally are 3", s.Marks)
	}
	for _, key := range []string{"codea", "froma", "t"} {
		m.Forget(key)
	}
	if s := m.Stats(); s.Marks != 0 {
		t.Errorf("%d marks were not forgotten", s.Marks)
	}
}
