package escalation

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// TestBadRequests is the score sheet of what is refused as a request.
func TestBadRequests(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{"default": {ReturnOrigins: []string{"https://app.example.com"}}}}
	w := newWorld(t, withPolicy(p))
	for name, c := range map[string]struct {
		change func(*Attempt)
		field  string
		reason string
	}{
		"no account":             {func(a *Attempt) { a.Account = "" }, "account", "empty"},
		"blank account":          {func(a *Attempt) { a.Account = " \u00ad\u200b " }, "account", "empty"},
		"NUL account":            {func(a *Attempt) { a.Account = "a\x00b" }, "account", "control"},
		"account of 4 KiB":       {func(a *Attempt) { a.Account = strings.Repeat("a", 4096) }, "account", "too_long"},
		"account not UTF-8":      {func(a *Attempt) { a.Account = "a\xff" }, "account", "invalid_utf8"},
		"no address":             {func(a *Attempt) { a.IP = "" }, "ip", "empty"},
		"a list":                 {func(a *Attempt) { a.IP = "192.0.2.1, 192.0.2.2" }, "ip", "list"},
		"a name":                 {func(a *Attempt) { a.IP = "localhost" }, "ip", "not_an_address"},
		"unknown realm":          {func(a *Attempt) { a.Realm = "shop" }, "realm", "unknown"},
		"unknown flow":           {func(a *Attempt) { a.Flow = "logon" }, "flow", "unknown"},
		"long request id":        {func(a *Attempt) { a.RequestID = strings.Repeat("a", 129) }, "request_id", "too_long"},
		"request id in control":  {func(a *Attempt) { a.RequestID = "a\nb" }, "request_id", "control"},
		"request id not UTF-8":   {func(a *Attempt) { a.RequestID = "a\xff" }, "request_id", "invalid_utf8"},
		"short tag":              {func(a *Attempt) { a.PasswordTag = strings.Repeat("a", 15) }, "password_tag", "too_short"},
		"long tag":               {func(a *Attempt) { a.PasswordTag = strings.Repeat("a", 65) }, "password_tag", "too_long"},
		"tag of words":           {func(a *Attempt) { a.PasswordTag = "not hexadecimal!" }, "password_tag", "not_hex"},
		"long channel":           {func(a *Attempt) { a.Channel = strings.Repeat("a", 65) }, "channel", "too_long"},
		"long user agent":        {func(a *Attempt) { a.UserAgent = strings.Repeat("a", 8193) }, "user_agent", "too_long"},
		"answer alone":           {func(a *Attempt) { a.Answer = "fish" }, "challenge", "missing"},
		"challenge alone":        {func(a *Attempt) { a.Challenge = "token" }, "answer", "missing"},
		"answer and proof":       {func(a *Attempt) { a.Challenge, a.Answer, a.Proof = "t", "fish", "p" }, "proof", "not_with_challenge"},
		"return elsewhere":       {func(a *Attempt) { a.ReturnURL = "https://evil.example/" }, "return_url", "not_allowed"},
		"return to a look-alike": {func(a *Attempt) { a.ReturnURL = "https://app.example.com.evil.example/" }, "return_url", "not_allowed"},
		"return by user":         {func(a *Attempt) { a.ReturnURL = "https://app.example.com@evil.example/" }, "return_url", "not_allowed"},
		"return by backslash":    {func(a *Attempt) { a.ReturnURL = `https://app.example.com\@evil.example/` }, "return_url", "not_allowed"},
		"return by path trick":   {func(a *Attempt) { a.ReturnURL = "https://app.example.com/\\evil.example" }, "return_url", "not_allowed"},
		"return by port":         {func(a *Attempt) { a.ReturnURL = "https://app.example.com:444/" }, "return_url", "not_allowed"},
		"return, other scheme":   {func(a *Attempt) { a.ReturnURL = "http://app.example.com/" }, "return_url", "not_allowed"},
		"return by header":       {func(a *Attempt) { a.ReturnURL = "https://app.example.com/\r\nX: y" }, "return_url", "not_allowed"},
		"return to no URL":       {func(a *Attempt) { a.ReturnURL = "https://app.example.com/%zz" }, "return_url", "not_allowed"},
		"return too far":         {func(a *Attempt) { a.ReturnURL = "https://app.example.com/" + strings.Repeat("a", 400) }, "return_url", "too_long"},
	} {
		a := Attempt{Account: alice, IP: home}
		c.change(&a)
		v, err := w.g.Check(context.Background(), &a)
		var f Faults
		if v != nil || !errors.As(err, &f) || len(f) != 1 || f[0] != (FieldFault{c.field, c.reason}) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.field, c.reason)
		}
	}
	_, err := w.g.Check(context.Background(), &Attempt{Realm: "x", Flow: "y", PasswordTag: "z"})
	for _, f := range []string{"account", "ip", "realm", "flow", "password_tag"} {
		wantFault(t, err, f, "")
	}
	good := Attempt{
		Account: alice, IP: "[2001:db8::1%eth0]:443", RequestID: strings.Repeat("a", 128), PasswordTag: strings.Repeat("aF", 8),
		ReturnURL: "https://app.example.com/login?next=/a#b", Channel: "web", UserAgent: strings.Repeat("M", 4000),
	}
	w.let(good)
}

