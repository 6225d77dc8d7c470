package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

// stand is a Challenger that answers what a test wants of it: the faults and
// the corners that a real guard comes to only by luck.
type stand struct {
	view   *escalation.View
	err    error
	answer func(*escalation.Solution) *escalation.Solved
	send   func(token, proof string) *escalation.Sent
	media  *escalation.Media
}

func (c *stand) View(context.Context, string) (*escalation.View, error) { return c.view, c.err }

func (c *stand) Answer(_ context.Context, s *escalation.Solution) (*escalation.Solved, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.answer(s), nil
}

func (c *stand) Send(_ context.Context, token, proof string) (*escalation.Sent, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.send(token, proof), nil
}

func (c *stand) Image(context.Context, string) (*escalation.Media, error) { return c.media, c.err }
func (c *stand) Audio(context.Context, string, string) (*escalation.Media, error) {
	return c.media, c.err
}
func (c *stand) Pow(context.Context, string) ([]byte, error) { return []byte("{}"), c.err }

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// isMedia reports a picture or a sound, which alone may be kept by a browser.
func isMedia(a answer) bool {
	t := a.Header.Get("Content-Type")
	range304 := a.StatusCode == http.StatusNotModified || a.Request.Method == http.MethodOptions
	return a.StatusCode < 300 && (t == "image/png" || t == "audio/wav" || t == "text/plain") || range304
}

const tokenPath = "/challenges/token"

// pictured is a stand whose challenge is a picture that "123456" solves.
func pictured() *stand {
	c := &stand{view: &escalation.View{Kind: escalation.KindCaptcha, Now: noon,
		Kinds: []string{escalation.WayImage, escalation.WayAudio, escalation.WayCode}, ReturnURL: "https://shop.example/login?next=/cart;a=1&guardd_proof=old"}}
	c.answer = func(s *escalation.Solution) *escalation.Solved {
		if s.Text == "123456" {
			return &escalation.Solved{Proof: "the proof", ReturnURL: c.view.ReturnURL}
		}
		return &escalation.Solved{Err: escalation.ProofWrongAnswer, Challenge: &escalation.Challenge{
			Kind: escalation.KindCaptcha, Kinds: c.view.Kinds, Token: "fresh", ExpiresAt: noon.Add(10 * time.Minute),
			Page: "/challenges/fresh", Image: "/challenges/fresh/image.png", Audio: "/challenges/fresh/audio.wav"}}
	}
	c.send = func(string, string) *escalation.Sent {
		return &escalation.Sent{Sent: true, ValidUntil: noon.Add(15 * time.Minute)}
	}
	c.media = &escalation.Media{Bytes: []byte("0123456789"), Type: "image/png"}
	return c
}

func (s *service) get(path string, edits ...func(*http.Request)) answer {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, edit := range edits {
		edit(r)
	}
	return s.send(r, "")
}

