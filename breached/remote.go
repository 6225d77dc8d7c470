package breached

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/guardd/guardd/breached/rangetext"
)

// Defaults of a Remote.
const (
	DefaultRemoteURL = "https://api.pwnedpasswords.com"
	// DefaultRemoteTimeout is what the public service's edge needs ten times over.
	DefaultRemoteTimeout = time.Second
	// DefaultRemoteCache is some 20 MB of ranges.
	DefaultRemoteCache = 256
	// DefaultRemoteFresh is how often the public service purges what has changed.
	DefaultRemoteFresh = 24 * time.Hour
	// DefaultRemoteParallel is how many ranges are fetched at once.
	DefaultRemoteParallel = 16
)

// RemoteConfig is what NewRemote needs. Everything has a default.
type RemoteConfig struct {
	// URL is of the service; /range/ and the prefix are put behind it.
	URL string
	// Timeout bounds one question, all of it.
	Timeout time.Duration
	// Cache is how many ranges are kept, each of 40 to 90 KB; negative: none.
	Cache int
	// Fresh is for how long a kept range is not asked for again. After that it
	// is, by its ETag.
	Fresh time.Duration
	// Parallel is how many ranges are fetched at once; further questions wait, and
	// end by their timeout.
	Parallel int
	// HTTPClient sends the requests; nil: one that goes by HTTPS_PROXY and
	// NO_PROXY. Redirects are not followed whatever it says.
	HTTPClient *http.Client
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Remote is a range service elsewhere, the public one or what is compatible
// with it. It is told a prefix, which one of some 2,000 hashes it is it is not,
// and by padding nobody in between sees which prefix it was from the size.
//
// Whatever is not a well-formed answer is an error: any status but 200 (and 304
// to a range that is kept), a page, no rows, a row that is none, a redirect, an
// answer that comes too late. No error holds a prefix.
type Remote struct {
	c      RemoteConfig
	base   string
	http   *http.Client
	slots  chan struct{}
	flight singleflight.Group
	kept   keptRanges
}

// NewRemote checks the configuration; nothing is sent yet. Errors name the
// field.
func NewRemote(c RemoteConfig) (*Remote, error) {
	c.URL = cmp.Or(c.URL, DefaultRemoteURL)
	c.Timeout = cmp.Or(c.Timeout, DefaultRemoteTimeout)
	c.Cache = cmp.Or(c.Cache, DefaultRemoteCache)
	c.Fresh = cmp.Or(c.Fresh, DefaultRemoteFresh)
	c.Parallel = cmp.Or(c.Parallel, DefaultRemoteParallel)
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("url: must be like %s", DefaultRemoteURL)
	case c.Timeout < 0:
		return nil, errors.New("timeout: must not be negative")
	case c.Fresh < 0:
		return nil, errors.New("fresh: must not be negative")
	case c.Parallel < 0:
		return nil, errors.New("parallel: must not be negative")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Remote{c: c, base: strings.TrimSuffix(u.String(), "/") + "/range/", slots: make(chan struct{}, c.Parallel)}
	r.kept.most = max(c.Cache, 0)
	client := http.Client{}
	if c.HTTPClient != nil {
		client = *c.HTTPClient
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = c.Parallel
		client.Transport = t
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.http = &client
	return r, nil
}

// Close closes idle connections.
func (r *Remote) Close() error {
	r.http.CloseIdleConnections()
	return nil
}

// Check implements Source: it fetches the hash's range and looks there.
func (r *Remote) Check(ctx context.Context, h Hash) (Verdict, error) {
	if h.kind.Size() == 0 {
		return Verdict{}, ErrKind
	}
	k, err := r.fetch(ctx, h.kind, h.Prefix())
	if err != nil {
		return Verdict{}, err
	}
	n, err := rangetext.Find(k.body, h.Suffix())
	if err != nil {
		return Verdict{}, remoteError(err)
	}
	return Verdict{Breached: n > 0, Count: n, Complete: true}, nil
}

// Range implements Source. The ETag is of the rows, since what the service says
// is of its padding too.
func (r *Remote) Range(ctx context.Context, kind Kind, prefix string) (*Range, error) {
	if _, err := ParsePrefix(prefix); err != nil {
		return nil, err
	}
	if kind.Size() == 0 {
		return nil, ErrKind
	}
	k, err := r.fetch(ctx, kind, strings.ToUpper(prefix))
	if err != nil {
		return nil, err
	}
	return &Range{Body: k.body, ETag: k.ownTag, Modified: k.modified}, nil
}

// keptRange is an answer of the service, without its padding.
type keptRange struct {
	body     []byte
	ownTag   string
	tag      string // the service's
	modified time.Time
	until    time.Time // fresh
}

// fetch returns a range that is kept and fresh, or asks for it: once, however
// many want it at once.
func (r *Remote) fetch(ctx context.Context, kind Kind, prefix string) (*keptRange, error) {
	key := rangeKey{kind, prefix}
	if k := r.kept.get(key); k != nil && r.c.Now().Before(k.until) {
		return k, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	// The question outlives who asked first: others may wait for its answer.
	done := r.flight.DoChan(kind.String()+prefix, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.c.Timeout)
		defer cancel()
		return r.ask(ctx, key)
	})
	select {
	case got := <-done:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*keptRange), nil
	case <-ctx.Done():
		return nil, remoteError(ctx.Err())
	}
}

// ask fetches a range and keeps it.
func (r *Remote) ask(ctx context.Context, key rangeKey) (*keptRange, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, remoteError(errors.New("too many ranges are being fetched"))
	}
	old := r.kept.get(key)
	q, err := r.request(ctx, key, old)
	if err != nil {
		return nil, remoteError(err)
	}
	w, err := r.http.Do(q)
	if err != nil {
		return nil, remoteError(err)
	}
	defer w.Body.Close()
	k, err := r.read(w, key.kind, old)
	if err != nil {
		return nil, remoteError(err)
	}
	r.kept.put(key, k)
	return k, nil
}

func (r *Remote) request(ctx context.Context, key rangeKey, old *keptRange) (*http.Request, error) {
	target := r.base + key.prefix
	if key.kind == NTLM {
		target += "?mode=ntlm"
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("User-Agent", "guardd (+https://github.com/guardd/guardd)")
	q.Header.Set("Add-Padding", "true")
	if old != nil && old.tag != "" {
		q.Header.Set("If-None-Match", old.tag)
	}
	return q, nil
}

// read takes an answer for what it says, or for none.
func (r *Remote) read(w *http.Response, kind Kind, old *keptRange) (*keptRange, error) {
	until := r.c.Now().Add(r.c.Fresh)
	if w.StatusCode == http.StatusNotModified && old != nil && old.tag != "" {
		k := *old
		k.until = until
		return &k, nil
	}
	if w.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", w.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(w.Body, rangetext.MaxBody+1))
	if err != nil {
		return nil, err
	}
	if body, err = rangetext.Strip(body, kind.SuffixDigits()); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	k := &keptRange{body: body, tag: w.Header.Get("ETag"), ownTag: strconv.Quote(fmt.Sprintf("%x", sum[:16])), until: until}
	if at, err := http.ParseTime(w.Header.Get("Last-Modified")); err == nil {
		k.modified = at
	}
	return k, nil
}

// ErrRemote is wrapped by every error of a Remote that is not one of the
// contract's: what it would have answered is unknown.
var ErrRemote = errors.New("the range service gave no answer that counts")

// remoteError says why, without the address: that ends with the prefix.
func remoteError(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	if errors.Is(err, ErrRemote) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRemote, err)
}