func TestTheReturnURLTravelsSealed(t *testing.T) {
	w := newWorld(t, withPolicy(&Policy{Realms: map[string]*Realm{"default": {ReturnOrigins: []string{"https://app.example.com"}}}}))
	w.at(alice, home, keys.Captcha)
	v := w.try(Attempt{Account: alice, IP: home, ReturnURL: "https://app.example.com/login"})
	if c := w.c.Secrets.openChallenge(v.Challenge.Token); c.returnURL != "https://app.example.com/login" {
		t.Errorf("sealed %q", c.returnURL)
	}
}

func TestARepeatedRequestGetsTheFirstAllow(t *testing.T) {
	w := newWorld(t)
	a := Attempt{Account: alice, IP: home, RequestID: "req 1", PasswordBreached: true}
	first := w.let(a)
	w.pass(30 * time.Second)
	again := w.let(a)
	if !again.Replayed {
		t.Error("not marked as replayed")
	}
	again.Replayed = false
	if !reflect.DeepEqual(first, again) {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	for name, change := range map[string]func(*Attempt){
		"account": func(a *Attempt) { a.Account = bobs }, "ip": func(a *Attempt) { a.IP = "192.0.2.8" },
		"proof": func(a *Attempt) { a.Proof = "x" }, "device": func(a *Attempt) { a.Device = "x" },
		"breached": func(a *Attempt) { a.PasswordBreached = false }, "channel": func(a *Attempt) { a.Channel = "x" },
		"user agent": func(a *Attempt) { a.UserAgent = "x" }, "tag": func(a *Attempt) { a.PasswordTag = strings.Repeat("a", 16) },
		"challenge": func(a *Attempt) { a.Challenge, a.Answer = "x", "y" },
	} {
		b := a
		change(&b)
		if _, err := w.g.Check(context.Background(), &b); !errors.Is(err, ErrConflict) {
			t.Errorf("another %s under the same id: %v, want ErrConflict", name, err)
		}
	}
	// Another flow's ids are others; so are those of a minute ago.
	b := a
	b.Flow, b.Account = "otp", bobs
	w.let(b)
	w.pass(30 * time.Second)
	if v := w.let(a); v.Replayed || v.Attempt == first.Attempt {
		t.Error("replayed after a minute")
	}
}

// TestTheStoresClockIsLearned by a guard that has none of its own, and not from
// an answer that is told again.
func TestTheStoresClockIsLearned(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Now = nil })
	near := func(want int64) bool { d := w.g.now() - want; return d >= 0 && d < 10*60e6 }
	a := Attempt{Account: alice, IP: home, RequestID: "req 1"}
	w.let(a)
	if !near(t0) {
		t.Errorf("knows %d, the store has %d", w.g.now(), t0)
	}
	w.pass(24 * time.Hour)
	w.let(Attempt{Account: bobs, IP: home})
	w.pass(-24 * time.Hour)
	if v := w.let(a); !v.Replayed || !near(t0+keys.Day) {
		t.Errorf("replayed %v: knows %d", v.Replayed, w.g.now())
	}
}

func TestARefusalIsJudgedAnew(t *testing.T) {
	w := newWorld(t)
	v := w.at(alice, home, keys.Captcha)
	a := Attempt{Account: alice, IP: home, RequestID: "req 1"}
	if v := w.try(a); v.Action != ActionCaptcha {
		t.Fatalf("%s", v.Action)
	}
	a.Proof = w.solve(v, keys.Captcha) // another body, but nothing was allowed yet
	w.let(a)
	if v := w.let(a); !v.Replayed {
		t.Error("the proof was asked for twice")
	}
}