func (s *service) form(path string, fields url.Values, edits ...func(*http.Request)) answer {
	s.t.Helper()
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	edits = append([]func(*http.Request){header("Content-Type", "application/x-www-form-urlencoded")}, edits...)
	return s.post(path, fields.Encode(), edits...)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// holds fails for each text that the page does not hold, or holds after "not ".
func (a answer) holds(t *testing.T, status int, texts ...string) {
	t.Helper()
	if a.StatusCode != status || a.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("answered %d %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
	for _, text := range texts {
		text, unwanted := strings.CutPrefix(text, "not ")
		if strings.Contains(a.body, text) == unwanted {
			main, _, _ := strings.Cut(a.body, "</main>")
			t.Errorf("holds %q: %v\n%s", text, !unwanted, main[max(strings.Index(main, "<body"), 0):])
		}
	}
}

func TestAPageIsFramedCachedAndRefersNowhere(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	for path, header := range map[string]map[string]string{
		tokenPath: {
			"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Content-Language": "en", "Vary": "Accept-Language",
		},
		tokenPath + "/image.png": {"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "private, max-age=600"},
		tokenPath + "/pow.json":  {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"},
	} {
		a := s.get(path)
		for name, want := range header {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", path, name, got, want)
			}
		}
	}
}

func TestThePolicyOfAPageLetsInNothingButItsOwn(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	csp := s.get(tokenPath).Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self' https://shop.example"} {
		if !slices.Contains(strings.Split(csp, "; "), want) {
			t.Errorf("%q lacks %q", csp, want)
		}
	}
	for _, never := range []string{"unsafe", "*", "data:", "blob:", "cloudflare"} {
		if strings.Contains(csp, never) {
			t.Errorf("%q holds %q", csp, never)
		}
	}
	c.view.Providers = []escalation.ProviderView{{Name: "turnstile", SiteKey: `k"ey`, Script: "https://challenges.cloudflare.com/turnstile/v0/api.js", Action: "guardd"}}
	a := s.get(tokenPath)
	a.holds(t, http.StatusOK, `class="cf-turnstile" data-sitekey="k&#34;ey" data-action="guardd"`, `<script src="https://challenges.cloudflare.com/turnstile/v0/api.js"`)
	if csp := a.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-src https://challenges.cloudflare.com") {
		t.Errorf("the configured provider is kept out: %q", csp)
	}
}

func TestAPageShowsTheWaysOfItsChallenge(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	picture, sound, code, wait, pow := `/challenges/token/image.png`, `<audio controls`, `autocomplete="one-time-code"`, `id="wait"`, `id="pow"`
	for _, row := range []struct {
		kind  string
		kinds []string
		texts []string
	}{
		{escalation.KindWait, []string{"wait", "code", "pow"}, []string{wait, pow, code, "not " + picture, "in 8 seconds"}},
		{escalation.KindCaptcha, []string{"image", "audio", "code"}, []string{picture, sound, code, "not " + wait, "not " + pow}},
		{escalation.KindCaptcha, []string{"image", "code"}, []string{picture, "not " + sound, code}},
		{escalation.KindVerify, []string{"code"}, []string{code, "not " + picture, "not " + wait, "not " + pow}},
	} {
		c.view.Kind, c.view.Kinds, c.view.NotBefore = row.kind, row.kinds, noon.Add(7001*time.Millisecond)
		s.get(tokenPath).holds(t, http.StatusOK, row.texts...)
	}
}

func TestAPageSpeaksTheLanguageThatIsAskedFor(t *testing.T) {
	s := startChallenges(t, api.Config{Challenger: pictured()})
	for _, row := range []struct{ query, accept, want string }{
		{"", "", "en"}, {"", "pt-BR,pt;q=0.9,en;q=0.5", "pt"}, {"", "zh-TW", "zh"}, {"", "ru;q=0.1,ja", "ja"}, {"", "xx", "en"}, {"", ";;", "en"},
		{"?lang=ru", "ja", "ru"}, {"?lang=pt-PT", "ja", "pt"}, {"?lang=%22%3E", "ja", "ja"},
	} {
		a := s.get(tokenPath+row.query, header("Accept-Language", row.accept))
		a.holds(t, http.StatusOK, `<html lang="`+row.want+`">`, `/challenges/token/answer?lang=`+row.want, `/challenges/token/audio.wav?lang=`+row.want)
	}
	s.post(tokenPath+"/answer?lang=ja", "way=image&answer=1", header("Content-Type", "application/x-www-form-urlencoded")).
		holds(t, http.StatusUnprocessableEntity, `<html lang="ja">`)
}

func TestAnswersAsJSON(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	if a := s.post(tokenPath+"/answer", `{"answer":"123456"}`); a.StatusCode != http.StatusOK || a.body != `{"proof":"the proof"}`+"\n" {
		t.Errorf("right: %d %s", a.StatusCode, a.body)
	}
	a := s.post(tokenPath+"/answer", `{"answer":"654321"}`)
	a.problem(t, http.StatusUnprocessableEntity, client.ProblemUnsolved)
	var p client.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.ProofError != "wrong_answer" || p.Challenge == nil ||
		p.Challenge.Token != "fresh" || p.Challenge.Image != "/challenges/fresh/image.png" {
		t.Errorf("wrong: %s", a.body)
	}
	var got *escalation.Solution
	c.answer = func(s *escalation.Solution) *escalation.Solved { got = s; return &escalation.Solved{Proof: "p"} }
	s.post(tokenPath+"/answer", `{"answer":"x","way":"pow"}`)
	if got == nil || got.Token != "token" || got.Way != "pow" || got.Text != "x" {
		t.Errorf("the guard was asked %+v", got)
	}
	for _, row := range []struct{ body, want string }{{`{"answers":"1"}`, "answers: unknown_field"}, {`{"answer":1}`, "answer: wrong_type"}, {``, "body: syntax"}} {
		if got := s.post(tokenPath+"/answer", row.body).problem(t, http.StatusBadRequest, client.ProblemInvalid); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s: %q", row.body, got)
		}
	}
	s.post(tokenPath+"/answer", `x`, header("Content-Type", "multipart/form-data")).problem(t, http.StatusUnsupportedMediaType, client.ProblemMediaType)
	s.post(tokenPath+"/answer", `{"answer":"`+strings.Repeat("1", api.MaxBody)+`"}`).problem(t, http.StatusRequestEntityTooLarge, client.ProblemTooLarge)
	s.form(tokenPath+"/answer", url.Values{"answer": {strings.Repeat("1", api.MaxBody)}}).holds(t, http.StatusRequestEntityTooLarge)
}

