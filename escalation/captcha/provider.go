package captcha

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/escalation"
)

// Config is what NewProvider makes a Provider of. In its ThirdParty:
//
//   - SecretFile's text is given as Secret (friendly calls it the API key).
//   - Hosts are needed: challenges solved anywhere else do not count, or anybody
//     could have ours solved by the visitors of his own site.
//   - Action is turnstile's and recaptcha's, by default Action.
//   - MinScore is recaptcha's, by default 50 %, the vendor's advice: 0 is a
//     machine, 100 % a person.
type Config struct {
	escalation.ThirdParty
	Secret string
	// Transport is how to get there; nil is net/http's own.
	Transport http.RoundTripper
	// Path is of this provider in the configuration, for faults:
	// realms.default.providers[0].
	Path string
}

// Action is what our own pages call a challenge where a vendor asks for a name.
const Action = "guardd"

// deadline bounds asking a third party. A visitor waits meanwhile, and has our
// own picture when it passes.
const deadline = 2 * time.Second

// Bounds in bytes: of what a widget gave (the longest vendors' are a few
// thousand) and of a vendor's reply.
const (
	maxResponse = 16 << 10
	maxReply    = 64 << 10
)

// vendor is what differs between third parties.
type vendor struct {
	endpoint, script string
	// request is how to ask.
	request func(c *Config, response, ip string) (body, contentType string, h http.Header)
	// read is how to understand what comes back.
	read func(body []byte) (*reply, error)
	// ours and theirs are the codes of a refusal that are our own fault, and the
	// visitor's. Any other (an internal error, something new) tells nothing.
	ours, theirs []string
	action       bool // whether replies have one
	score        bool
}

// vendors are by name.
var vendors = map[string]vendor{"turnstile": turnstile, "hcaptcha": hcaptcha, "recaptcha": recaptcha, "friendly": friendly}

// Names are those of all providers, in alphabetical order.
var Names = slices.Sorted(maps.Keys(vendors))

// reply is what a vendor said. Pointers are nil where it said nothing.
type reply struct {
	success      *bool
	codes        []string
	host, action string
	score        *float64
}

// provider is a configured vendor. Immutable after NewProvider.
type provider struct {
	vendor
	Config
	minScore float64
	client   *http.Client
	deadline time.Duration
}

// NewProvider makes the Provider that c describes; it asks nobody yet. Errors
// are those of Validate.
func NewProvider(c Config) (escalation.Provider, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &provider{vendor: vendors[c.Name], Config: c, deadline: deadline}
	p.Hosts = slices.Clone(c.Hosts)
	if c.URL != "" {
		p.endpoint = c.URL
	}
	if p.vendor.action && c.Action == "" {
		p.ThirdParty.Action = Action
	}
	if p.minScore = 0.5; !c.MinScore.IsZero() {
		p.minScore = float64(c.MinScore.Threshold()) / 10000
	}
	p.client = &http.Client{
		Transport: c.Transport,
		// The secret is for the endpoint alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

var actionName = regexp.MustCompile(`^[A-Za-z0-9_]{1,32}$`)

// Validate returns nil, or escalation.Faults that name every fault with its
// path.
func (c *Config) Validate() error {
	var faults escalation.Faults
	add := func(field, format string, args ...any) {
		if c.Path != "" {
			field = c.Path + "." + field
		}
		faults.Add(field, format, args...)
	}
	v, ok := vendors[c.Name]
	if !ok {
		add("name", "%q is not one of %s", c.Name, strings.Join(Names, ", "))
	}
	for _, s := range []struct{ field, value string }{{"site_key", c.SiteKey}, {"secret_file", c.Secret}} {
		if s.value == "" || strings.ContainsFunc(s.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			add(s.field, "holds no key")
		}
	}
	if len(c.Hosts) == 0 {
		add("hosts", "are needed: without them, challenges solved on anybody's site would count")
	}
	for i, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/:*@ ") {
			add(fmt.Sprintf("hosts[%d]", i), "%q is not a host name", h)
		}
	}
	if c.Action != "" && !(v.action && actionName.MatchString(c.Action)) {
		add("action", "is of turnstile and recaptcha only, 1 to 32 letters, digits and _")
	}
	if t := c.MinScore.Threshold(); !c.MinScore.IsZero() && !(v.score && t > 0 && t <= 10000) {
		add("min_score", "is of recaptcha only, above 0%% and at most 100%%")
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		add("url", "is not a URL")
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Name is the provider's, as in Config.
func (p *provider) Name() string { return p.ThirdParty.Name }

// SiteKey is public.
func (p *provider) SiteKey() string { return p.ThirdParty.SiteKey }

// Action is what the widget must be shown for; "" where the vendor has none.
func (p *provider) Action() string { return p.ThirdParty.Action }

// Script is where the widget is loaded from.
func (p *provider) Script() string {
	return strings.ReplaceAll(p.script, "{site_key}", url.QueryEscape(p.ThirdParty.SiteKey))
}

// Verify asks the vendor about response, once and for 2 seconds at most.
func (p *provider) Verify(ctx context.Context, response, ip string) (bool, error) {
	if response == "" || len(response) > maxResponse {
		return false, nil
	}
	status, body, err := p.ask(ctx, response, ip)
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.Name(), err)
	}
	ok, err := p.judge(status, body)
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.Name(), err)
	}
	return ok, nil
}

