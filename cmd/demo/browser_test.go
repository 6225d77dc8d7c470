package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/guardd/guardd/api/browsertest"
	"github.com/guardd/guardd/api/client"
)

// owner is Alice at her phone, while d is attacked. She has no mouse.
type owner struct {
	*browsertest.Browser
	t *testing.T
	d *demo
}

func newOwner(t *testing.T, d *demo) *owner {
	t.Helper()
	return &owner{browsertest.Open(t), t, d}
}

// signIn returns the action that guardd answered.
func (o *owner) signIn(password string) string {
	o.t.Helper()
	o.Tab("#password")
	o.Leave(func() { o.Press(password + kb.Enter) })
	return o.Text("#action")
}

func (o *owner) expect(want, got string) {
	o.t.Helper()
	if want != got {
		o.Fail("guardd answers %q, want %q", got, want)
	}
}

// goOn follows the way that the shop shows to who is refused.
func (o *owner) goOn() {
	o.t.Helper()
	o.Fits()
	o.Tab("#go")
	o.Leave(func() { o.Press(kb.Enter) })
	o.Fits()
}

// back waits until the challenge's page has led back to the shop.
func (o *owner) back() {
	o.t.Helper()
	o.Reads("Now your password, please.")
}

// attacked presses the button, and waits until strangers meet the action.
func (o *owner) attacked(pays bool, action string) {
	o.t.Helper()
	if pays {
		o.Tab("[name=pays]")
		o.Press(" ")
	}
	o.Tab("#attack")
	o.Leave(func() { o.Press(kb.Enter) })
	await(o.t, "an attack that meets "+action, func() bool { return o.d.met(action) > 0 })
}

func (d *demo) met(action string) int64 {
	for _, a := range d.shop.attack.view().Answers {
		if a.Name == action {
			return a.N
		}
	}
	return 0
}

// solve types the digits of the picture on the page.
func (o *owner) solve() {
	o.t.Helper()
	o.Await("document.images[0]?.complete")
	// Drawn again, it is the same picture.
	digits := o.d.guard.readers.read(ask(o.t.Context(), http.MethodGet, o.Evaluate("document.images[0].src"), nil))
	if digits == "" {
		o.Fail("no picture")
	}
	o.Fill("#digits", digits[:3]+" "+digits[3:])
	o.back()
}

// confirm has a code sent and types it off the newest mail.
func (o *owner) confirm() {
	o.t.Helper()
	o.Tab("form[action*='/send'] button")
	o.Leave(func() { o.Press(kb.Enter) })
	await(o.t, "a mail with a code", func() bool { return o.d.newestCode() != "" })
	o.Fill("#code", strings.ToLower(o.d.newestCode()))
	o.back()
}

func (d *demo) newestCode() string {
	for _, m := range d.shop.inbox.all() {
		if m.To == alice && m.Code != "" {
			return m.Code
		}
	}
	return ""
}

// climb has her mistype up to the last rung, while strangers do what they can,
// and get in.
func (o *owner) climb(wait func()) {
	o.Visit(o.d.shop.url)
	action := o.signIn("wrong")
	for action == client.ActionAllow {
		o.Reads("Name or password is wrong.")
		action = o.signIn("wrong")
	}
	o.expect(client.ActionDelay, action)
	o.goOn()
	wait()
	o.back()
	o.expect(client.ActionAllow, o.signIn("wrong"))

	o.attacked(false, client.ActionCaptcha)
	o.expect(client.ActionCaptcha, o.signIn("wrong"))
	o.goOn()
	o.solve()
	o.expect(client.ActionAllow, o.signIn("wrong"))

	o.attacked(true, client.ActionVerify)
	o.expect(client.ActionVerify, o.signIn(right))
	o.goOn()
	o.confirm()
	o.expect(client.ActionAllow, o.signIn(right))
	o.Reads("Welcome, " + alice)
	o.Fits()
	if !o.d.shop.attack.view().Running {
		o.t.Error("the attack was over before she was in")
	}
}

func TestTheOwnerPassesEveryRungWhileAttacked(t *testing.T) {
	o := newOwner(t, openShop(t))
	o.climb(func() {}) // the page goes on by itself
}

func TestTheOwnerPassesEveryRungWhileAttackedWithoutJavaScript(t *testing.T) {
	o := newOwner(t, openShop(t))
	o.WithoutJavaScript()
	o.climb(func() {
		for !o.Is("location.search.includes('" + client.ReturnParameter + "=')") { // she presses until her time has come
			o.Tab("#wait button")
			o.Leave(func() { o.Press(kb.Enter) })
		}
	})
}

func TestAKnownDeviceIsAskedForNothingWhileASecondProfileIs(t *testing.T) {
	d := openShop(t)
	o := newOwner(t, d)
	o.Visit(d.shop.url)
	o.expect(client.ActionAllow, o.signIn(right))
	o.Visit(d.shop.url)
	o.Reads("This browser is a known device.")
	o.attacked(true, client.ActionVerify)

	second := newOwner(t, d)
	second.Visit(d.shop.url)
	second.Reads("This browser is not known.")
	second.expect(client.ActionVerify, second.signIn(right))

	o.expect(client.ActionAllow, o.signIn(right))
	o.Reads("Welcome, " + alice)
	if known := o.Text("#known"); known != "true" {
		o.Fail("known_device is %q", known)
	}
	if !d.shop.attack.view().Running {
		t.Error("the attack was over before she was in")
	}
}

// Strangers can have codes sent, and the button for it is not theirs to wear out.
func TestStrangersPressSendAThousandTimesAndTheOwnerGetsIn(t *testing.T) {
	d := openShop(t)
	o := newOwner(t, d)
	d.shop.attack.begin(alice, true)
	await(t, "an account that asks for a code", func() bool { return d.met(client.ActionVerify) > 0 })
	d.shop.attack.stop()

	const presses = 1000
	var stranger *client.AttemptResponse
	answered := 0
	for n := range presses {
		if n%100 == 0 {
			stranger = d.refused(t, addressOf(int64(7000+n)))
		}
		if body := ask(context.Background(), http.MethodPost, stranger.Challenge.Page+"/send", client.SendRequest{}); strings.Contains(string(body), `"valid_until"`) {
			answered++
		}
	}
	if answered != presses {
		t.Errorf("%d of %d presses were answered", answered, presses)
	}
	codes := 0
	for _, m := range d.shop.inbox.all() {
		if m.Code != "" {
			codes++
		}
	}
	if codes == 0 || codes > 8 {
		t.Errorf("%d mails", codes)
	}
	o.Visit(d.shop.url)
	o.expect(client.ActionVerify, o.signIn(right))
	o.goOn()
	o.confirm()
	o.expect(client.ActionAllow, o.signIn(right))
	o.Reads("Welcome, " + alice)
}
