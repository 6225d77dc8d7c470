package api_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
)

// rangeAt asks for a path; headers are name, value, name, value.
func (s *service) rangeAt(path string, headers ...string) answer {
	s.t.Helper()
	return s.ranged(http.MethodGet, path, headers...)
}

func (s *service) ranged(method, path string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.send(r, "")
}

// open serves the corpora to everybody, on either listener.
func openRanges(t *testing.T) map[string]*service {
	c := api.Config{Guard: allowing(), Challenger: &stand{}, Keys: []api.Key{key("shop", "s")}, Breached: api.BreachedConfig{Source: corpora(true), Public: true}}
	return map[string]*service{"service": start(t, c), "challenges": startChallenges(t, c)}
}

func TestARangeIsThePublicServices(t *testing.T) {
	for name, s := range openRanges(t) {
		for query, kind := range map[string]breached.Kind{"": breached.SHA1, "?mode=ntlm": breached.NTLM, "?mode=sha1": breached.SHA1, "?mode=x": breached.SHA1} {
			for _, prefix := range []string{"00000", "00001"} {
				a := s.rangeAt("/range/" + prefix + query)
				if a.StatusCode != http.StatusOK || a.body != string(breachedtest.RealBody(kind, prefix)) {
					t.Fatalf("%s: %s%s: %d, %d bytes", name, prefix, query, a.StatusCode, len(a.body))
				}
				for header, want := range map[string]string{
					"Content-Type": "text/plain", "Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=86400",
					"Last-Modified": breachedtest.Modified.Format(http.TimeFormat), "Content-Encoding": "", "X-Content-Type-Options": "nosniff",
				} {
					if got := a.Header.Get(header); got != want {
						t.Errorf("%s: %s: %q, want %q", name, header, got, want)
					}
				}
				if tag := a.Header.Get("ETag"); !strings.HasPrefix(tag, `"`) || len(tag) < 10 {
					t.Errorf("ETag %s is not a strong one", tag)
				}
			}
		}
		h := breached.HashPassword(breached.SHA1, []byte("password"))
		upper, lower := s.rangeAt("/range/"+h.Prefix()), s.rangeAt("/range/"+strings.ToLower(h.Prefix()))
		if want := h.Suffix() + ":10434004"; upper.body != want || lower.body != want {
			t.Errorf("%s: %q, in small letters %q", name, upper.body, lower.body)
		}
	}
}

func TestPrefixesThatAreNone(t *testing.T) {
	s := openRanges(t)["service"]
	s.key = "s"
	for _, prefix := range []string{"0000", "000000", "0000G", "0000%20", "%2e%2e%2e%2e%2e", "%00%00%00%00%00", "0000é"} {
		for _, path := range []string{"/range/", "/v1/breached/range/"} {
			if got := s.rangeAt(path+prefix).problem(t, http.StatusBadRequest, client.ProblemInvalid); len(got) != 1 || got[0] != "prefix: not_a_prefix" {
				t.Errorf("%s: %q", prefix, got)
			}
		}
	}
}

// An empty 200 would call every password of the prefix safe.
func TestARangeThatIsNotThereIsNoEmptyOne(t *testing.T) {
	s := openRanges(t)["service"]
	for _, path := range []string{"/range/ABCDE", "/range/ABCDE?mode=ntlm"} {
		a := s.rangeAt(path)
		a.problem(t, http.StatusNotFound, client.ProblemNoRange)
		if a.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Error("a page of another origin cannot read why")
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("ETag") != "" {
			t.Errorf("an error is kept: %v", a.Header)
		}
	}
}