func (p *provider) ask(ctx context.Context, response, ip string) (status int, reply []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.deadline)
	defer cancel()
	body, contentType, header := p.request(&p.Config, response, ip)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for key, v := range header {
		req.Header[key] = v
	}
	req.Header.Set("Content-Type", contentType)
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	reply, err = io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if err == nil && len(reply) > maxReply {
		err = errors.New("the reply is too long")
	}
	return res.StatusCode, reply, err
}

// judge is where every doubt ends as an error: only a reply that says in full
// that the right challenge was solved, in the right place, is a success.
func (p *provider) judge(status int, body []byte) (bool, error) {
	r, err := p.read(body)
	if err != nil || r.success == nil {
		return false, fmt.Errorf("status %d, and the reply cannot be read", status)
	}
	switch {
	case !*r.success:
		return false, p.refusal(status, r.codes)
	case status != http.StatusOK || len(r.codes) > 0:
		return false, fmt.Errorf("status %d and %q in a success", status, r.codes)
	case r.host == "":
		return false, errors.New("the reply does not say where the challenge was solved")
	case p.vendor.score && r.score == nil:
		return false, fmt.Errorf("%w: the reply has no score: the keys are not of version 3", escalation.ErrMisconfigured)
	case p.vendor.score && !(*r.score >= 0 && *r.score <= 1):
		return false, fmt.Errorf("a score of %v", *r.score)
	}
	here := func(h string) bool { return strings.EqualFold(h, r.host) }
	return slices.ContainsFunc(p.Hosts, here) &&
		(!p.vendor.action || r.action == p.ThirdParty.Action) &&
		(!p.vendor.score || *r.score >= p.minScore), nil
}

// refusal is nil where the vendor says that the visitor was wrong.
func (p *provider) refusal(status int, codes []string) error {
	for _, c := range codes {
		if slices.Contains(p.ours, c) {
			return fmt.Errorf("%w: %s", escalation.ErrMisconfigured, c)
		}
	}
	for _, c := range codes {
		if !slices.Contains(p.theirs, c) {
			return fmt.Errorf("status %d, %q", status, codes)
		}
	}
	if status >= 500 || len(codes) == 0 && status != http.StatusOK {
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// siteverify is the form that three of the four share, and its reply.
func siteverify(extra func(c *Config, form url.Values)) func(*Config, string, string) (string, string, http.Header) {
	return func(c *Config, response, ip string) (string, string, http.Header) {
		form := url.Values{"secret": {c.Secret}, "response": {response}}
		if ip != "" {
			form.Set("remoteip", ip)
		}
		if extra != nil {
			extra(c, form)
		}
		return form.Encode(), "application/x-www-form-urlencoded", nil
	}
}

func readSiteverify(body []byte) (*reply, error) {
	var r struct {
		Success  *bool    `json:"success"`
		Codes    []string `json:"error-codes"`
		Hostname string   `json:"hostname"`
		Action   string   `json:"action"`
		Score    *float64 `json:"score"`
	}
	err := json.Unmarshal(body, &r)
	return &reply{r.Success, r.Codes, r.Hostname, r.Action, r.Score}, err
}
