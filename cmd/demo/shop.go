package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/guardd/guardd/api/client"
)

// passwords are the shop's customers.
var passwords = map[string]string{
	"alice@example.com": "correct horse",
	"bob@example.com":   "battery staple",
}

// shop is the customer of guardd: a login form.
type shop struct {
	url    string
	client *client.Client
	inbox  *inbox
	attack *attack
}

func newShop(url, guardURL string, inbox *inbox, hired *readers) (*shop, error) {
	// A demo on a busy machine answers late rather than unprotected.
	c, err := client.New(client.Config{URL: guardURL, Timeout: 10 * time.Second, Policy: client.FailClosed})
	if err != nil {
		return nil, err
	}
	s := &shop{url: url, client: c, inbox: inbox}
	s.attack = &attack{hired: hired, most: attackGuesses, lasts: attackLasts, guess: func(ctx context.Context, g guess) *client.AttemptResponse {
		may, _, _ := s.login(ctx, g)
		return may
	}}
	return s, nil
}

// guess is one try of a login.
type guess struct {
	account, password, ip, device, proof string
}

// login is a login handler's work: ask, compare, tell. outcome is "" when
// nothing was compared; cookie makes the browser a known device.
func (s *shop) login(ctx context.Context, g guess) (may *client.AttemptResponse, outcome string, cookie *http.Cookie) {
	may, err := s.client.Attempt(ctx, client.AttemptRequest{
		Account: g.account, IP: g.ip, Device: g.device, Proof: g.proof, ReturnURL: s.url + "/"})
	if err != nil || !may.Proceed {
		return may, "", nil
	}
	outcome = compare(g.account, g.password)
	told, err := s.client.Outcome(ctx, client.OutcomeRequest{Attempt: may.Attempt, Account: g.account, Outcome: outcome, Device: g.device})
	if err != nil {
		return may, outcome, nil
	}
	return may, outcome, told.Cookie()
}

func compare(account, password string) string {
	account = strings.ToLower(strings.TrimSpace(account))
	want, known := passwords[account]
	switch {
	case !known:
		return client.OutcomeUnknownAccount
	case subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 1:
		return client.OutcomeSuccess
	}
	return client.OutcomeFailure
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.showLogin)
	mux.HandleFunc("POST /{$}", s.postLogin)
	mux.HandleFunc("GET /inbox", func(w http.ResponseWriter, r *http.Request) { s.write(w, http.StatusOK, "inbox", s.page(r)) })
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) { s.write(w, http.StatusOK, "live", s.page(r)) })
	mux.HandleFunc("POST /attack", s.postAttack)
	mux.HandleFunc("POST /forget", s.postForget)
	// A page elsewhere must not press the buttons of this one.
	return http.NewCrossOriginProtection().Handler(mux)
}

// accountCookie keeps the name over the way to the challenge's page and back,
// so that nobody types it twice, and no log has it in a URL.
const accountCookie = "shop_account"

// showLogin is also where the challenge's page leads back to, with the proof.
func (s *shop) showLogin(w http.ResponseWriter, r *http.Request) {
	p := s.page(r)
	p.Proof = r.FormValue(client.ReturnParameter)
	s.write(w, http.StatusOK, "login", p)
}

func (s *shop) postLogin(w http.ResponseWriter, r *http.Request) {
	g := guess{account: r.PostFormValue("account"), password: r.PostFormValue("password"),
		ip: r.RemoteAddr, device: client.DeviceToken(r), proof: r.PostFormValue(client.ReturnParameter)}
	may, outcome, cookie := s.login(r.Context(), g)
	http.SetCookie(w, cookie)
	http.SetCookie(w, &http.Cookie{Name: accountCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(g.account)),
		Path: "/", MaxAge: 600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	p := s.page(r)
	p.Account, p.May, p.Outcome, p.Known = g.account, may, outcome, p.Known || cookie != nil
	status := http.StatusOK
	switch {
	case may.Unreachable:
		status = http.StatusServiceUnavailable
	case !may.Proceed:
		status = http.StatusTooManyRequests
	case outcome != client.OutcomeSuccess:
		status = http.StatusUnauthorized
		// A confirmed code is good for five guesses.
		p.Proof = g.proof
	}
	s.write(w, status, "login", p)
}

func (s *shop) postAttack(w http.ResponseWriter, r *http.Request) {
	if account := strings.TrimSpace(r.PostFormValue("account")); r.PostFormValue("do") == "begin" && passwords[account] != "" {
		s.attack.begin(account, r.PostFormValue("pays") != "")
	} else {
		s.attack.stop()
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// postForget makes the browser a stranger again.
func (s *shop) postForget(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: client.DeviceCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

//go:embed page
var pageFiles embed.FS

var (
	templates = template.Must(template.ParseFS(pageFiles, "page/*.html"))
	css, js   = pageFile("shop.css"), pageFile("shop.js")
	policy    = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; connect-src 'self'; style-src " + hashOf(css) + "; script-src " + hashOf(js)
)

func pageFile(name string) string {
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page is what the templates show.
type page struct {
	CSS      template.CSS
	JS       template.JS
	Accounts map[string]string
	Account  string
	Proof    string
	Field    string // in which the form carries the proof
	May      *client.AttemptResponse
	Outcome  string
	Known    bool // the browser has a device token
	Mails    []mail
	Attack   attackView
}

func (s *shop) page(r *http.Request) *page {
	p := &page{CSS: template.CSS(css), JS: template.JS(js), Accounts: passwords, Field: client.ReturnParameter,
		Known: client.DeviceToken(r) != "", Mails: s.inbox.all(), Attack: s.attack.view(), Account: "alice@example.com"}
	if c, err := r.Cookie(accountCookie); err == nil {
		if name, err := base64.RawURLEncoding.DecodeString(c.Value); err == nil {
			p.Account = string(name)
		}
	}
	return p
}

func (s *shop) write(w http.ResponseWriter, status int, name string, p *page) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, p); err != nil {
		panic(err) // our own templates and types
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