func TestTwoHundredParallelGuesses(t *testing.T) {
	w := newWorld(t)
	var let, attempts atomic.Int64
	var seen sync.Map
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			v, err := w.g.Check(context.Background(), &Attempt{Account: alice, IP: home})
			if err != nil {
				t.Error(err)
				return
			}
			if v.Proceed {
				let.Add(1)
				if _, twice := seen.LoadOrStore(v.Attempt, true); !twice {
					attempts.Add(1)
				}
			}
		})
	}
	all.Wait()
	if let.Load() != 3 || attempts.Load() != 3 {
		t.Errorf("%d guesses with %d attempts, want 3", let.Load(), attempts.Load())
	}
}

// TestAProofIsNotOutrun: one captcha proof, shown by 200 at once, is one guess.
func TestAProofIsNotOutrun(t *testing.T) {
	w := newWorld(t)
	proof := w.solve(w.at(alice, home, keys.Captcha), keys.Captcha)
	var let atomic.Int64
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			v, err := w.g.Check(context.Background(), &Attempt{Account: alice, IP: home, Proof: proof})
			if err != nil {
				t.Error(err)
			} else if v.Proceed {
				let.Add(1)
			}
		})
	}
	all.Wait()
	if let.Load() != 1 {
		t.Errorf("%d guesses, want 1", let.Load())
	}
}

func TestAClockThatStepsBackForgivesAndPunishesNobody(t *testing.T) {
	w := newWorld(t)
	w.at(alice, home, keys.Captcha)
	w.pass(-time.Hour)
	if v := w.try(Attempt{Account: alice, IP: home}); v.Action != ActionCaptcha {
		t.Errorf("an hour back: %s", v.Action)
	}
	w.let(Attempt{Account: bobs, IP: "203.0.113.1"})
	w.pass(time.Hour + 10*time.Minute) // what time really passed
	w.let(Attempt{Account: alice, IP: home})
}

func TestAClockThatWasFarAheadLocksNobodyOut(t *testing.T) {
	w := newWorld(t)
	w.pass(10 * 365 * 24 * time.Hour)
	w.at(alice, home, keys.Captcha)
	w.pass(-10 * 365 * 24 * time.Hour)
	if v := w.try(Attempt{Account: alice, IP: home}); v.Action != ActionCaptcha {
		t.Errorf("mended: %s, what was spent is forgotten", v.Action)
	}
	w.let(Attempt{Account: alice, IP: home, Proof: w.solve(w.try(Attempt{Account: alice, IP: home}), keys.Verify)})
	w.pass(4 * 24 * time.Hour)
	w.let(Attempt{Account: alice, IP: home})
}

// TestAnUnknownAccountGetsWhatAKnownOneGets that never signed in from there.
func TestAnUnknownAccountGetsWhatAKnownOneGets(t *testing.T) {
	w, x := newWorld(t), newWorld(t)
	x.signIn(alice, "203.0.113.1", "") // known, elsewhere
	x.pass(24 * time.Hour)
	w.pass(24 * time.Hour)
	for i := range 15 {
		a, b := w.try(Attempt{Account: alice, IP: home}), x.try(Attempt{Account: alice, IP: home})
		if (a.Challenge == nil) != (b.Challenge == nil) || len(a.Attempt) != len(b.Attempt) {
			t.Fatalf("guess %d: %+v and %+v", i, a, b)
		}
		pa, pb := "", ""
		if a.Challenge != nil {
			if len(a.Challenge.Token) != len(b.Challenge.Token) {
				t.Errorf("guess %d: tokens of %d and %d", i, len(a.Challenge.Token), len(b.Challenge.Token))
			}
			pa, pb = w.solve(a, keys.Verify), x.solve(b, keys.Verify)
			for _, c := range []*Challenge{a.Challenge, b.Challenge} {
				for _, s := range []*string{&c.Page, &c.Image, &c.Audio} {
					*s = strings.ReplaceAll(*s, c.Token, "token")
				}
				c.Token = ""
			}
		}
		a.Attempt, b.Attempt, a.AttemptID, b.AttemptID = "", "", [16]byte{}, [16]byte{}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("guess %d: unknown %+v\nknown %+v", i, a, b)
		}
		if pa != "" {
			w.let(Attempt{Account: alice, IP: home, Proof: pa})
			x.let(Attempt{Account: alice, IP: home, Proof: pb})
		}
	}
}

