package aggregate

import "strings"

// uaFamilies are what a user agent's text says it is, in the order in which
// they are looked for: browsers carry the names of those they descend from
// (Edge says Chrome and Safari), and crawlers carry a browser's.
var uaFamilies = []struct {
	class string
	words []string // lower case; one is enough
}{
	{"bot", []string{"bot/", "bot;", "bot ", "crawler", "spider", "slurp", "headlesschrome", "phantomjs", "+http"}},
	{"script", []string{"curl/", "wget/", "python", "go-http-client", "okhttp-cli", "libwww", "httpclient", "node-fetch",
		"axios/", "undici", "java/", "ruby", "perl", "php/", "guzzle", "postman", "insomnia", "aiohttp", "httpx", "scrapy", "powershell"}},
	{"app", []string{"okhttp/", "cfnetwork/", "dart/", "dalvik/", "alamofire/", "reactnative", "electron/", "; wv)"}},
	{"edge", []string{"edg/", "edga/", "edgios/", "edge/"}},
	{"opera", []string{"opr/", "opt/", "opera"}},
	{"samsung", []string{"samsungbrowser/"}},
	{"firefox", []string{"firefox/", "fxios/"}},
	{"chrome", []string{"chrome/", "crios/", "chromium/"}},
	{"safari", []string{"safari/"}},
}

// The classes of a user agent that is empty, and of one that nobody knows.
const (
	uaNone  = "none"
	uaOther = "other"
)

// UAClasses lists every value of Event.UAClass.
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
	ua := strings.ToLower(userAgent[:min(len(userAgent), maxUA)])
	for _, f := range uaFamilies {
		for _, w := range f.words {
			if strings.Contains(ua, w) {
				return f.class
			}
		}
	}
	return uaOther
}
