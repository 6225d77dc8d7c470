package escalation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

const tagOf = "0123456789abcdef0123"

// What an outcome's event says of its attempt is what the attempt's own said:
// it travels sealed, through the handler.
func TestAnOutcomeKnowsItsAttempt(t *testing.T) {
	w := newWorld(t)
	device := w.signIn("alice", "192.0.2.1", "")
	a := Attempt{Account: "alice", IP: "192.0.2.1", Device: device, PasswordBreached: true, PasswordTag: tagOf,
		UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", Channel: "web"}
	v := w.let(a)
	want := v.Trace
	if !want.KnownDevice || !want.Familiar || !want.Breached || want.UAClass != "firefox" || want.Tag == (Tag{}) ||
		want.AttemptID == ([16]byte{}) || want.DeviceID == ([16]byte{}) || want.TagBefore == (Tag{}) || v.Channel != "web" {
		t.Fatalf("the attempt is not known: %+v", want)
	}
	want.TagBefore = Tag{} // is not sealed
	r := w.report(v.Attempt, "alice", "failure", "")
	if r.Trace != want || r.IP != v.IP || r.Now.UnixMicro() != w.clock.Load() || r.Booked != keys.Failure {
		t.Errorf("the outcome says %+v, the attempt said %+v", r.Trace, want)
	}
	v = w.let(Attempt{Account: "alice", IP: "192.0.2.1", Device: device})
	r = w.report(v.Attempt, "alice", "success", device)
	if minted := w.g.c.Secrets.openDevice(DefaultRealm, r.Device); r.DeviceID != minted.entries[0].id {
		t.Error("a success does not say which device it minted")
	}
	if n := w.let(Attempt{Account: "bob", IP: "192.0.2.2"}); n.Tag != (Tag{}) || n.DeviceID != ([16]byte{}) || n.UAClass != "none" {
		t.Errorf("of an attempt that said nothing: %+v", n.Trace)
	}
}

// A repeated request is answered with the same attempt, and so is its trace.
func TestARepeatHasTheSameTrace(t *testing.T) {
	w := newWorld(t)
	a := Attempt{Account: "alice", IP: "192.0.2.1", PasswordTag: tagOf, UserAgent: "curl/8", RequestID: "r"}
	first, again := w.let(a), w.let(a)
	if !again.Replayed || again.Attempt != first.Attempt || again.Trace != first.Trace {
		t.Errorf("%+v, and then %+v", first.Trace, again.Trace)
	}
}

func TestNeededAndUsedRungs(t *testing.T) {
	w := newWorld(t)
	w.press("alice")
	v := w.try(Attempt{Account: "alice", IP: "192.0.2.1"})
	if v.Needed != keys.Verify || v.Used != keys.Allow || v.AttemptID != ([16]byte{}) {
		t.Errorf("refused: needed %v, used %v, attempt %x", v.Needed, v.Used, v.AttemptID)
	}
	v = w.let(Attempt{Account: "alice", IP: "192.0.2.1", Proof: w.solve(v, keys.Verify)})
	if v.Needed != keys.Verify || v.Used != keys.Verify {
		t.Errorf("with a code: needed %v, used %v", v.Needed, v.Used)
	}
	v = w.let(Attempt{Account: "bob", IP: "192.0.2.1"})
	if v.Needed != keys.Allow || v.Used != keys.Allow {
		t.Errorf("of nothing: needed %v, used %v", v.Needed, v.Used)
	}
}

// A password can be told again within its day and across one midnight, in its
// own realm, and no further.
func TestPasswordTagsLastADay(t *testing.T) {
	p := DefaultPolicy()
	p.Realms["other"] = &Realm{}
	w := newWorld(t, withPolicy(p))
	tag := func(a Attempt) Trace {
		a.Account, a.IP = "alice", "192.0.2.1"
		return w.try(a).Trace
	}
	w.clock.Store(20_000*keys.Day + keys.Day - 1)
	last := tag(Attempt{PasswordTag: tagOf})
	if again := tag(Attempt{PasswordTag: strings.ToUpper(tagOf)}); again.Tag != last.Tag {
		t.Error("the case of the digits makes another tag")
	}
	if o := tag(Attempt{PasswordTag: tagOf + "00"}); o.Tag == last.Tag {
		t.Error("two passwords have one tag")
	}
	if o := tag(Attempt{PasswordTag: tagOf, Realm: "other"}); o.Tag == last.Tag {
		t.Error("two realms have one tag")
	}
	w.pass(time.Microsecond)
	next := tag(Attempt{PasswordTag: tagOf})
	if next.Tag == last.Tag || next.TagBefore != last.Tag {
		t.Errorf("past midnight the tag is %x and was %x; before it, it was %x", next.Tag, next.TagBefore, last.Tag)
	}
	w.pass(24 * time.Hour)
	if o := tag(Attempt{PasswordTag: tagOf}); slices.Contains([]Tag{o.Tag, o.TagBefore}, last.Tag) {
		t.Error("a tag can be told again two days later")
	}
	for _, shown := range []Tag{last.Tag, last.TagBefore} {
		if string(shown[:]) == tagOf[:8] {
			t.Error("the handler's own tag is shown")
		}
	}
}

// A success that is held for a code has not happened yet.
func TestAHeldSuccessIsBookedAsWaiting(t *testing.T) {
	p, yes := DefaultPolicy(), true
	p.Realms[DefaultRealm] = &Realm{Breached: Breached{Verify: &yes}}
	w := newWorld(t, withPolicy(p))
	v := w.let(Attempt{Account: "alice", IP: "192.0.2.1", PasswordBreached: true})
	if r := w.report(v.Attempt, "alice", "success", ""); !r.Held || r.Outcome != keys.Success || r.Booked != keys.SecondFactorPending {
		t.Errorf("held %v, outcome %v, booked %v", r.Held, r.Outcome, r.Booked)
	}
}

func TestARealmCanBeQuiet(t *testing.T) {
	p, off := DefaultPolicy(), false
	p.Realms["quiet"] = &Realm{Events: &off}
	w := newWorld(t, withPolicy(p))
	for realm, quiet := range map[string]bool{DefaultRealm: false, "quiet": true} {
		v := w.let(Attempt{Account: "alice", IP: "192.0.2.1", Realm: realm})
		if r := w.report(v.Attempt, "alice", "failure", ""); v.Quiet != quiet || r.Quiet != quiet {
			t.Errorf("%s: the attempt is quiet: %v, the outcome: %v", realm, v.Quiet, r.Quiet)
		}
	}
}

// What the outcome says must not need more than a form can carry.
func TestAnAttemptOfAKnownDeviceTakesFromFewLimits(t *testing.T) {
	w := newWorld(t)
	device := w.signIn("alice", "2001:db8::1", "")
	v, err := w.g.Check(context.Background(), &Attempt{Account: "alice", IP: "2001:db8::1", Device: device, PasswordTag: tagOf})
	if err != nil || !v.KnownDevice {
		t.Fatal(v, err)
	}
	if n := len(w.g.c.Secrets.openAttempt(v.Attempt).took); n > 3 {
		t.Errorf("it took from %d limits; largestAttempt assumes 3", n)
	}
}

func TestUserAgentClasses(t *testing.T) {
	for ua, want := range map[string]string{
		"": "none",
		"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0":                                                                           "firefox",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36":                                  "chrome",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":                    "edge",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/124.0.0.0":                    "opera",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1":          "safari",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Mobile/15E148 Safari/604.1":           "chrome",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36":              "samsung",
		"Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/140.0.0.0 Mobile Safari/537.36": "app",
		"Shop/42 CFNetwork/3826.500.131 Darwin/24.5.0": "app",
		"okhttp/4.12.0":          "app",
		"curl/8.5.0":             "script",
		"python-requests/2.32.3": "script",
		"Go-http-client/1.1":     "script",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                                      "bot",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36": "bot",
		"Something new":                         "other",
		strings.Repeat("x", 8000) + "Firefox/1": "other",
	} {
		if got := UAClass(ua); got != want {
			t.Errorf("%.80q is %s, want %s", ua, got, want)
		}
		if !slices.Contains(UAClasses, UAClass(ua)) {
			t.Errorf("%.80q is of no listed class", ua)
		}
	}
}
