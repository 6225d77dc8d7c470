package captcha

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/escalation"
)

// What Verify can come to.
const (
	right  = "right"
	wrong  = "wrong"
	unsure = "could not tell"
	ours   = "misconfigured"
)

func outcome(ok bool, err error) string {
	switch {
	case ok && err == nil:
		return right
	case ok:
		return "right, and an error"
	case errors.Is(err, escalation.ErrMisconfigured):
		return ours
	case err != nil:
		return unsure
	}
	return wrong
}

const (
	siteKey  = "site-key-1"
	secret   = "top-secret-1"
	response = "what-the-widget-gave"
)

func config(name, endpoint string) Config {
	return Config{Secret: secret, ThirdParty: escalation.ThirdParty{Name: name, SiteKey: siteKey, URL: endpoint,
		Hosts: []string{"login.example.com", "www.example.com"}}}
}

func newProvider(t *testing.T, name string, h http.HandlerFunc) *provider {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	p, err := NewProvider(config(name, srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	return p.(*provider)
}

// good is each vendor's documented success.
var good = map[string]string{
	"turnstile": `{"success":true,"challenge_ts":"2026-03-01T12:00:00.000Z","hostname":"login.example.com","error-codes":[],"action":"guardd","cdata":"","metadata":{"interactive":false}}`,
	"hcaptcha":  `{"success":true,"challenge_ts":"2026-03-01T12:00:00.000000Z","hostname":"login.example.com","credit":false}`,
	"recaptcha": `{"success":true,"score":0.9,"action":"guardd","challenge_ts":"2026-03-01T12:00:00Z","hostname":"login.example.com"}`,
	"friendly":  `{"success":true,"data":{"event_id":"ev_1","challenge":{"timestamp":"2026-03-01T12:00:00Z","origin":"login.example.com"}}}`,
}

// no is a vendor's refusal with that code.
func no(name, code string) string {
	if name == "friendly" {
		return fmt.Sprintf(`{"success":false,"error":{"error_code":%q,"detail":"..."}}`, code)
	}
	return fmt.Sprintf(`{"success":false,"error-codes":[%q]}`, code)
}

func TestProvidersAreAskedAsDocumented(t *testing.T) {
	for name, body := range good {
		t.Run(name, func(t *testing.T) {
			var problem string
			p := newProvider(t, name, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got := map[string]string{"key": r.Header.Get("X-API-Key")}
				want := map[string]string{"key": "", "secret": secret, "response": response, "remoteip": "203.0.113.7"}
				switch name {
				case "friendly":
					want = map[string]string{"key": secret, "response": response, "sitekey": siteKey}
					if err := json.Unmarshal(b, &got); err != nil || r.Header.Get("Content-Type") != "application/json" {
						problem = string(b)
					}
				case "hcaptcha":
					want["sitekey"] = siteKey
					fallthrough
				default:
					form, err := url.ParseQuery(string(b))
					if err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
						problem = string(b)
					}
					for k := range form {
						got[k] = form.Get(k)
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) || r.Method != http.MethodPost || r.URL.RawQuery != "" {
					problem += fmt.Sprintf("%s %s %v, want %v", r.Method, r.URL, got, want)
				}
				io.WriteString(w, body)
			})
			if got := outcome(p.Verify(t.Context(), response, "203.0.113.7")); got != right || problem != "" {
				t.Errorf("%s; %s", got, problem)
			}
			if p.Name() != name || p.SiteKey() != siteKey || !strings.HasPrefix(p.Script(), "https://") || strings.Contains(p.Script(), "{") ||
				p.Action() != map[string]string{"turnstile": "guardd", "recaptcha": "guardd"}[name] {
				t.Errorf("%s %s %s", p.Name(), p.SiteKey(), p.Script())
			}
		})
	}
}

func TestDocumentedReplies(t *testing.T) {
	type row struct {
		status int
		body   string
		want   string
	}
	codes := func(name, want string, status int, codes ...string) (rows []row) {
		for _, c := range codes {
			rows = append(rows, row{status, no(name, c), want})
		}
		return rows
	}
	with := func(name, old, put string) string {
		if !strings.Contains(good[name], old) {
			t.Fatalf("%s: no %s in %s", name, old, good[name])
		}
		return strings.Replace(good[name], old, put, 1)
	}
	tables := map[string][]row{
		"turnstile": append(append(append([]row{
			{200, with("turnstile", "login.example.com", "WWW.example.com"), right},
			{200, with("turnstile", "login.example.com", "evil.example.net"), wrong},
			{200, with("turnstile", "login.example.com", "a.login.example.com"), wrong},
			{200, with("turnstile", "login.example.com", ""), unsure},
			{200, with("turnstile", `"hostname":"login.example.com",`, ""), unsure},
			{200, with("turnstile", `"action":"guardd"`, `"action":"newsletter"`), wrong},
			{200, with("turnstile", `"action":"guardd",`, ""), wrong},
			{200, with("turnstile", `"error-codes":[]`, `"error-codes":["invalid-input-secret"]`), unsure},
		}, codes("turnstile", wrong, 200, "missing-input-response", "invalid-input-response", "timeout-or-duplicate")...),
			codes("turnstile", ours, 200, "missing-input-secret", "invalid-input-secret", "invalid-widget-id", "invalid-parsed-secret")...),
			codes("turnstile", unsure, 200, "bad-request", "internal-error", "something-new", "")...),
		"hcaptcha": append(append(append([]row{
			{200, with("hcaptcha", "login.example.com", "evil.example.net"), wrong},
			{200, with("hcaptcha", `"hostname":"login.example.com",`, ""), unsure},
			{200, with("hcaptcha", `"credit":false`, `"score":0.9,"score_reason":["x"]`), right},
		}, codes("hcaptcha", wrong, 200, "missing-input-response", "invalid-input-response", "expired-input-response", "already-seen-response", "invalid-or-already-seen-response")...),
			codes("hcaptcha", ours, 200, "missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "not-using-dummy-passcode")...),
			codes("hcaptcha", unsure, 200, "bad-request", "something-new")...),
		"recaptcha": append(append(append([]row{
			{200, with("recaptcha", "0.9", "0.5"), right},
			{200, with("recaptcha", "0.9", "1.0"), right},
			{200, with("recaptcha", "0.9", "0.49"), wrong},
			{200, with("recaptcha", "0.9", "0"), wrong},
			{200, with("recaptcha", "0.9", "1.1"), unsure},
			{200, with("recaptcha", "0.9", "-1"), unsure},
			{200, with("recaptcha", "0.9", `"0.9"`), unsure},
			{200, with("recaptcha", `"score":0.9,`, ""), ours},
			{200, with("recaptcha", `"action":"guardd"`, `"action":"homepage"`), wrong},
			{200, with("recaptcha", "login.example.com", "evil.example.net"), wrong},
			{200, with("recaptcha", `,"hostname":"login.example.com"`, `,"apk_package_name":"com.example"`), unsure},
			{200, `{"success":false}`, wrong},
		}, codes("recaptcha", wrong, 200, "missing-input-response", "invalid-input-response", "timeout-or-duplicate")...),
			codes("recaptcha", ours, 200, "missing-input-secret", "invalid-input-secret")...),
			codes("recaptcha", unsure, 200, "bad-request", "browser-error")...),
		"friendly": append(append(append(append([]row{
			{200, with("friendly", `"2026-03-01T12:00:00Z"`, "1685098040"), right},
			{200, with("friendly", `"login.example.com"`, `"https://login.example.com:8443"`), right},
			{200, with("friendly", "login.example.com", "evil.example.net"), wrong},
			{200, with("friendly", "login.example.com", ""), unsure},
			{200, `{"success":true}`, unsure},
		}, codes("friendly", wrong, 200, "response_invalid", "response_timeout", "response_duplicate")...),
			codes("friendly", ours, 401, "auth_required", "auth_invalid")...),
			codes("friendly", ours, 400, "sitekey_invalid")...),
			codes("friendly", unsure, 400, "bad_request", "something_new")...),
	}
	for name, rows := range tables {
		for _, row := range rows {
			p := newProvider(t, name, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
				io.WriteString(w, row.body)
			})
			if got := outcome(p.Verify(t.Context(), response, "")); got != row.want {
				t.Errorf("%s, status %d %s: %s, want %s", name, row.status, row.body, got, row.want)
			}
		}
	}
	// Several codes: our own fault outweighs, and one unknown spoils the rest.
	for body, want := range map[string]string{
		`{"success":false,"error-codes":["timeout-or-duplicate","invalid-input-secret"]}`:       ours,
		`{"success":false,"error-codes":["timeout-or-duplicate","internal-error"]}`:             unsure,
		`{"success":false,"error-codes":["timeout-or-duplicate","invalid-input-response"]}`:     wrong,
		`{"success":false,"error-codes":["internal-error","invalid-input-secret"],"score":0.9}`: ours,
	} {
		p := newProvider(t, "turnstile", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
		if got := outcome(p.Verify(t.Context(), response, "")); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// TestBrokenReplies: what is no clear yes or no is an error, of every vendor,
// even where a success is wrapped in it.
func TestBrokenReplies(t *testing.T) {
	for name, yes := range good {
		says := func(status int, body string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				io.WriteString(w, body)
			}
		}
		rows := map[string]http.HandlerFunc{
			"empty":            says(200, ""),
			"204":              says(204, ""),
			"null":             says(200, "null"),
			"true":             says(200, "true"),
			"a list":           says(200, "["+yes+"]"),
			"nothing":          says(200, "{}"),
			"true as text":     says(200, strings.Replace(yes, `"success":true`, `"success":"true"`, 1)),
			"true as a number": says(200, strings.Replace(yes, `"success":true`, `"success":1`, 1)),
			"success is null":  says(200, strings.Replace(yes, `"success":true`, `"success":null`, 1)),
			"cut off":          says(200, yes[:len(yes)-1]),
			"twice":            says(200, yes+yes),
			"html":             says(200, "<!DOCTYPE html><html><body>Just a moment... "+yes+"</body></html>"),
			"201 and yes":      says(201, yes),
			"400 and yes":      says(400, yes),
			"400":              says(400, "bad request"),
			"403 html":         says(403, "<html>forbidden</html>"),
			"404":              says(404, "not found"),
			"429":              says(429, `{"success":false}`),
			"500":              says(500, ""),
			"500 and yes":      says(500, yes),
			"502 html":         says(502, "<html>bad gateway</html>"),
			"503 and no":       says(503, `{"success":false}`),
			"503 and a reason": says(503, no(name, vendors[name].theirs[1])),
			"too long":         says(200, yes+strings.Repeat(" ", maxReply)),
			"a redirect": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Errorf("%s: a redirect was followed", name)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(307)
				io.WriteString(w, yes)
			},
			"a reset": func(w http.ResponseWriter, _ *http.Request) {
				if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
					_ = c.(*net.TCPConn).SetLinger(0)
					c.Close()
				}
			},
			"a reset in the body": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "4096")
				io.WriteString(w, yes)
				panic(http.ErrAbortHandler)
			},
			"a hang": func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			},
			"a hang in the body": func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, yes[:10])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			},
		}
		for what, h := range rows {
			p := newProvider(t, name, h)
			if p.deadline != 2*time.Second {
				t.Errorf("deadline %v", p.deadline)
			}
			if strings.HasPrefix(what, "a hang") {
				p.deadline = 100 * time.Millisecond // a bound, not an assertion
			}
			ok, err := p.Verify(t.Context(), response, "")
			if got := outcome(ok, err); got != unsure {
				t.Errorf("%s: %s: %s, want %s", name, what, got, unsure)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), response)) {
				t.Errorf("%s: %s: the error tells a secret: %v", name, what, err)
			}
		}
	}
}

