package keys

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// post is everything that was mailed, and what came of it.
type post struct {
	mail
	at              int64 // a serial is a time too: two in one microsecond are one apart
	account, from   int
	to              int  // account; that is -1 where it is only a try of the newest
	paid, again     bool // again: of a code known to have been delivered
	spent, returned bool
	tried           int64
	arrived         bool // and the store knows
}

type mail = Code

// postOffice is a twin whose mails are booked apart, by the words of the
// contract and not by the twin's own means.
type postOffice struct {
	*Memory
	t     *rapid.T
	now   int64
	posts []*post
	tries int
}

const strangers, victims = 4, 5

func newPostOffice(t *rapid.T) *postOffice {
	o := &postOffice{t: t, now: 1_800_000_000 * Second}
	o.Memory = NewMemory(MemoryConfig{Now: func() int64 { return o.now }})
	return o
}

func codeKey(account int) string { return fmt.Sprint("code", account) }

// newest is the last code mailed to the account and not returned, nil for none.
func (o *postOffice) newest(account int) *post {
	for i := len(o.posts) - 1; i >= 0; i-- {
		if p := o.posts[i]; p.account == account && !p.again {
			if p.returned {
				return nil // the one before had died before this was sent
			}
			return p
		}
	}
	return nil
}

func (o *postOffice) livesNow(account int) *post {
	if p := o.newest(account); p != nil && !p.spent && o.now < p.Until {
		return p
	}
	return nil
}

// lately counts the mails of the last 24 hours that which says yes to.
func (o *postOffice) lately(which func(*post) bool) (n int) {
	for _, p := range o.posts {
		if o.now-p.at < Day && !p.returned && which(p) {
			n++
		}
	}
	return n
}

// sentFor is the accounts that mail was sent to, for nothing, from an address in
// the last 24 hours. What was returned counts too: it is a try.
func (o *postOffice) sentFor(from int) map[int]bool {
	accounts := map[int]bool{}
	for _, p := range o.posts {
		if p.from == from && !p.paid && o.now-p.Sent < Day {
			accounts[p.to] = true
		}
	}
	return accounts
}

// press asks for a code, and holds the answer to the contract.
func (o *postOffice) press(account, from int, solved bool) {
	t := o.t
	o.tries++
	ask := CodeAsk{Key: codeKey(account), SenderKey: fmt.Sprint("from", from), Account: Account{byte(account)}}
	if solved {
		ask.Proof = Proof{Key: fmt.Sprint("image", o.tries), Rung: Captcha, Issued: o.now, Expires: o.now + 300*Second, Uses: 1}
	}
	others := o.sentFor(from)
	priced := len(others) >= 3 && !others[account]
	resends := o.lately(func(p *post) bool { return p.account == account && p.again })
	live := o.livesNow(account)
	want := CodeSent
	switch {
	case live != nil && solved && (!live.arrived || resends < 3):
		want = CodeAgain
	case priced && !solved:
		want = CodePriced
	case live != nil && !live.arrived && o.now-live.tried >= 900*Second:
		want = CodeAgain
	case live != nil:
		want = CodeLives
	}
	n := 1 + o.lately(func(p *post) bool { return p.account == account && !p.again })

	var ans CodeAnswer
	if err := o.SendCode(context.Background(), &ask, &ans); err != nil {
		t.Fatal(err)
	}
	if ans.State != want {
		t.Fatalf("a press answers %s, not %s", ans.State, want)
	}
	usedUp := solved && (want == CodeAgain || want == CodeSent && priced)
	if usedUp != (ans.Proof == ProofUsed) {
		t.Fatalf("%s: the image is in state %d", want, ans.Proof)
	}
	if solved {
		var again CodeAnswer
		ask.Key, ask.SenderKey = "another", "newcomer" // same image, where nothing needs it
		if err := o.SendCode(context.Background(), &ask, &again); err != nil || (again.Proof == ProofSpent) != usedUp {
			t.Fatalf("the image is in state %d afterwards (%v); used up: %v", again.Proof, err, usedUp)
		}
		o.Forget("another")
		o.Forget("newcomer")
	}
	switch want {
	case CodeSent:
		if ans.Code.Nth != min(n, sendsKept) || ans.Code.Sent != o.now || ans.Code.Until != o.now+CodeLife(n) {
			t.Fatalf("mail %d within 24 hours is %+v", n, ans.Code)
		}
		for _, p := range o.posts {
			if p.account == account && p.Serial >= ans.Code.Serial {
				t.Fatalf("serial %d comes after %d", ans.Code.Serial, p.Serial)
			}
		}
	case CodeAgain, CodeLives:
		if ans.Code != live.mail {
			t.Fatalf("%s: %+v, but %+v lives", want, ans.Code, live.mail)
		}
	case CodePriced:
		if ans.Code != (Code{}) {
			t.Fatalf("a priced press learns of %+v", ans.Code)
		}
	}
	switch {
	case want == CodeAgain && !live.arrived:
		live.tried = o.now
		if !usedUp { // it counts as its sender's
			o.posts = append(o.posts, &post{mail: Code{Sent: o.now}, account: -1, from: from, to: account})
		}
	case want == CodeSent || want == CodeAgain:
		p := &post{mail: ans.Code, at: ans.Code.Serial, account: account, to: account, from: from, paid: usedUp, again: want == CodeAgain, tried: o.now}
		if p.again {
			p.at = o.now
		}
		o.posts = append(o.posts, p)
	}
}