func TestAFormIsAnsweredWithTheWayBackOrThePageAgain(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	a := s.form(tokenPath+"/answer", url.Values{"way": {"image"}, "answer": {"123456"}})
	if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != "https://shop.example/login?next=/cart;a=1&guardd_proof=the+proof" {
		t.Errorf("right: %d to %q", a.StatusCode, to)
	}
	s.form(tokenPath+"/answer", url.Values{"way": {"image"}, "answer": {"1"}}).holds(t, http.StatusUnprocessableEntity,
		`/challenges/fresh/image.png`, `/challenges/fresh/answer`, `not /challenges/token`, "That was not right", `aria-invalid="true" aria-describedby="alert" autofocus`,
		`data-page="/challenges/fresh?lang=en"`)
	s.form(tokenPath+"/answer", url.Values{"way": {"image"}, "another": {"1"}}).holds(t, http.StatusUnprocessableEntity,
		`/challenges/fresh/image.png`, "another picture", "not That was not right", `not aria-invalid="true"`)
	s.form(tokenPath+"/answer", url.Values{"way": {"image"}, "answer": {""}}).holds(t, http.StatusUnprocessableEntity, "/challenges/token/answer", "not fresh")
	s.form(tokenPath+"/answer", url.Values{"way": {"code"}, "answer": {"1"}}).holds(t, http.StatusUnprocessableEntity, "The code was not right")

	var ways []string
	c.answer = func(s *escalation.Solution) *escalation.Solved {
		ways = append(ways, s.Way+"="+s.Text)
		return &escalation.Solved{Proof: `"><script>`}
	}
	// With nowhere to go back to, the proof is the visitor's to carry.
	s.form(tokenPath+"/answer", url.Values{"altcha": {"payload"}}).holds(t, http.StatusOK, `value="&#34;&gt;&lt;script&gt;"`, "Thank you")
	s.form(tokenPath+"/answer", url.Values{"way": {"hcaptcha"}, "h-captcha-response": {"r"}})
	s.form(tokenPath+"/answer", url.Values{"answer": {"typed"}})
	if want := []string{"pow=payload", "hcaptcha=r", "=typed"}; !slices.Equal(ways, want) {
		t.Errorf("the guard was asked %q, want %q", ways, want)
	}
}

