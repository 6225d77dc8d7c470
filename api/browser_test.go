package api_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/browsertest"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/captcha"
)

// town is a shop with a login, guardd beside it, and a mailbox: all that a
// visitor with a browser meets. The clock is the test's.
type town struct {
	t     *testing.T
	guard *escalation.Guard
	shop  string // the shop's address
	clock *clock
	also  http.HandlerFunc // the shop's other pages

	mu     sync.Mutex
	digits string   // of the picture that was drawn last
	mails  []string // codes
}

const rightPassword = "correct horse"

// newTown guards the shop so that each guess meets the next rung: a first one
// is free, then wait, picture, code.
func newTown(t *testing.T, providers ...escalation.Provider) *town {
	t.Helper()
	w := &town{t: t, clock: newClock(), also: http.NotFound}
	shop := httptest.NewServer(http.HandlerFunc(w.login))
	t.Cleanup(shop.Close)
	w.shop = shop.URL
	guardd := httptest.NewUnstartedServer(nil)

	four := int64(4)
	policy := escalation.DefaultPolicy()
	realm := policy.Realms["default"]
	realm.ReturnOrigins = []string{shop.URL}
	realm.Flows = map[string]*escalation.Flow{"login": {Limits: []escalation.Limit{
		{Tier: "account", Name: "burst", Capacity: &four, Delay: percent(t, "80%"), Captcha: percent(t, "60%"), Verify: percent(t, "35%")},
	}}}
	w.guard = realGuard(t, func(c *escalation.Config) {
		c.Policy, c.Now = policy, w.clock.now.Load
		c.Renderer, c.Deliver = (*peeker)(w), map[string]escalation.Deliverer{"default": (*mailbox)(w), "shop": (*mailbox)(w)}
		c.Providers = map[string][]escalation.Provider{"default": providers}
		c.PublicURL = "http://" + guardd.Listener.Addr().String()
	})
	t.Cleanup(func() { w.guard.Close(context.Background()) })
	guardd.Config = api.NewServer(api.Challenges(api.Config{Challenger: w.guard, PublicURL: "http://" + guardd.Listener.Addr().String()}), nil)
	guardd.Start()
	t.Cleanup(guardd.Close)
	return w
}