func TestOperatorsLists(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{"default": {Lists: Lists{
		Allow: []ListEntry{{CIDR: "192.0.2.0/24"}}, Deny: []ListEntry{{CIDR: "192.0.2.66"}},
	}}}}
	for name, c := range map[string]func(*Config){"enforced": func(*Config) {}, "shadow": shadow} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withPolicy(p), c)
			device := w.signIn(alice, home, "")
			v := w.try(Attempt{Account: alice, IP: "192.0.2.66", Device: device})
			if v.Would != ActionDeny || !slices.Equal(v.Reasons, []string{ReasonListDeny}) || v.Challenge != nil || v.Tiers == nil || len(v.Tiers) != 0 {
				t.Errorf("denied: %+v", v)
			}
			if v.Proceed != w.c.Shadow || (v.Attempt != "") != w.c.Shadow {
				t.Errorf("denied: proceeds %v with %q", v.Proceed, v.Attempt)
			}
		})
	}
	w := newWorld(t, withPolicy(p))
	for i := range 700 { // more than ip, network or flood hold
		v := w.let(Attempt{Account: fmt.Sprint("employee ", i), IP: home})
		if !slices.Equal(v.Reasons, []string{ReasonListAllow}) || len(v.Tiers) != 4 {
			t.Fatalf("allowed: %v, %v", v.Reasons, v.Tiers)
		}
	}
	w.at(alice, home, keys.Verify) // the account is guarded all the same
}

func TestShadowTellsAndEnforcesNothing(t *testing.T) {
	w := newWorld(t, shadow)
	var would []Action
	for range 12 {
		v := w.try(Attempt{Account: alice, IP: home})
		if v.Action != ActionAllow || !v.Proceed || !v.Shadow || v.Attempt == "" || v.Challenge != nil || v.RetryAfter != 0 {
			t.Fatalf("%+v", v)
		}
		would = append(would, v.Would)
	}
	want := []Action{"allow", "allow", "allow", "delay", "delay", "captcha", "captcha", "captcha", "captcha", "captcha", "verify", "verify"}
	if !slices.Equal(would, want) {
		t.Errorf("would %v, want %v", would, want)
	}
	// No proof is spent.
	p := w.g.prove(&challengeToken{scope: scope{"default", 0}, rung: keys.Captcha, id: [16]byte{1}, account: w.try(Attempt{Account: bobs, IP: home}).Account, issued: t0, born: t0, expires: t0 + 1}, keys.Captcha)
	proof := w.c.Secrets.seal(forProof, p.encode())
	for range 8 {
		if v := w.try(Attempt{Account: bobs, IP: home, Proof: proof}); v.Would != ActionAllow {
			t.Errorf("would %s, %q", v.Would, v.ProofError)
		}
	}
}

// failing is a store that is gone, or always late.
type failing struct {
	*keys.Memory
	err error
}

func (f failing) Take(_ context.Context, _ *keys.Ask, ans *keys.Answer) error {
	*ans = keys.Answer{Status: keys.Late}
	return f.err
}

func (f failing) Give(_ context.Context, _ *keys.Return, rcp *keys.Receipt) error {
	*rcp = keys.Receipt{Status: keys.Late}
	return f.err
}

func (f failing) Revoke(context.Context, string, int64, int64) (int64, error) { return 0, f.err }

func TestABareStoresFailureIsAnError(t *testing.T) {
	for _, gone := range []error{errors.New("gone"), nil} {
		w := newWorld(t)
		v := w.let(Attempt{Account: alice, IP: home})
		c := w.c
		c.Store = failing{w.store, gone}
		c.Records = failing{w.store, gone}
		g := w.guard(c)
		if _, err := g.Check(context.Background(), &Attempt{Account: alice, IP: home}); !errors.Is(err, ErrStore) {
			t.Errorf("check: %v", err)
		}
		if _, err := g.Report(context.Background(), &Report{Attempt: v.Attempt, Account: alice, Outcome: "failure"}, nil); !errors.Is(err, ErrStore) {
			t.Errorf("report: %v", err)
		}
		if err := g.Revoke(context.Background(), "", alice); gone != nil && !errors.Is(err, ErrStore) {
			t.Errorf("revoke: %v", err)
		}
	}
	w := newWorld(t)
	wantFault(t, w.g.Revoke(context.Background(), "shop", alice), "realm", "unknown")
	wantFault(t, w.g.Revoke(context.Background(), "", ""), "account", "empty")
}
