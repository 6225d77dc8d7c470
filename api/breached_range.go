package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/CAFxX/httpcompression"
	"github.com/CAFxX/httpcompression/contrib/andybalholm/brotli"
	"github.com/CAFxX/httpcompression/contrib/klauspost/gzip"
	"github.com/CAFxX/httpcompression/contrib/klauspost/zlib"
	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/breached"
)

// This file is the public range service's contract: text/plain, SUFFIX:COUNT
// with CRLF between and none at the end, mode=ntlm, Add-Padding, ETag,
// conditional GET, compression, CORS. Clients that were written for it must not
// find a difference, so errors alone are our own.

// serveRanges mounts the ranges for those who have a key.
func (s *service) serveRanges(r chi.Router) {
	h := compressed(func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.identify(r); err != nil {
			s.fail(w, r, err)
			return
		}
		s.serveRange(w, r, "private, max-age=86400")
	})
	r.Method(http.MethodGet, RouteRange, h)
	r.Method(http.MethodHead, RouteRange, h)
}

// servePublicRanges mounts them for everybody, if that is wanted. Pages of any
// origin may ask.
func (s *service) servePublicRanges(r chi.Router) {
	if !s.Breached.Public {
		return
	}
	open := func(w http.ResponseWriter) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	h := compressed(func(w http.ResponseWriter, r *http.Request) {
		open(w)
		w.Header().Set("Access-Control-Expose-Headers", "ETag")
		s.serveRange(w, r, "public, max-age=86400")
	})
	r.Method(http.MethodGet, RoutePublicRange, h)
	r.Method(http.MethodHead, RoutePublicRange, h)
	r.Options(RoutePublicRange, func(w http.ResponseWriter, _ *http.Request) {
		open(w)
		w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
		w.Header().Set("Access-Control-Allow-Headers", "Add-Padding")
		w.Header().Set("Access-Control-Max-Age", "1728000") // 20 days, as the public service
		w.Header().Set("Cache-Control", "public, max-age=86400")
	})
}

// serveRange answers one prefix. cache is for how long a copy does: corpora
// change by the month, and a kept copy is asked for again by its tag.
func (s *service) serveRange(w http.ResponseWriter, r *http.Request, cache string) {
	kind := breached.SHA1
	if r.URL.Query().Get("mode") == "ntlm" { // any other mode is SHA-1 at the public service, too
		kind = breached.NTLM
	}
	ctx, cancel := context.WithTimeout(r.Context(), carryOut)
	defer cancel()
	got, err := s.rangeOf(ctx, kind, chi.URLParam(r, "prefix"))
	if err != nil {
		s.fail(w, r, s.notLooked(kind, err))
		return
	}
	w.Header().Set("Cache-Control", cache)
	w.Header().Add("Vary", "Add-Padding")
	w.Header().Set("Content-Type", "text/plain")
	if !got.Modified.IsZero() {
		w.Header().Set("Last-Modified", got.Modified.UTC().Format(http.TimeFormat))
	}
	if tag, same := unchanged(r, got); same {
		s.looked(kind, LookedUnchanged)
		setTag(w, tag)
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.looked(kind, LookedRange)
	body, tag := got.Body, got.ETag
	if strings.EqualFold(r.Header.Get("Add-Padding"), "true") {
		body = pad(body, kind)
		if tag != "" {
			tag = "W/" + tag // the rows are the same, the bytes are not
		}
	}
	setTag(w, tag)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (s *service) rangeOf(ctx context.Context, kind breached.Kind, prefix string) (*breached.Range, error) {
	if _, err := breached.ParsePrefix(prefix); err != nil {
		return nil, err
	}
	if s.Breached.Source == nil {
		return nil, breached.ErrKind
	}
	return s.Breached.Source.Range(ctx, kind, prefix)
}

func setTag(w http.ResponseWriter, tag string) {
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
}

// Each encoding of a range is a representation of its own, and has a tag of its
// own: a strong one is of bytes.
const tagMark = "-"

// unchanged reports whether the asker has the rows, in whatever encoding, and
// which of his tags said so.
func unchanged(r *http.Request, got *breached.Range) (tag string, same bool) {
	asked := r.Header.Values("If-None-Match")
	if len(asked) == 0 {
		since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
		return got.ETag, err == nil && !got.Modified.IsZero() && !got.Modified.Truncate(1e9).After(since)
	}
	for _, tag := range strings.Split(strings.Join(asked, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return got.ETag, true
		}
		opaque := strings.TrimPrefix(tag, "W/")
		if n := len(opaque); n > 2 && opaque[0] == '"' && opaque[n-1] == '"' {
			rows, encoding, _ := strings.Cut(opaque[:n-1], tagMark)
			if _, known := encodings[encoding]; rows+`"` == got.ETag && (known || encoding == "") {
				return tag, true
			}
		}
	}
	return "", false
}

// pad appends rows of no password, as many as make the size tell nothing: up to
// the next 256 rows, and up to 255 more.
func pad(body []byte, kind breached.Kind) []byte {
	const step = 256
	rows := strings.Count(string(body), "\n") + 1
	more := step - rows%step + rand.IntN(step)
	digits := kind.SuffixDigits()
	out := make([]byte, len(body), len(body)+more*(digits+len("\r\n:0")))
	copy(out, body)
	for range more {
		out = append(out, "\r\n"...)
		at := len(out)
		for len(out)-at < digits {
			out = fmt.Appendf(out, "%016X", rand.Uint64())
		}
		out = append(out[:at+digits], ":0"...)
	}
	return out
}

// encodings are what a range can be sent in. The levels are fast ones: digits
// compress to half and no further.
var encodings = map[string]httpcompression.Option{
	"br":      httpcompression.BrotliCompressor(must(brotli.New(brotli.Options{Quality: 1}))),
	"gzip":    httpcompression.GzipCompressor(must(gzip.New(gzip.Options{Level: 1}))),
	"deflate": httpcompression.DeflateCompressor(must(zlib.New(zlib.Options{Level: 1}))),
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the levels are constants
	}
	return v
}

var compress = must(httpcompression.Adapter(encodings["br"], encodings["gzip"], encodings["deflate"],
	httpcompression.ContentTypes([]string{"text/plain"}, false)))

// compressed lets h be answered in what the asker accepts.
func compressed(h http.HandlerFunc) http.Handler {
	inner := compress(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(&tagger{ResponseWriter: w}, r) })
}

// tagger gives the tag of an encoded answer the encoding's name.
type tagger struct {
	http.ResponseWriter
	begun bool
}

func (w *tagger) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

func (w *tagger) WriteHeader(status int) {
	w.begun = true
	h := w.Header()
	if tag, e := h.Get("ETag"), h.Get("Content-Encoding"); e != "" && strings.HasPrefix(tag, `"`) {
		h.Set("ETag", strings.TrimSuffix(tag, `"`)+tagMark+e+`"`)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap serves http.ResponseController.
func (w *tagger) Unwrap() http.ResponseWriter { return w.ResponseWriter }