func TestPaddingIsOfNoPassword(t *testing.T) {
	s := openRanges(t)["service"]
	sizes := map[int]bool{}
	for query, kind := range map[string]breached.Kind{"": breached.SHA1, "?mode=ntlm": breached.NTLM} {
		body := string(breachedtest.RealBody(kind, "00000"))
		rows := strings.Count(body, "\r\n") + 1
		for range 12 {
			a := s.rangeAt("/range/00000"+query, "Add-Padding", "TRUE")
			rest, ok := strings.CutPrefix(a.body, body+"\r\n")
			if !ok || strings.HasSuffix(rest, "\n") {
				t.Fatal("the rows are not the range's, or a line's end is behind the last")
			}
			padding := strings.Split(rest, "\r\n")
			for _, row := range padding {
				suffix, count, _ := strings.Cut(row, ":")
				if len(suffix) != kind.SuffixDigits() || strings.Trim(suffix, "0123456789ABCDEF") != "" || count != "0" {
					t.Fatalf("%v: padding %q", kind, row)
				}
			}
			if all := rows + len(padding); all < (rows/256+1)*256 || all > (rows/256+1)*256+255 {
				t.Errorf("%d rows became %d", rows, all)
			}
			sizes[len(a.body)] = true
			if tag := a.Header.Get("ETag"); !strings.HasPrefix(tag, `W/"`) {
				t.Errorf("the tag of what is other bytes each time is %s", tag)
			}
			if !strings.Contains(strings.Join(a.Header.Values("Vary"), ","), "Add-Padding") {
				t.Error("a cache would mix the two up")
			}
		}
	}
	if len(sizes) < 12 {
		t.Errorf("24 answers have %d sizes: they tell the prefix", len(sizes))
	}
	if a := s.rangeAt("/range/00000", "Add-Padding", "false"); a.body != string(breachedtest.RealBody(breached.SHA1, "00000")) {
		t.Error("padded though nobody asked")
	}
}

func TestARangeIsAskedForAgainByItsTag(t *testing.T) {
	var l looks
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: corpora(true), Public: true, Looked: l.looked}})
	first := s.rangeAt("/range/00000")
	tag := first.Header.Get("ETag")
	padded := s.rangeAt("/range/00000", "Add-Padding", "true").Header.Get("ETag")
	zipped := s.rangeAt("/range/00000", "Accept-Encoding", "gzip").Header.Get("ETag")
	if zipped == tag || !strings.HasSuffix(zipped, `-gzip"`) {
		t.Errorf("two representations, tags %s and %s", tag, zipped)
	}
	other := s.rangeAt("/range/00001").Header.Get("ETag")
	for name, row := range map[string]struct {
		headers []string
		want    int
	}{
		"its tag":                        {[]string{"If-None-Match", tag}, 304},
		"its tag, made weak by a proxy":  {[]string{"If-None-Match", "W/" + tag}, 304},
		"in a list":                      {[]string{"If-None-Match", other + ", " + tag}, 304},
		"any":                            {[]string{"If-None-Match", "*"}, 304},
		"the padded one's":               {[]string{"If-None-Match", padded}, 304},
		"the compressed one's":           {[]string{"If-None-Match", zipped, "Accept-Encoding", "gzip"}, 304},
		"another's":                      {[]string{"If-None-Match", other}, 200},
		"an encoding that is none":       {[]string{"If-None-Match", strings.TrimSuffix(tag, `"`) + `-zip"`}, 200},
		"rubbish":                        {[]string{"If-None-Match", `"`}, 200},
		"since then":                     {[]string{"If-Modified-Since", breachedtest.Modified.Format(http.TimeFormat)}, 304},
		"since before":                   {[]string{"If-Modified-Since", breachedtest.Modified.Add(-1e9).Format(http.TimeFormat)}, 200},
		"another's tag, since then":      {[]string{"If-None-Match", other, "If-Modified-Since", breachedtest.Modified.Format(http.TimeFormat)}, 200},
		"another's tag, and HEAD asks":   {[]string{"If-None-Match", other}, 200},
		"its tag for the other kind's":   {[]string{"If-None-Match", s.rangeAt("/range/00000?mode=ntlm").Header.Get("ETag")}, 200},
		"its tag, and padding is wanted": {[]string{"If-None-Match", tag, "Add-Padding", "true"}, 304},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := s.ranged(method, "/range/00000", row.headers...)
			if a.StatusCode != row.want || (a.body != "") != (row.want == 200 && method == http.MethodGet) {
				t.Errorf("%s %s: %d, %d bytes", method, name, a.StatusCode, len(a.body))
			}
			if a.Header.Get("ETag") == "" {
				t.Errorf("%s %s: no tag", method, name)
			}
		}
	}
	if l.n["sha1 range_unchanged"] != 16 || l.n["sha1 range"] != 18 || l.n["ntlm range"] != 1 {
		t.Errorf("counted %v", l.n)
	}
}

