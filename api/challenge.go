package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

// Challenger shows, judges and sends challenges; escalation.Guard is one. All
// methods are safe for concurrent use. Errors are escalation's: Faults of the
// token (invalid, expired) or lang, ErrTooMany; any other is answered 500.
type Challenger interface {
	View(ctx context.Context, token string) (*escalation.View, error)
	Answer(ctx context.Context, s *escalation.Solution) (*escalation.Solved, error)
	Image(ctx context.Context, token string) (*escalation.Media, error)
	Audio(ctx context.Context, token, lang string) (*escalation.Media, error)
	Pow(ctx context.Context, token string) ([]byte, error)
	Send(ctx context.Context, token, proof string) (*escalation.Sent, error)
}

// The routes of Challenges.
const (
	RoutePage   = "/challenges/{token}"
	RouteImage  = "/challenges/{token}/image.png"
	RouteAudio  = "/challenges/{token}/audio.wav"
	RoutePow    = "/challenges/{token}/pow.json"
	RouteAnswer = "/challenges/{token}/answer"
	RouteSend   = "/challenges/{token}/send"
	// RouteWorker is the script that does the page's proof of work.
	RouteWorker = "/challenges/pow.js"
)

// Challenges returns the handler of the /challenges routes, for browsers. Who
// has a challenge's token may answer it: there is no other key, no cookie and
// no state between requests. GET changes nothing, so that a mail scanner or a
// browser that looks ahead spends nobody's answer. It is safe for concurrent use.
func Challenges(c Config) http.Handler {
	s := newService(c)
	r := newRouter(s.observe, forBrowsers)
	r.Get(RoutePage, s.showPage)
	r.Head(RoutePage, s.showPage)
	r.Get(RouteImage, s.serveMedia(true, func(ctx context.Context, token string, _ *http.Request) (*escalation.Media, error) {
		return s.Challenger.Image(ctx, token)
	}))
	r.Get(RouteAudio, s.serveMedia(true, func(ctx context.Context, token string, r *http.Request) (*escalation.Media, error) {
		lang := r.URL.Query().Get("lang")
		if lang == "" {
			lang = languageOf(r)
		}
		return s.Challenger.Audio(ctx, token, lang)
	}))
	r.Get(RoutePow, s.serveMedia(false, func(ctx context.Context, token string, _ *http.Request) (*escalation.Media, error) {
		b, err := s.Challenger.Pow(ctx, token)
		return &escalation.Media{Bytes: b, Type: "application/json"}, err
	}))
	r.Get(RouteWorker, serveWorker)
	r.Post(RouteAnswer, s.post(s.answerForm, s.answerChallenge))
	r.Post(RouteSend, s.post(s.sendForm, s.sendCode))
	s.servePublicRanges(r)
	return r
}

// forBrowsers sets what every answer to a browser has: where a visitor comes
// from is told to nobody (the path is a token), and no page of others frames it.
func forBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

// serveMedia answers what a login page of another origin may show too.
func (s *service) serveMedia(cache bool, get func(context.Context, string, *http.Request) (*escalation.Media, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), carryOut)
		defer cancel()
		m, err := get(ctx, chi.URLParam(r, "token"), r)
		if err != nil {
			s.failChallenge(w, r, err)
			return
		}
		w.Header().Set("Content-Type", m.Type)
		if cache {
			// Each rendering counts, and one kept copy shows no more than the page.
			w.Header().Set("Cache-Control", "private, max-age=600")
		}
		w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
		w.Header().Set("Access-Control-Allow-Origin", "*") // no cookies are involved: the token is the key
		// Safari plays no sound of a server that knows no ranges.
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(m.Bytes))
	}
}

// act is what a post to a challenge does.
type act func(ctx context.Context, w http.ResponseWriter, r *http.Request, token string)

// post lets a browser of the right origin act, by a form or in JSON. A visitor
// who hangs up does not undo it.
func (s *service) post(form, json act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := chi.URLParam(r, "token")
		ctx := newPatience(r.Context(), traceOf(w))
		defer ctx.over()
		if err := s.mayPost(ctx, token, r); err != nil {
			s.failChallenge(w, r, err)
			return
		}
		if isForm(r) {
			form(ctx, w, r, token)
			return
		}
		json(ctx, w, r, token)
	}
}