func TestAWaitThatHasPassedLeadsBackWithTheTicket(t *testing.T) {
	c := pictured()
	c.view.Kind, c.view.Kinds, c.view.NotBefore = escalation.KindWait, []string{"wait", "code"}, noon.Add(time.Microsecond)
	s := startChallenges(t, api.Config{Challenger: c})
	wait := url.Values{"way": {"wait"}}
	s.form(tokenPath+"/answer", wait).holds(t, http.StatusUnprocessableEntity, "a little early", "in 1 seconds")
	c.view.Now = c.view.NotBefore
	if a := s.form(tokenPath+"/answer", wait); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "https://shop.example/login?next=/cart;a=1&guardd_proof=token" {
		t.Errorf("answered %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	c.view.Kind, c.view.Kinds = escalation.KindVerify, []string{"code"}
	s.form(tokenPath+"/answer", wait).holds(t, http.StatusUnprocessableEntity, "not the proof")
}

func TestACodeIsSent(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	var proofs []string
	say := func(a *escalation.Sent) func(string, string) *escalation.Sent {
		return func(token, proof string) *escalation.Sent { proofs = append(proofs, token+":"+proof); return a }
	}
	until, price := noon.Add(15*time.Minute), &escalation.Challenge{Kind: "captcha", Kinds: []string{"image"}, Token: "price", ExpiresAt: noon}
	for _, row := range []struct {
		sent   *escalation.Sent
		status int
		json   string
		page   []string
	}{
		{&escalation.Sent{Sent: true, ValidUntil: until}, 202, `{"sent":true,"valid_until":"2026-12-01T12:15:00Z"}`,
			[]string{`a code is on its way to its owner. It is good until <time datetime="2026-12-01T12:15:00Z">2026-12-01 12:15 UTC</time>`, "autofocus"}},
		{&escalation.Sent{ValidUntil: until}, 200, `{"sent":false,"valid_until":"2026-12-01T12:15:00Z"}`, []string{"A code was sent earlier", "2026-12-01 12:15 UTC"}},
		{&escalation.Sent{Challenge: price}, 200, `{"sent":false,"challenge":{"kind":"captcha","kinds":["image"],"token":"price","expires_at":"2026-12-01T12:00:00Z"}}`,
			[]string{`name="challenge" value="price"`, "/challenges/price/image.png", "/challenges/token/send"}},
	} {
		c.send = say(row.sent)
		for _, body := range []string{``, `{}`, `{"proof":"p"}`} {
			if a := s.post(tokenPath+"/send", body); a.StatusCode != row.status || a.body != row.json+"\n" {
				t.Errorf("%q: %d %s, want %d %s", body, a.StatusCode, a.body, row.status, row.json)
			}
		}
		s.form(tokenPath+"/send", nil).holds(t, http.StatusOK, row.page...)
	}
	if want := []string{"token:", "token:", "token:p", "token:"}; !slices.Equal(proofs[:4], want) {
		t.Errorf("the guard was asked %q", proofs)
	}
	proofs = nil
	s.form(tokenPath+"/send", url.Values{"challenge": {"price"}, "answer": {"1"}}).holds(t, http.StatusUnprocessableEntity, `name="challenge" value="fresh"`, "That was not right")
	s.form(tokenPath+"/send", url.Values{"challenge": {"price"}, "answer": {"123456"}})
	if want := []string{"token:the proof"}; !slices.Equal(proofs, want) {
		t.Errorf("the guard was asked %q, want %q", proofs, want)
	}
}

// Whoever has the token may answer; what is refused is a page elsewhere that
// has somebody's browser do it.
func TestOtherOriginsPostNothing(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c, PublicURL: "https://login.example/guard"})
	own := s.url
	for _, row := range []struct {
		site, origin string
		may          bool
	}{
		{"", "", true}, {"same-origin", "null", true}, {"none", "", true}, {"", "null", true}, {"", own, true},
		{"", "https://login.example", true}, {"cross-site", "https://shop.example", true}, {"same-site", "https://shop.example", true},
		{"cross-site", "https://evil.example", false}, {"same-site", "https://evil.example", false}, {"", "https://evil.example", false},
		{"cross-site", "null", false}, {"cross-site", "", false}, {"cross-site", own, false}, {"", "https://shop.example.evil.example", false},
		{"cross-site", "http://shop.example", false},
	} {
		for _, what := range []string{"/answer", "/send"} {
			edit := func(r *http.Request) {
				for name, v := range map[string]string{"Sec-Fetch-Site": row.site, "Origin": row.origin} {
					if v != "" {
						r.Header.Set(name, v)
					}
				}
			}
			if a := s.post(tokenPath+what, `{}`, edit); (a.StatusCode != http.StatusForbidden) != row.may {
				t.Errorf("%s from %q (%s): %d", what, row.origin, row.site, a.StatusCode)
			}
			if a := s.form(tokenPath+what, nil, edit); (a.StatusCode != http.StatusForbidden) != row.may {
				t.Errorf("form %s from %q (%s): %d", what, row.origin, row.site, a.StatusCode)
			}
		}
	}
}

