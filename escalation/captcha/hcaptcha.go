package captcha

import "net/url"

// hcaptcha is hCaptcha's. The site key goes along, or a response for another
// site of the same account would count. Its score (of enterprise accounts, and
// higher where riskier) is not looked at: the account's own threshold has
// decided on success. docs.hcaptcha.com
var hcaptcha = vendor{
	endpoint: "https://api.hcaptcha.com/siteverify",
	script:   "https://js.hcaptcha.com/1/api.js",
	request:  siteverify(func(c *Config, form url.Values) { form.Set("sitekey", c.SiteKey) }),
	read:     readSiteverify,
	ours: []string{"missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "invalid-sitekey",
		"not-using-dummy-passcode", "not-using-dummy-secret"},
	theirs: []string{"missing-input-response", "invalid-input-response", "expired-input-response",
		"already-seen-response", "invalid-or-already-seen-response"},
}
