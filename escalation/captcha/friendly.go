package captcha

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// friendly is Friendly Captcha's version 2, which has the visitor's machine
// work and sends no address along. Its own clients take an outage for a
// success; this one does not. The other endpoint is
// https://eu.frcapi.com/api/v2/captcha/siteverify.
// developer.friendlycaptcha.com/docs/v2/getting-started/verify
var friendly = vendor{
	endpoint: "https://global.frcapi.com/api/v2/captcha/siteverify",
	script:   "https://cdn.jsdelivr.net/npm/@friendlycaptcha/sdk@1.0.2/site.min.js",
	request:  friendlyRequest,
	read:     readFriendly,
	ours:     []string{"auth_required", "auth_invalid", "sitekey_invalid"},
	theirs:   []string{"response_missing", "response_invalid", "response_timeout", "response_duplicate"},
}

func friendlyRequest(c *Config, response, _ string) (string, string, http.Header) {
	body, _ := json.Marshal(map[string]string{"response": response, "sitekey": c.SiteKey}) // strings do not fail
	return string(body), "application/json", http.Header{"X-Api-Key": {c.Secret}}
}

func readFriendly(body []byte) (*reply, error) {
	var r struct {
		Success *bool `json:"success"`
		Error   *struct {
			Code string `json:"error_code"`
		} `json:"error"`
		Data struct {
			Challenge struct {
				Origin string `json:"origin"` // a host name; "" where it was not learned
			} `json:"challenge"`
		} `json:"data"`
	}
	err := json.Unmarshal(body, &r)
	out := &reply{success: r.Success, host: r.Data.Challenge.Origin}
	if u, err := url.Parse(out.host); err == nil && u.Host != "" { // an origin in full
		out.host = u.Hostname()
	}
	if r.Error != nil {
		out.codes = []string{r.Error.Code}
	}
	return out, err
}