// spend is the owner typing the newest mail's code (twice).
func (o *postOffice) spend(account int) {
	p := o.newest(account)
	if p == nil {
		return
	}
	was := o.livesNow(account) != nil
	for _, good := range []bool{was, false} {
		got, err := o.SpendCode(context.Background(), codeKey(account), p.Serial, 0)
		if err != nil || got != good {
			o.t.Fatalf("spending the newest mail's code: %v (%v), not %v", got, err, good)
		}
	}
	p.spent = p.spent || was
}

// giveBack is the mail server refusing the newest mail.
func (o *postOffice) giveBack(account int) {
	p := o.newest(account)
	if p == nil {
		return
	}
	if err := o.UnsendCode(context.Background(), codeKey(account), p.Serial, 0); err != nil {
		o.t.Fatal(err)
	}
	p.returned = p.returned || !p.spent && !p.arrived
}

// arrive is the newest mail known to have been delivered.
func (o *postOffice) arrive(account int) {
	p := o.newest(account)
	if p == nil {
		return
	}
	if err := o.ConfirmCode(context.Background(), codeKey(account), p.Serial, 0); err != nil {
		o.t.Fatal(err)
	}
	p.arrived = true
}

// check holds what must be so at any time.
func (o *postOffice) check() {
	for a := range victims {
		unused := o.lately(func(p *post) bool { return p.account == a && !p.again && !p.spent })
		again := o.lately(func(p *post) bool { return p.account == a && p.again })
		if unused > 7 || again > 3 {
			o.t.Fatalf("in 24 hours %d mails were not used, and %d sent again", unused, again)
		}
		live, err := o.LiveCode(context.Background(), codeKey(a), 0)
		if err != nil {
			o.t.Fatal(err)
		}
		if p := o.livesNow(a); p == nil && live != (Code{}) || p != nil && live != p.mail {
			o.t.Fatalf("%+v lives, the newest mail is %+v", live, p)
		}
	}
	for s := range strangers {
		if reached := o.sentFor(s); len(reached) > 3 {
			o.t.Fatalf("one address had mail sent to %d accounts for nothing", len(reached))
		}
	}
}

// wait lets time pass as suits who watches the clock.
func (o *postOffice) wait() {
	d := rapid.SampledFrom([]int64{0, 1, 60 * Second, 3600 * Second, 5 * 3600 * Second, 16*3600*Second + 1800*Second, Day - 1, Day}).Draw(o.t, "wait")
	if a := rapid.IntRange(0, victims).Draw(o.t, "until over"); a < victims {
		if p := o.livesNow(a); p != nil {
			d = p.Until - o.now - rapid.Int64Range(0, 1).Draw(o.t, "early")
		}
	}
	o.now += d
}

// Promise: verification is neither a mail bomb nor a lockout.
func TestPropertyMails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newPostOffice(t)
		few := rapid.IntRange(1, victims).Draw(t, "accounts")
		account := rapid.IntRange(0, few-1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch a := account.Draw(t, "account"); rapid.IntRange(0, 11).Draw(t, "deed") {
			case 0:
				o.spend(a)
			case 1:
				o.giveBack(a)
			case 5, 6:
				o.arrive(a)
			case 2, 3:
				o.wait()
			case 4:
				o.press(a, rapid.IntRange(0, strangers-1).Draw(t, "from"), true)
			default:
				o.press(a, rapid.IntRange(0, strangers-1).Draw(t, "from"), false)
			}
			o.check()
		}
		// The owner presses from where nobody has, at any time: there is a mail that
		// holds a live code, and it gets her in.
		for a := range few {
			o.press(a, strangers+a, false)
			if p := o.livesNow(a); p == nil {
				t.Fatal("no mail holds a live code")
			}
			o.spend(a)
			if p := o.newest(a); !p.spent {
				t.Fatal("the newest mail did not let the owner in")
			}
		}
	})
}

// A stranger who never sleeps gets the most mails there are; one who knows when
// a count from the first mail would begin anew gets no more.
func TestStrangersMailsInAnyDay(t *testing.T) {
	const minute = 60 * Second
	hasty := func(int64) int64 { return 0 }
	patient := func(since int64) int64 { // one press, then nothing until the 17th hour
		return max(16*60*minute+30*minute-since, 0)
	}
	for name, idle := range map[string]func(int64) int64{"hasty": hasty, "patient": patient} {
		now := 1_800_000_000 * Second
		m := NewMemory(MemoryConfig{Now: func() int64 { return now }})
		start, most := now, 0
		var sent []int64
		for presses := 0; presses < 1000 || now < start+5*Day; presses++ {
			var ans CodeAnswer
			if err := m.SendCode(t.Context(), &CodeAsk{Key: "code", SenderKey: fmt.Sprint(presses)}, &ans); err != nil {
				t.Fatal(err)
			}
			if ans.State == CodeSent {
				sent = append(sent, now)
				if err := m.ConfirmCode(t.Context(), "code", ans.Code.Serial, 0); err != nil {
					t.Fatal(err)
				}
			} else if ans.State != CodeLives {
				t.Fatal(ans.State)
			}
			within := 0
			for _, s := range sent {
				if now-s < Day {
					within++
				}
			}
			most = max(most, within)
			now += 5 * minute
			if len(sent) == 1 {
				now += idle(now - start)
			}
		}
		if most > 7 || name == "hasty" && most != 7 {
			t.Errorf("a %s stranger caused %d mails in one day", name, most)
		}
	}
}