func TestAReplayIsWrong(t *testing.T) {
	spent := map[string]string{"turnstile": "timeout-or-duplicate", "hcaptcha": "already-seen-response",
		"recaptcha": "timeout-or-duplicate", "friendly": "response_duplicate"}
	for name, yes := range good {
		var n atomic.Int32
		p := newProvider(t, name, func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) == 1 {
				io.WriteString(w, yes)
				return
			}
			io.WriteString(w, no(name, spent[name]))
		})
		for i, want := range []string{right, wrong, wrong} {
			if got := outcome(p.Verify(t.Context(), response, "")); got != want {
				t.Errorf("%s: answer %d: %s, want %s", name, i+1, got, want)
			}
		}
	}
}

func TestNobodyIsAskedAboutNonsense(t *testing.T) {
	for name := range good {
		p := newProvider(t, name, func(http.ResponseWriter, *http.Request) { t.Errorf("%s was asked", name) })
		for _, r := range []string{"", strings.Repeat("x", maxResponse+1)} {
			if got := outcome(p.Verify(t.Context(), r, "")); got != wrong {
				t.Errorf("%s: %d bytes: %s", name, len(r), got)
			}
		}
	}
}

func TestNobodyThereIsUnsure(t *testing.T) {
	for name := range good {
		srv := httptest.NewServer(nil)
		srv.Close()
		p, err := NewProvider(config(name, srv.URL))
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome(p.Verify(t.Context(), response, "")); got != unsure {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func percent(s string) (p escalation.Percent) {
	_ = p.UnmarshalText([]byte(s))
	return p
}

// TestWhatIsAskedForIsHeldTo: an action and a score of one's own.
func TestWhatIsAskedForIsHeldTo(t *testing.T) {
	for score, want := range map[string]string{"0.7": right, "0.69": wrong} {
		for action, wantAction := range map[string]string{"login": right, "guardd": wrong} {
			c := config("recaptcha", "https://stub.example")
			c.MinScore, c.Action = percent("70%"), "login"
			c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				body := strings.NewReplacer("0.9", score, "guardd", action).Replace(good["recaptcha"])
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
			})
			p, err := NewProvider(c)
			if err != nil {
				t.Fatal(err)
			}
			want := want
			if wantAction == wrong {
				want = wrong
			}
			if got := outcome(p.Verify(t.Context(), response, "")); got != want || p.Action() != "login" {
				t.Errorf("score %s, action %s: %s, want %s", score, action, got, want)
			}
		}
	}
}

func TestProviderFaultsAreNamed(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Config)
		fields string
	}{
		{"turnstile", func(*Config) {}, ""},
		{"recaptcha", func(c *Config) { c.MinScore, c.Action = percent("70%"), "login" }, ""},
		{"captcha", func(*Config) {}, "name"},
		{"hcaptcha", func(c *Config) { *c = Config{ThirdParty: escalation.ThirdParty{Name: "hcaptcha"}, Path: c.Path} }, "site_key secret_file hosts"},
		{"hcaptcha", func(c *Config) { c.Secret = "two\nlines" }, "secret_file"},
		{"hcaptcha", func(c *Config) { c.Action = "login" }, "action"},
		{"turnstile", func(c *Config) { c.Action = "log in" }, "action"},
		{"turnstile", func(c *Config) { c.MinScore = percent("50%") }, "min_score"},
		{"recaptcha", func(c *Config) { c.MinScore = percent("0%") }, "min_score"},
		{"recaptcha", func(c *Config) { c.MinScore = percent("empty") }, "min_score"},
		{"recaptcha", func(c *Config) { c.MinScore = percent("0.5") }, "min_score"},
		{"friendly", func(c *Config) { c.Hosts = []string{"a.example", "https://b.example", ""} }, "hosts[1] hosts[2]"},
		{"friendly", func(c *Config) { c.URL = "eu" }, "url"},
	} {
		c := config(row.name, "https://stub.example")
		c.Path = "providers.x"
		row.change(&c)
		var faults escalation.Faults
		errors.As(c.Validate(), &faults)
		var got []string
		for _, f := range faults {
			field, ok := strings.CutPrefix(f.Field, "providers.x.")
			if !ok || f.Reason == "" {
				t.Errorf("fault %+v", f)
			}
			got = append(got, field)
		}
		if strings.Join(got, " ") != row.fields {
			t.Errorf("%s: faults of %q, want %q", row.name, strings.Join(got, " "), row.fields)
		}
		if p, err := NewProvider(c); (p == nil) != (row.fields != "") || (err == nil) != (p != nil) {
			t.Errorf("%s: %v, %v", row.name, p, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestVendorsOwnAddresses holds the addresses that nobody configures.
func TestVendorsOwnAddresses(t *testing.T) {
	for name, want := range map[string]string{
		"turnstile": "https://challenges.cloudflare.com/turnstile/v0/siteverify https://challenges.cloudflare.com/turnstile/v0/api.js",
		"hcaptcha":  "https://api.hcaptcha.com/siteverify https://js.hcaptcha.com/1/api.js",
		"recaptcha": "https://www.google.com/recaptcha/api/siteverify https://www.google.com/recaptcha/api.js?render=site-key-1",
		"friendly":  "https://global.frcapi.com/api/v2/captcha/siteverify https://cdn.jsdelivr.net/npm/@friendlycaptcha/sdk@1.0.2/site.min.js",
	} {
		c := config(name, "")
		var asked string
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.String()
			return nil, errors.New("not in a test")
		})
		p, err := NewProvider(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Verify(t.Context(), response, "")
		if got := asked + " " + p.Script(); got != want || err == nil {
			t.Errorf("%s: %s, want %s (%v)", name, got, want, err)
		}
	}
}
