package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

// widget is how a third party's challenge is put on the page.
type widget struct {
	Title string // its name
	Class string // of the element that its script looks for
	Field string // of the form, that its script fills
	CSP   string // where it loads from, beside its script's own origin
}

// widgets are by provider. The class and field are each vendor's own.
var widgets = map[string]widget{
	"turnstile": {"Turnstile", "cf-turnstile", "cf-turnstile-response", "https://challenges.cloudflare.com"},
	"hcaptcha":  {"hCaptcha", "h-captcha", "h-captcha-response", "https://hcaptcha.com https://*.hcaptcha.com"},
	// Version 3 has no element: page.js asks it for an answer when the form is sent.
	"recaptcha": {"reCAPTCHA", "", "g-recaptcha-response", "https://www.google.com https://www.gstatic.com"},
	"friendly":  {"Friendly Captcha", "frc-captcha", "frc-captcha-response", "https://cdn.jsdelivr.net https://*.frcapi.com"},
}

// altchaField is what the ALTCHA widget fills.
const altchaField = "altcha"

// wayWait is a form's claim that a wait has passed; what else it says is judged
// by the guard.
const wayWait = escalation.WayWait

// readForm reads what a form may hold. What is answered may be in a field of
// the widget that gave it.
func readForm(w http.ResponseWriter, r *http.Request) (way, text string, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
	if err := r.ParseForm(); err != nil {
		return "", "", problemOfRead(err)
	}
	way, text = r.PostForm.Get("way"), r.PostForm.Get("answer")
	if text != "" {
		return way, text, nil
	}
	if v := r.PostForm.Get(altchaField); v != "" {
		return escalation.WayPow, v, nil
	}
	for name, wd := range widgets {
		if v := r.PostForm.Get(wd.Field); v != "" {
			return name, v, nil
		}
	}
	return way, "", nil
}

// answerForm answers a form: back to where the visitor came from with a proof,
// else the page again, of a fresh challenge.
func (s *service) answerForm(ctx context.Context, w http.ResponseWriter, r *http.Request, token string) {
	way, text, err := readForm(w, r)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	if way == wayWait {
		s.endWait(ctx, w, r, token)
		return
	}
	another := r.PostForm.Has("another")
	switch {
	case another:
		text = "another" // each picture takes one answer, so a wrong one brings the next
	case text == "":
		s.again(ctx, w, r, token, func(*page) {}) // nothing was said, so nothing is spent
		return
	}
	a, err := s.Challenger.Answer(ctx, &escalation.Solution{Token: token, Way: way, Text: text})
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	if a.Proof != "" {
		s.goOn(w, r, a.ReturnURL, a.Proof)
		return
	}
	if a.Challenge != nil {
		token = a.Challenge.Token
	}
	s.again(ctx, w, r, token, func(p *page) { p.unsolved(way, another, a.Err) })
}

// again shows the page of a challenge once more, as edit makes it.
func (s *service) again(ctx context.Context, w http.ResponseWriter, r *http.Request, token string, edit func(*page)) {
	p, err := s.challengePage(ctx, r, token)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	edit(p)
	p.write(w, r, http.StatusUnprocessableEntity)
}

// unsolved says why there is no proof, where the visitor was typing.
func (p *page) unsolved(way string, another bool, why escalation.ProofError) {
	switch {
	case another && why == escalation.ProofWrongAnswer, why == escalation.ProofInsufficient:
		p.Good = &said{Before: p.T.Fresh}
	case why == escalation.ProofUnsure:
		p.Bad = p.T.Unsure
	case why == escalation.ProofSpent:
		p.Bad = p.T.Spent
	case way == escalation.WayCode:
		p.Bad, p.CodeBad, p.CodeFocus = p.T.WrongCode, true, true
	default:
		p.Bad = p.T.Wrong
	}
	if way == escalation.WayImage && p.Picture != nil {
		p.Picture.Bad, p.Picture.Focus = p.Bad != "", true
	}
}

// endWait sends a visitor who has waited back with the ticket that is the proof.
func (s *service) endWait(ctx context.Context, w http.ResponseWriter, r *http.Request, token string) {
	p, err := s.challengePage(ctx, r, token)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	v, err := s.Challenger.View(ctx, token)
	switch {
	case err != nil:
		s.failChallenge(w, r, err)
	case p.Wait == nil || v.Now.Before(v.NotBefore):
		if p.Wait != nil {
			p.Bad = p.waitText(p.T.WaitEarly, v.NotBefore.Sub(v.Now))
		}
		p.write(w, r, http.StatusUnprocessableEntity)
	default:
		s.goOn(w, r, v.ReturnURL, token)
	}
}

// goOn leads back to the sealed return_url, which the guard has held against
// the realm's origins, with the proof in client.ReturnParameter. The rest of
// its query is left as it is written: it is the application's, which may read
// what net/url does not (next=/a;b).
func (s *service) goOn(w http.ResponseWriter, r *http.Request, returnURL, proof string) {
	if returnURL == "" {
		s.donePage(r, proof).write(w, r, http.StatusOK)
		return
	}
	u, err := url.Parse(returnURL)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	query := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		return pair == "" || err == nil && name == client.ReturnParameter
	})
	u.RawQuery = strings.Join(append(query, client.ReturnParameter+"="+url.QueryEscape(proof)), "&")
	w.Header().Set("Location", u.String())
	w.WriteHeader(http.StatusSeeOther)
}

// sendForm has a code sent, after a picture where one is asked for, and shows
// the page again with what became of it.
func (s *service) sendForm(ctx context.Context, w http.ResponseWriter, r *http.Request, token string) {
	_, text, err := readForm(w, r)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	p, err := s.challengePage(ctx, r, token)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	proof, price := r.PostForm.Get("proof"), r.PostForm.Get("challenge")
	if price != "" {
		a, err := s.Challenger.Answer(ctx, &escalation.Solution{Token: price, Way: escalation.WayImage, Text: text})
		if err != nil {
			s.failChallenge(w, r, err)
			return
		}
		if proof = a.Proof; proof == "" && a.Challenge != nil {
			p.ask(a.Challenge)
			p.Bad, p.Price.Bad = p.T.Wrong, true
			p.write(w, r, http.StatusUnprocessableEntity)
			return
		}
	}
	a, err := s.Challenger.Send(ctx, token, proof)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	p.sent(a)
	p.write(w, r, http.StatusOK)
}

// sent says what became of a code.
func (p *page) sent(a *escalation.Sent) {
	p.CodeFocus = true
	switch {
	case a.Sent:
		p.Good = until(p.T.CodeSent, a.ValidUntil)
	case !a.ValidUntil.IsZero():
		p.Good = until(p.T.CodeLives, a.ValidUntil)
	default:
		p.Good = &said{Before: p.T.CodePrice}
	}
	if a.Challenge != nil {
		p.ask(a.Challenge)
		p.CodeFocus = !a.ValidUntil.IsZero()
		p.Price.Focus = !p.CodeFocus
	}
}

// ask shows the picture that a code costs. Its own ways other than picture and
// sound are not offered: they are the page's already.
func (p *page) ask(c *escalation.Challenge) {
	p.Price = p.picture(c.Token, "price", true)
	p.Price.Focus, p.CodeFocus = true, false
}