func TestFaultsAreAPageForPeopleAndAProblemForPrograms(t *testing.T) {
	c := pictured()
	s := startChallenges(t, api.Config{Challenger: c})
	for _, row := range []struct {
		err    error
		status int
		word   string
		fields []string
		page   string
	}{
		{escalation.Faults{{Field: "token", Reason: "invalid"}}, 404, client.ProblemNotFound, []string{"token: invalid"}, "start again"},
		{escalation.Faults{{Field: "token", Reason: "expired"}}, 410, client.ProblemExpired, []string{"token: expired"}, "only valid for some minutes"},
		{errors.New("secret words"), 500, client.ProblemInternal, nil, "our side"},
		{escalation.ErrStore, 503, client.ProblemStore, nil, "our side"},
		{escalation.ErrTooMany, 429, client.ProblemTooMany, nil, "too often"},
	} {
		c.err = row.err
		json := []answer{s.post(tokenPath+"/answer", `{}`), s.post(tokenPath+"/send", ``),
			s.get(tokenPath + "/image.png"), s.get(tokenPath + "/audio.wav"), s.get(tokenPath + "/pow.json")}
		for _, a := range json {
			if got := a.problem(t, row.status, row.word); !slices.Equal(got, row.fields) {
				t.Errorf("%s: %q", a.Request.URL.Path, got)
			}
		}
		s.get(tokenPath).holds(t, row.status, row.page, "not secret words")
		s.form(tokenPath+"/answer", url.Values{"answer": {"1"}}).holds(t, row.status, row.page)
		s.form(tokenPath+"/send", nil).holds(t, row.status, row.page)
	}
	c.err = escalation.Faults{{Field: "lang", Reason: "unknown"}}
	if got := s.get(tokenPath+"/audio.wav?lang=xx").problem(t, http.StatusBadRequest, client.ProblemInvalid); !slices.Equal(got, []string{"lang: unknown"}) {
		t.Errorf("%q", got)
	}
	s.get("/challenges/").problem(t, http.StatusNotFound, client.ProblemNotFound)
	s.post(tokenPath, "").problem(t, http.StatusMethodNotAllowed, client.ProblemMethod)
}

func TestASoundIsServedInParts(t *testing.T) {
	c := pictured()
	c.media.Type = "audio/wav"
	s := startChallenges(t, api.Config{Challenger: c})
	if a := s.get(tokenPath+"/audio.wav", header("Range", "bytes=2-4")); a.StatusCode != http.StatusPartialContent || a.body != "234" {
		t.Errorf("%d %q", a.StatusCode, a.body)
	}
}

func TestAPageUnderAPathKeepsToIt(t *testing.T) {
	s := startChallenges(t, api.Config{Challenger: pictured(), PublicURL: "https://login.example/guard/"})
	s.get(tokenPath).holds(t, http.StatusOK, `"/guard/challenges/token/image.png?lang=en"`, `"/guard/challenges/token/send?lang=en"`, `not "/challenges/`)
}

func init() {
	for _, t := range []string{"text/html", "text/javascript", "image/png", "audio/wav"} {
		openapi3filter.RegisterBodyDecoder(t, openapi3filter.FileBodyDecoder)
	}
}