// answerChallenge judges an answer in JSON; answerForm one of a form.
func (s *service) answerChallenge(ctx context.Context, w http.ResponseWriter, r *http.Request, token string) {
	q, err := decode[client.AnswerRequest](w, r)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	a, err := s.Challenger.Answer(ctx, &escalation.Solution{Token: token, Way: q.Way, Text: q.Answer})
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	if a.Proof == "" {
		writeProblem(w, problemUnsolved(a))
		return
	}
	writeJSON(w, http.StatusOK, "application/json", client.AnswerResponse{Proof: a.Proof})
}

// sendCode has a code sent. Its answer is the same for accounts that do not
// exist; that is the guard's doing.
func (s *service) sendCode(ctx context.Context, w http.ResponseWriter, r *http.Request, token string) {
	q, err := decodeOptional[client.SendRequest](w, r)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	a, err := s.Challenger.Send(ctx, token, q.Proof)
	if err != nil {
		s.failChallenge(w, r, err)
		return
	}
	status := http.StatusOK
	if a.Sent {
		status = http.StatusAccepted
	}
	writeJSON(w, status, "application/json", client.SendResponse{
		Sent: a.Sent, ValidUntil: utc(a.ValidUntil), Challenge: challenge(a.Challenge)})
}

// decodeOptional takes no body for an empty object.
func decodeOptional[T any](w http.ResponseWriter, r *http.Request) (*T, error) {
	var first [1]byte
	n, err := io.ReadFull(r.Body, first[:])
	if n == 0 && errors.Is(err, io.EOF) {
		return new(T), nil
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first[:n]), r.Body), r.Body}
	return decode[T](w, r)
}

// isForm reports whether a page's form sent this, and not a script.
func isForm(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && t == "application/x-www-form-urlencoded"
}

// mayPost refuses what a browser says a page of another origin sent, except
// the origin that the challenge returns to: a login page may hold the form
// itself. Who has no token can post nothing anyway; this is for the visitor
// whose token leaked. What says nothing of its origin is let through: old
// browsers, scripts, and our own page, whose Referrer-Policy has a browser
// send "null".
func (s *service) mayPost(ctx context.Context, token string, r *http.Request) error {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site == "same-origin" || site == "none":
		return nil
	case site == "" && (origin == "" || origin == "null"):
		return nil
	case site == "" && hostOf(origin) == r.Host:
		return nil
	case s.PublicURL != "" && origin == originOf(s.PublicURL):
		return nil
	}
	v, err := s.Challenger.View(ctx, token)
	if err != nil {
		return err
	}
	if v.ReturnURL != "" && origin == originOf(v.ReturnURL) {
		return nil
	}
	return problemOtherPage()
}

// originOf is the origin of an absolute URL, as a browser writes it.
func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(u.Host)
}

func hostOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	return u.Host
}

// failChallenge answers an error as a page to who wants one, else as a problem.
func (s *service) failChallenge(w http.ResponseWriter, r *http.Request, err error) {
	err = ofToken(err)
	if !wantsPage(r) {
		s.fail(w, r, err)
		return
	}
	p := problemOf(err)
	if p.Status >= 500 {
		s.Log.Error("request failed", "route", routeOf(r), "status", p.Status, "error", err)
	}
	s.writeErrorPage(w, r, p)
}

// ofToken makes of a fault of the token what HTTP has for it: the token is in
// the path, so one that never was is not found, and one that was is gone.
func ofToken(err error) error {
	var faults escalation.Faults
	if !errors.As(err, &faults) || !slices.ContainsFunc(faults, func(f escalation.FieldFault) bool { return f.Field == "token" }) {
		return err
	}
	if slices.Contains(faults, escalation.FieldFault{Field: "token", Reason: "expired"}) {
		return problemExpired()
	}
	p := problemNotFound()
	p.Fields = []client.FieldError{{Field: "token", Reason: "invalid"}}
	return p
}

// wantsPage reports whether a person reads the answer: pages and forms.
func wantsPage(r *http.Request) bool {
	switch routeOf(r) {
	case RoutePage:
		return true
	case RouteAnswer, RouteSend:
		return isForm(r)
	}
	return false
}
