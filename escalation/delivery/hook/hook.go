package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Timeout bounds one request, from dialling to the end of the answer. Standard
// Webhooks recommends 15 to 30 s.
const Timeout = 15 * time.Second

// LeastKey is the shortest signing key in bytes (Standard Webhooks 1.0.0).
const LeastKey = 24

// Target reads where to post to, and which networks may be dialled beside public
// ones. bad is told each fault, with url or allow_networks[i] for its field.
func Target(raw string, networks []string, bad func(field, format string, args ...any)) Gate {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		bad("url", "is not an https URL")
	case u.User != nil || u.Fragment != "":
		bad("url", "has a user or fragment: the receiver knows guardd by its signature")
	}
	g := Gate{Plain: err == nil && u.Scheme == "http"}
	for i, s := range networks {
		p, err := netip.ParsePrefix(s)
		if err != nil || p != p.Masked() {
			bad(fmt.Sprintf("allow_networks[%d]", i), "%q is not a network such as 10.20.0.0/16", s)
			continue
		}
		g.Allow = append(g.Allow, p)
	}
	return g
}

// Keys reads signing keys, of which each signs: whsec_ and base64, or anything else as
// it stands. bad is told each fault.
func Keys(lines [][]byte, bad func(format string, args ...any)) (keys [][]byte) {
	if len(lines) == 0 {
		bad("a signing secret is needed: whsec_ and the base64 of %d random bytes or more", LeastKey)
	}
	for i, line := range lines {
		key := slices.Clone(line)
		if text, ok := strings.CutPrefix(string(line), "whsec_"); ok {
			var err error
			if key, err = base64.StdEncoding.DecodeString(text); err != nil {
				bad("secret %d is not base64 after whsec_", i+1)
				continue
			}
		}
		if len(key) < LeastKey {
			bad("secret %d has fewer than %d bytes", i+1, LeastKey)
		}
		keys = append(keys, key)
	}
	return keys
}

// Sign returns the signatures of a message with each of keys. id must have no dots,
// which part the signed content.
func Sign(keys [][]byte, id string, unix int64, body []byte) string {
	var all []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.%s", id, unix, body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// SetHeaders signs a request at its time.
func SetHeaders(h http.Header, keys [][]byte, id string, unix int64, body []byte) {
	h.Set("User-Agent", "guardd")
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(unix, 10))
	h.Set("webhook-signature", Sign(keys, id, unix, body))
}

// Client dials what the gate lets through, and follows nobody elsewhere.
func Client(g Gate, t *tls.Config) *http.Client {
	d := &net.Dialer{Timeout: Timeout, Control: g.Control}
	return &http.Client{
		Timeout: Timeout,
		// A redirect would be a second destination that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// No proxy: behind one, the address that the gate judges is the proxy's.
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        t,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns:           4,
			IdleConnTimeout:        90 * time.Second,
		},
	}
}

// Again tells whether an answer is worth another try.
func Again(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// RetryAfter reads seconds or a date; what is neither, or past, is 0.
func RetryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// WithoutURL drops the URL from a client's error: its path may be a secret.
func WithoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