func percent(t *testing.T, text string) (p escalation.Percent) {
	t.Helper()
	if err := p.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

// login is what a shop has to do: ask, send a refused visitor to the page that
// the challenge names, and carry the proof that he comes back with.
func (w *town) login(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/login" {
		w.also(rw, r)
		return
	}
	say := ""
	if r.Method == http.MethodPost {
		v, err := w.guard.Check(r.Context(), &escalation.Attempt{Account: r.PostFormValue("user"), IP: "192.0.2.1",
			Proof: r.PostFormValue("proof"), ReturnURL: w.shop + "/login?user=" + url.QueryEscape(r.PostFormValue("user"))})
		switch {
		case err != nil:
			w.t.Errorf("check: %v", err)
		case !v.Proceed:
			http.Redirect(rw, r, v.Challenge.Page, http.StatusSeeOther)
			return
		case r.PostFormValue("password") != rightPassword:
			say = "The password is wrong."
		default:
			say = "Welcome back."
		}
	}
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(rw, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><title>Shop</title><h1>Shop</h1><p>%s<form method="post" action="/login">
<input type="hidden" name="proof" value="%s"><label>User <input name="user" value="%s"></label>
<label>Password <input name="password" type="password" id="password"></label><button>Sign in</button></form>`,
		say, html.EscapeString(r.URL.Query().Get(client.ReturnParameter)), html.EscapeString(r.FormValue("user")))
}

// peeker draws as guardd does, and remembers what: a test cannot read it off.
type peeker town

var draw = new(captcha.Renderer)

func (w *peeker) saw(digits []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digits = ""
	for _, d := range digits {
		w.digits += string('0' + rune(d))
	}
}

func (w *peeker) Image(id string, digits []byte) (*escalation.Media, error) {
	w.saw(digits)
	return draw.Image(id, digits)
}

func (w *peeker) Audio(id string, digits []byte, lang string) (*escalation.Media, error) {
	w.saw(digits)
	return draw.Audio(id, digits, lang)
}

// mailbox is the account owner's.
type mailbox town

func (w *mailbox) Deliver(_ context.Context, m *escalation.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Kind == escalation.MessageCode {
		w.mails = append(w.mails, m.Code)
	}
	return nil
}

func (w *town) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.digits
}

// code waits for the n-th mail.
func (w *town) code(n int) string {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); ; {
		w.mu.Lock()
		mails := w.mails
		w.mu.Unlock()
		if len(mails) >= n {
			return mails[n-1]
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("mail %d never came", n)
		}
	}
}

// signIn tries a password, by keyboard.
func (w *town) signIn(b *browsertest.Browser, password string) {
	w.t.Helper()
	b.Fill("#password", password)
}

// climb has a visitor type wrong passwords up to the last rung, pass each, and
// get in at last.
func (w *town) climb(b *browsertest.Browser, wait func()) {
	b.Visit(w.shop + "/login?user=alice")
	w.signIn(b, "wrong 1")
	b.Reads("The password is wrong.")

	w.signIn(b, "wrong 2")
	b.Reads("You can continue")
	b.Fits()
	b.Shoot("wait")
	wait()
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
	w.signIn(b, "wrong 2")
	b.Reads("The password is wrong.")

	w.signIn(b, "wrong 3")
	b.Reads("Type the digits")
	b.Await("document.images[0].complete")
	b.Fits()
	b.Shoot("captcha")
	b.Fill("#digits", "0")
	b.Reads("That was not right.")
	b.Await("document.images[0].complete && document.activeElement.id == 'digits'")
	b.Shoot("wrong")
	b.Tab("[name=another]")
	first := w.seen()
	b.Press(" ")
	b.Reads("Here is another picture.")
	b.Await("document.images[0].complete")
	if again := w.seen(); again == first {
		b.Fail("the same picture again: %s", again)
	}
	digits := w.seen()
	b.Fill("#digits", digits[:3]+" "+digits[3:])
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
	w.signIn(b, "wrong 3")
	b.Reads("The password is wrong.")

	w.signIn(b, "wrong 4")
	b.Reads("We send a code")
	b.Fits()
	b.Shoot("verify")
	b.Tab("form[action*='/send'] button")
	b.Press(kb.Enter)
	b.Reads("a code is on its way")
	b.Await("document.activeElement.id == 'code'")
	b.Shoot("sent")
	code := w.code(1)
	b.Fill("#code", "not the code")
	b.Reads("The code was not right.")
	b.Fill("#code", " "+strings.ToLower(code[:5])+" "+code[5:])
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
	w.signIn(b, rightPassword)
	b.Reads("Welcome back.")
}

func TestAVisitorPassesEveryRungByKeyboardOnAPhone(t *testing.T) {
	b, w := browsertest.Open(t), newTown(t)
	w.climb(b, func() { w.clock.forward(2 * time.Second) }) // the page goes on by itself
}

func TestAVisitorPassesEveryRungWithoutJavaScript(t *testing.T) {
	b, w := browsertest.Open(t), newTown(t)
	b.WithoutJavaScript()
	w.climb(b, func() {
		if b.Is("!document.querySelector('#pow').closest('section').hidden") {
			b.Fail("a proof of work is offered, and nothing can do it")
		}
		b.Tab("#wait button")
		b.Press(kb.Enter)
		b.Reads("That was a little early.")
		w.clock.forward(2 * time.Second)
		b.Tab("#wait button")
		b.Press(kb.Enter)
	})
}

func TestABrowserWorksInPlaceOfItsVisitor(t *testing.T) {
	b, w := browsertest.Open(t), newTown(t)
	b.Visit(w.shop + "/login?user=alice")
	w.signIn(b, "wrong 1")
	b.Reads("The password is wrong.")
	w.signIn(b, "wrong 2")
	b.Reads("Let this device calculate")
	b.Tab("#pow-start")
	b.Press(kb.Enter) // the guard's clock stands still: no wait will pass
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
	w.signIn(b, rightPassword)
	b.Reads("Welcome back.")
}

// What a visitor has begun to type is not taken away when a wait is over.
func TestAWaitInterruptsNobody(t *testing.T) {
	b, w := browsertest.Open(t), newTown(t)
	b.Visit(w.shop + "/login?user=alice")
	w.signIn(b, "wrong 1")
	b.Reads("The password is wrong.")
	w.signIn(b, "wrong 2")
	b.Reads("You can continue in")
	b.Tab("#code")
	b.Press("half")
	w.clock.forward(2 * time.Second)
	b.Reads("You can continue now.")
	b.Await("document.getElementById('code').value == 'half'")
	b.Tab("#wait button")
	b.Press(kb.Enter)
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
}

func TestAPageIsReadInTheVisitorsLanguage(t *testing.T) {
	b, w := browsertest.Open(t), newTown(t)
	b.Speaking("ru-RU,ru;q=0.9")
	b.Visit(w.shop + "/login?user=alice")
	w.signIn(b, "wrong 1")
	b.Reads("The password is wrong.")
	w.signIn(b, "wrong 2")
	b.Reads("Подтвердите, что это вы")
	b.Fits()
	b.Tab("a[hreflang=pt]")
	b.Press(kb.Enter)
	b.Reads("Confirme que é você")
	b.Fits()
	b.Tab("form[action*='/send'] button")
	b.Press(kb.Enter)
	b.Reads("um código está a caminho")
}

// A mail that is lost does not lock its owner out until the code has died.
func TestALostMailIsSentAgainForAPicture(t *testing.T) {
	b, w := browsertest.Open(t), newTown(t)
	b.Visit(w.shop + "/login?user=alice")
	w.signIn(b, "wrong 1")
	b.Reads("The password is wrong.")
	w.signIn(b, "wrong 2")
	b.Reads("Send me a code")
	for range 2 {
		b.Tab("form[action*='/send'] button")
		b.Press(kb.Enter)
		b.Await("document.readyState == 'complete' && document.activeElement.id == 'code'")
	}
	b.Reads("A code was sent earlier")
	b.Await("document.images[0].complete")
	b.Shoot("again")
	b.Fits()
	b.Fill("#price", "0")
	b.Reads("That was not right.")
	b.Await("document.images[0].complete")
	b.Fill("#price", w.seen())
	b.Reads("a code is on its way")
	if first, again := w.code(1), w.code(2); first != again {
		t.Errorf("%s was sent first, then %s", first, again)
	}
	b.Fill("#code", w.code(2))
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
}

// vendor is a third party whose widget is a script of its own, as the real
// ones' are: it answers with what it was shown for.
type vendor struct{ name, script string }

func (v *vendor) Name() string    { return v.name }
func (v *vendor) SiteKey() string { return "site" }
func (v *vendor) Script() string  { return v.script }
func (v *vendor) Action() string  { return "guardd" }
func (v *vendor) Verify(_ context.Context, response, _ string) (bool, error) {
	return response == "site:guardd", nil
}

// recaptchaScript answers at once, as one that has been loaded does.
const recaptchaScript = `window.grecaptcha = {ready: (f) => f(), execute: async (key, o) => key + ":" + o.action}`

func TestThirdPartiesWidgetsAnswerOnThePage(t *testing.T) {
	for name, script := range map[string]string{
		"recaptcha": recaptchaScript,
		"turnstile": `for (const d of document.querySelectorAll(".cf-turnstile")) d.innerHTML = '<input type=hidden name=cf-turnstile-response value="' + d.dataset.sitekey + ":" + d.dataset.action + '">'`,
	} {
		t.Run(name, func(t *testing.T) {
			party := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/javascript")
				fmt.Fprint(w, script)
			}))
			defer party.Close()
			b, w := browsertest.Open(t), newTown(t, &vendor{name, party.URL + "/api.js"})
			w.toCaptcha()
			b.Visit(w.shop + "/login?user=alice")
			w.signIn(b, "wrong")
			b.Await("document.readyState == 'complete'") // and the party's script with it
			b.Tab("form." + name + " button")
			b.Press(kb.Enter)
			b.Await("location.search.includes('" + client.ReturnParameter + "=')")
			w.signIn(b, rightPassword)
			b.Reads("Welcome back.")
		})
	}
}

// Whoever is quicker than a third party's script does not press twice.
func TestAPressBeforeAThirdPartysScriptCounts(t *testing.T) {
	pressed := make(chan struct{})
	release := sync.OnceFunc(func() { close(pressed) })
	party := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-pressed
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, recaptchaScript)
	}))
	defer party.Close()
	defer release()
	b, w := browsertest.Open(t), newTown(t, &vendor{"recaptcha", party.URL + "/api.js"})
	w.toCaptcha()
	b.Visit(w.shop + "/login?user=alice")
	w.signIn(b, "wrong")
	b.Await("document.readyState == 'interactive' && document.querySelector('form.recaptcha')")
	b.Tab("form.recaptcha button")
	b.Press(kb.Enter)
	if !b.Is("!window.grecaptcha && document.readyState == 'interactive'") {
		b.Fail("the script was not held back")
	}
	release()
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
}

// A content blocker, or a third party that is gone, leaves no dead button.
func TestAThirdPartyWhoseScriptNeverComesIsSaidToBeNoWay(t *testing.T) {
	for name, script := range map[string]string{
		"no script":        "",
		"it takes no keys": `window.grecaptcha = {ready: (f) => f(), execute: async () => { throw new Error("Invalid site key") }}`,
	} {
		t.Run(name, func(t *testing.T) {
			party := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/javascript")
				fmt.Fprint(w, script)
			}))
			defer party.Close()
			b, w := browsertest.Open(t), newTown(t, &vendor{"recaptcha", party.URL + "/api.js"})
			w.toCaptcha()
			b.Visit(w.shop + "/login?user=alice")
			w.signIn(b, "wrong")
			b.Await("document.readyState == 'complete' && document.querySelector('form.recaptcha')")
			b.Tab("form.recaptcha button")
			b.Press(kb.Enter)
			b.Reads("Please choose another way.")
		})
	}
}

// toCaptcha makes the two guesses after which a picture is asked for.
func (w *town) toCaptcha() {
	w.t.Helper()
	a := &escalation.Attempt{Account: "alice", IP: "198.51.100.1"}
	for range 3 { // the second waits once
		v, err := w.guard.Check(context.Background(), a)
		if err != nil {
			w.t.Fatal(err)
		}
		if a.Proof = ""; !v.Proceed {
			a.Proof = v.Challenge.Token
			w.clock.forward(2 * time.Second)
		}
	}
}
