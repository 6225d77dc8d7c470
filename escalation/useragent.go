package escalation

import (
	"bytes"
	"slices"
)

// uaFamilies are what a user agent's text says it is, in the order in which
// they are looked for: browsers carry the names of those they descend from
// (Edge says Chrome and Safari), and crawlers carry a browser's.
var uaFamilies = []struct {
	class string
	words [][]byte // lower case; one is enough
}{
	{"bot", lower("bot/", "bot;", "bot ", "crawler", "spider", "slurp", "headlesschrome", "phantomjs", "+http")},
	{"script", lower("curl/", "wget/", "python", "go-http-client", "okhttp-cli", "libwww", "httpclient", "node-fetch",
		"axios/", "undici", "java/", "ruby", "perl", "php/", "guzzle", "postman", "insomnia", "aiohttp", "httpx", "scrapy", "powershell")},
	{"app", lower("okhttp/", "cfnetwork/", "dart/", "dalvik/", "alamofire/", "reactnative", "electron/", "; wv)")},
	{"edge", lower("edg/", "edga/", "edgios/", "edge/")},
	{"opera", lower("opr/", "opt/", "opera")},
	{"samsung", lower("samsungbrowser/")},
	{"firefox", lower("firefox/", "fxios/")},
	{"chrome", lower("chrome/", "crios/", "chromium/")},
	{"safari", lower("safari/")},
}

// The classes of a user agent that is empty, and of one that nobody knows.
const (
	uaNone  = "none"
	uaOther = "other"
)

// UAClasses lists every class of a user agent. Attempts are sealed with the
// place of theirs in it, for a quarter of an hour.
var UAClasses = func() (all []string) {
	for _, f := range uaFamilies {
		all = append(all, f.class)
	}
	return append(all, uaNone, uaOther)
}()

// maxUA is how much of a user agent is looked at: visitors choose it, and may
// send kilobytes.
const maxUA = 512

// UAClass says which of UAClasses a user agent claims to be. It is a claim and
// nothing else. The text itself leaves the process nowhere: it is as good as a
// name for who has a rare one.
func UAClass(userAgent string) string {
	if userAgent == "" {
		return uaNone
	}
	var buf [maxUA]byte // every attempt comes by here: on the stack
	ua := buf[:copy(buf[:], userAgent)]
	for i, c := range ua {
		if c >= 'A' && c <= 'Z' {
			ua[i] = c + 'a' - 'A'
		}
	}
	for _, f := range uaFamilies {
		for _, w := range f.words {
			if bytes.Contains(ua, w) {
				return f.class
			}
		}
	}
	return uaOther
}

// uaIndex and uaAt are a class as one byte; one that is not known here, of a
// newer version, is other.
func uaIndex(class string) byte { return byte(max(slices.Index(UAClasses, class), 0)) }

func uaAt(i byte) string {
	if int(i) < len(UAClasses) {
		return UAClasses[i]
	}
	return uaOther
}

func lower(words ...string) (all [][]byte) {
	for _, w := range words {
		all = append(all, []byte(w))
	}
	return all
}
