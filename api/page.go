package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

var (
	pageTemplate = template.Must(template.New("page.html").ParseFS(pageFiles, "page/page.html"))
	pageCSS      = template.CSS(pageFile("page.css"))
	pageJS       = template.JS(pageFile("page.js"))
	workerJS     = pageFile("pow.js")
)

// page is what the template shows: a challenge, the end of one, or why there
// is none.
type page struct {
	Lang  string
	T     *words
	Title string
	Lead  string
	CSS   template.CSS
	JS    template.JS // "" where there is nothing to do
	Bad   string      // what went wrong
	Good  *said       // what went well
	Proof string      // for whoever has nowhere to be sent to

	Self      string // the page's own address, after a form was posted elsewhere
	Worker    string
	Languages []languageLink
	Wait      *waitPart
	Picture   *picturePart
	Pow       bool
	Providers []providerPart
	Code      bool
	CodeBad   bool
	CodeFocus bool
	Price     *picturePart // to be solved before a code is sent

	base, token string
	origin      string // of the sealed return_url
}

// said is a text with a time in it.
type said struct{ Before, Time, Clock, After string }

type languageLink struct{ Lang, Name, URL string }

type waitPart struct {
	Milliseconds int64
	Text         string
	Auto         bool // there is somewhere to go on to
}

type picturePart struct {
	T                       *words
	ID, Token, Image, Audio string
	Bad, Focus              bool
}

type providerPart struct {
	escalation.ProviderView
	Heading string
	widget
}

// At is the address of one of the challenge's routes, in the page's language.
func (p *page) At(what string) string { return p.at(p.token, what) }

func (p *page) at(token, what string) string {
	path := p.base + "/challenges/" + url.PathEscape(token)
	if what != "" {
		path += "/" + what
	}
	return path + "?lang=" + p.Lang
}

func (s *service) newPage(r *http.Request) *page {
	lang := languageOf(r)
	p := &page{Lang: lang, T: inLanguage[lang], CSS: pageCSS}
	// The path is all that is taken of the public URL: the page stays on the
	// host that it was asked from.
	if u, err := url.Parse(s.PublicURL); err == nil {
		p.base = strings.TrimSuffix(u.EscapedPath(), "/")
	}
	return p
}

// challengePage is the page of a challenge as it stands.
func (s *service) challengePage(ctx context.Context, r *http.Request, token string) (*page, error) {
	v, err := s.Challenger.View(ctx, token)
	if err != nil {
		return nil, err
	}
	p := s.newPage(r)
	p.token, p.origin, p.JS = token, originOf(v.ReturnURL), pageJS
	p.Worker = p.base + RouteWorker
	p.Title = p.T.Title
	p.Lead = map[string]string{escalation.KindWait: p.T.LeadWait, escalation.KindCaptcha: p.T.LeadCaptcha}[v.Kind]
	if p.Lead == "" {
		p.Lead = p.T.LeadVerify
	}
	if r.Method == http.MethodPost {
		p.Self = p.At("")
	}
	for _, l := range languages {
		p.Languages = append(p.Languages, languageLink{l, inLanguage[l].Name, p.base + "/challenges/" + url.PathEscape(token) + "?lang=" + l})
	}
	has := func(way string) bool { return slices.Contains(v.Kinds, way) }
	if has(escalation.WayWait) {
		left := max(v.NotBefore.Sub(v.Now), 0)
		p.Wait = &waitPart{Milliseconds: milliseconds(left), Auto: v.ReturnURL != "", Text: p.waitText(p.T.WaitLeft, left)}
	}
	if has(escalation.WayImage) {
		p.Picture = p.picture(token, "digits", has(escalation.WayAudio))
	}
	p.Pow, p.Code = has(escalation.WayPow), has(escalation.WayCode)
	for _, w := range v.Providers {
		if known, ok := widgets[w.Name]; ok {
			p.Providers = append(p.Providers, providerPart{w, strings.ReplaceAll(p.T.Provider, "%s", known.Title), known})
		}
	}
	return p, nil
}

// waitText says how long is left, in whole seconds and not too few.
func (p *page) waitText(text string, left time.Duration) string {
	if left <= 0 {
		return p.T.WaitOver
	}
	before, after := around(text)
	return before + strconv.FormatInt((milliseconds(left)+999)/1000, 10) + after
}

func (p *page) picture(token, id string, sound bool) *picturePart {
	part := &picturePart{T: p.T, ID: id, Token: token, Image: p.at(token, "image.png")}
	if sound {
		part.Audio = p.at(token, "audio.wav")
	}
	return part
}

// until says a time in a text: in UTC, which the script turns into the visitor's.
func until(text string, t time.Time) *said {
	before, after := around(text)
	return &said{before, t.UTC().Format(time.RFC3339), t.UTC().Format("2006-01-02 15:04") + " UTC", after}
}

func (s *service) showPage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), carryOut)
	defer cancel()
	p, err := s.challengePage(ctx, r, chi.URLParam(r, "token"))
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	p.write(w, r, http.StatusOK)
}

// donePage ends a challenge that has nowhere to go on to.
func (s *service) donePage(r *http.Request, proof string) *page {
	p := s.newPage(r)
	p.Title, p.Lead, p.Proof = p.T.Done, p.T.DoneText, proof
	return p
}

func (s *service) writeErrorPage(w http.ResponseWriter, r *http.Request, pr *client.Problem) {
	p := s.newPage(r)
	p.Title, p.Lead = p.T.Error, p.T.ErrorText
	switch {
	case pr.Status == http.StatusGone:
		p.Lead = p.T.ErrorExpired
	case pr.Status == http.StatusTooManyRequests:
		p.Lead = p.T.ErrorBusy
	case pr.Status >= 500:
		p.Lead = p.T.ErrorOurs
	}
	if pr.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	p.write(w, r, pr.Status)
}

func (p *page) write(w http.ResponseWriter, r *http.Request, status int) {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		panic(err) // our own template and types
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", p.Lang)
	h.Set("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", p.policy())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}

// policy lets the page load its own parts, the configured providers', and
// nothing else. A browser holds the redirect after a form against form-action
// too, so it names the origin that the challenge returns to.
func (p *page) policy() string {
	sources := map[string]string{
		"style-src": hashSource(string(pageCSS)), "script-src": hashSource(string(pageJS)), "form-action": "'self' " + p.origin,
		"img-src": "'self'", "media-src": "'self'", "connect-src": "'self'", "worker-src": "'self'",
	}
	for _, w := range p.Providers {
		for _, directive := range []string{"script-src", "connect-src", "frame-src", "style-src", "img-src"} {
			sources[directive] += " " + originOf(w.Script) + " " + w.CSP
		}
	}
	policy := "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
	for _, directive := range []string{"style-src", "script-src", "img-src", "media-src", "connect-src", "worker-src", "frame-src", "form-action"} {
		if allowed := strings.TrimSpace(sources[directive]); allowed != "" {
			policy += "; " + directive + " " + allowed
		}
	}
	return policy
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func serveWorker(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write(workerJS)
}