func TestHeadIsGetWithoutTheRows(t *testing.T) {
	s := openRanges(t)["service"]
	get, head := s.rangeAt("/range/00000"), s.ranged(http.MethodHead, "/range/00000")
	for _, h := range []string{"Content-Length", "Content-Type", "ETag", "Last-Modified", "Cache-Control"} {
		if get.Header.Get(h) == "" || get.Header.Get(h) != head.Header.Get(h) {
			t.Errorf("%s: %q, HEAD %q", h, get.Header.Get(h), head.Header.Get(h))
		}
	}
	if head.body != "" || head.StatusCode != http.StatusOK {
		t.Errorf("%d, %d bytes", head.StatusCode, len(head.body))
	}
}

func TestARangeIsCompressedForWhoAcceptsIt(t *testing.T) {
	s := openRanges(t)["service"]
	want := breachedtest.RealBody(breached.SHA1, "00000")
	for accept, encoding := range map[string]string{
		"gzip": "gzip", "br": "br", "deflate": "deflate", "gzip;q=0": "", "identity": "", "zstd": "", "": "",
		"gzip;q=0.5, br;q=0": "gzip", "br;q=1.0, gzip;q=0": "br",
	} {
		a := s.rangeAt("/range/00000", "Accept-Encoding", accept)
		if got := a.Header.Get("Content-Encoding"); got != encoding {
			t.Errorf("%q is answered in %q, want %q", accept, got, encoding)
			continue
		}
		var body io.Reader = strings.NewReader(a.body)
		var err error
		switch encoding {
		case "gzip":
			body, err = gzip.NewReader(body)
		case "deflate":
			body, err = zlib.NewReader(body)
		case "br":
			body = brotli.NewReader(body)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %d bytes, %v", accept, len(got), err)
		}
		if encoding != "" && (len(a.body) > len(want)*3/4 || !strings.HasSuffix(a.Header.Get("ETag"), "-"+encoding+`"`)) {
			t.Errorf("%q: %d bytes of %d, tag %s", accept, len(a.body), len(want), a.Header.Get("ETag"))
		}
		if !strings.Contains(strings.Join(a.Header.Values("Vary"), ","), "Accept-Encoding") {
			t.Error("a cache would mix encodings up")
		}
	}
	browser := s.rangeAt("/range/00000", "Accept-Encoding", "gzip, deflate, br, zstd")
	if browser.Header.Get("Content-Encoding") == "" {
		t.Error("a browser is sent all of it")
	}
}

func TestPagesOfAnyOriginMayAsk(t *testing.T) {
	for name, s := range openRanges(t) {
		a := s.ranged(http.MethodOptions, "/range/00000", "Origin", "https://shop.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "add-padding")
		got := map[string]string{}
		for _, h := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Headers", "Access-Control-Max-Age"} {
			got[h] = a.Header.Get(h)
		}
		want := map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "Add-Padding", "Access-Control-Max-Age": "1728000"}
		if a.StatusCode != http.StatusOK || !reflect.DeepEqual(got, want) || !strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), "GET") {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.Header)
		}
		if a := s.rangeAt("/range/00000", "Origin", "https://shop.example", "Sec-Fetch-Site", "cross-site"); a.StatusCode != http.StatusOK {
			t.Errorf("%s: a page is answered %d", name, a.StatusCode)
		}
	}
	s := openRanges(t)["service"]
	s.key = "s"
	if a := s.rangeAt("/v1/breached/range/00000"); a.Header.Get("Access-Control-Allow-Origin") != "" || a.Header.Get("Cache-Control") != "private, max-age=86400" {
		t.Errorf("what needs a key: %v", a.Header)
	}
	if a := s.post("/range/00000", ""); a.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(strings.Join(a.Header.Values("Allow"), ","), "GET") {
		t.Errorf("POST: %d %v", a.StatusCode, a.Header)
	}
}
