package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Policy says what a login does while guardd gives no decision.
type Policy int

// The policies.
const (
	// FailOpen lets visitors try, unprotected. The default: guardd adds
	// friction to a login, it must not be what takes it down. The error beside
	// the response is what to alert on.
	FailOpen Policy = iota
	// FailClosed lets nobody try.
	FailClosed
)

// DefaultTimeout bounds one call, both tries together.
const DefaultTimeout = 150 * time.Millisecond

// Config is what New needs. Only URL is required.
type Config struct {
	URL string // of guardd, as http://127.0.0.1:8080
	Key string // Bearer key; "" where none are configured
	// HTTPClient sends the requests. nil: one of the client's own, which keeps
	// up to 64 idle connections and follows no redirects.
	HTTPClient *http.Client
	// Timeout bounds one call, both tries together, waits not. 0: DefaultTimeout.
	Timeout time.Duration
	Policy  Policy
	// WaitOut: Attempt sits out delays of up to this much in all, and asks
	// again with the wait as its proof. The visitor's request is held open
	// meanwhile, so bound how many. 0: a delay is returned as it is.
	WaitOut time.Duration
	// MinimumCount is from how many sightings a password counts as breached. 0: 1.
	MinimumCount uint64
}

// Client asks one guardd, or one address with several behind it. It is safe
// for concurrent use.
type Client struct {
	base    string
	key     string
	http    *http.Client
	timeout time.Duration
	policy  Policy
	waitOut time.Duration
	minimum uint64
}

// New checks the configuration; nothing is sent yet. Errors name the field.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: URL is not like http://host:port: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("client: URL is not like http://host:port")
	case strings.ContainsAny(c.Key, " \t\r\n"):
		return nil, errors.New("client: Key holds a blank")
	case c.Timeout < 0:
		return nil, errors.New("client: Timeout is negative")
	case c.WaitOut < 0:
		return nil, errors.New("client: WaitOut is negative")
	case c.Policy != FailOpen && c.Policy != FailClosed:
		return nil, errors.New("client: Policy is neither FailOpen nor FailClosed")
	}
	if c.HTTPClient == nil {
		c.HTTPClient = ownClient()
	}
	return &Client{base: strings.TrimSuffix(u.String(), "/"), key: c.Key, http: c.HTTPClient,
		timeout: cmp.Or(c.Timeout, DefaultTimeout), policy: c.Policy, waitOut: c.WaitOut, minimum: c.MinimumCount}, nil
}

// ownClient keeps as many connections as a busy handler uses (the standard
// two would mean a handshake per login), and follows no redirect: a POST
// would arrive as a GET, and the key elsewhere.
func ownClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Attempt asks whether the visitor may make this guess. The response is never
// nil; Proceed says what to do, whatever happened:
//
//   - guardd decided: error nil.
//   - guardd refused what is in the request (a name with a NUL in it, say):
//     error a *Problem that names the fields, Proceed false under every policy,
//     or visitors could choose to be unprotected.
//   - guardd gave no decision (not there, too slow, wrong key, broken):
//     Unreachable, and Proceed by Config.Policy, beside the error.
//   - ctx was cancelled, which a visitor does by hanging up: Proceed false
//     under every policy. A half-closed connection still reads an answer, so
//     anything else would be a guess for free.
func (c *Client) Attempt(ctx context.Context, q AttemptRequest) (*AttemptResponse, error) {
	q.RequestID = cmp.Or(q.RequestID, rand.Text())
	a, err := c.attempt(ctx, &q)
	for left := c.waitOut; err == nil && a.Action == ActionDelay && a.Challenge != nil; {
		wait := max(time.Duration(a.RetryAfterMS), 1) * time.Millisecond
		if wait > left || !sleep(ctx, wait) {
			break
		}
		left -= wait
		q.Proof, q.Challenge, q.Answer = a.Challenge.Token, "", ""
		a, err = c.attempt(ctx, &q)
	}
	if err != nil {
		return c.undecided(ctx, err), err
	}
	return a, nil
}

func (c *Client) attempt(ctx context.Context, q *AttemptRequest) (*AttemptResponse, error) {
	if !utf8.ValidString(q.Account) { // encoding/json would send another name
		return nil, &Problem{Type: ProblemBase + ProblemInvalid, Title: "Invalid request", Status: http.StatusBadRequest,
			Fields: []FieldError{{Field: "account", Reason: "invalid_utf8"}}}
	}
	a := new(AttemptResponse)
	if err := c.call(ctx, "/v1/attempts", q, a); err != nil {
		return nil, err
	}
	if a.Action == "" {
		return nil, errors.New("guardd's answer holds no action; is something else at this URL?")
	}
	return a, nil
}

func (c *Client) undecided(ctx context.Context, err error) *AttemptResponse {
	var p *Problem
	a := &AttemptResponse{Action: ActionDeny, Reasons: []string{}, Tiers: []TierLevel{}}
	if errors.As(err, &p) && p.aboutContent() {
		return a
	}
	a.Unreachable = true
	if c.policy == FailOpen && !errors.Is(ctx.Err(), context.Canceled) {
		a.Action, a.Proceed = ActionAllow, true
	}
	return a
}

// sleep waits and reports true, or false at once when ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Outcome reports what became of an attempt. The response is never nil. An
// empty Attempt (guardd was unreachable, or let nobody through) is not sent:
// there is nothing to report, and Recorded is false. It is safe to repeat.
func (c *Client) Outcome(ctx context.Context, q OutcomeRequest) (*OutcomeResponse, error) {
	r := &OutcomeResponse{Advice: []string{}}
	if q.Attempt == "" {
		return r, nil
	}
	if err := c.call(ctx, "/v1/outcomes", &q, r); err != nil {
		return &OutcomeResponse{Advice: []string{}}, err
	}
	return r, nil
}

// Revoke makes an account's devices, places and proofs count for nothing:
// call it after a password change, and repeat it on an error.
func (c *Client) Revoke(ctx context.Context, q RevokeRequest) error {
	r := new(RevokeResponse)
	if err := c.call(ctx, "/v1/devices/revoke", &q, r); err != nil {
		return err
	}
	if !r.Revoked {
		return errors.New("guardd's answer does not say revoked; is something else at this URL?")
	}
	return nil
}
