package captcha

// recaptcha is Google's reCAPTCHA version 3, which shows nothing and gives a
// score. A response lives for two minutes, once.
// developers.google.com/recaptcha/docs/v3
var recaptcha = vendor{
	endpoint: "https://www.google.com/recaptcha/api/siteverify",
	script:   "https://www.google.com/recaptcha/api.js?render={site_key}",
	request:  siteverify(nil),
	read:     readSiteverify,
	ours:     []string{"missing-input-secret", "invalid-input-secret"},
	theirs:   []string{"missing-input-response", "invalid-input-response", "timeout-or-duplicate"},
	action:   true,
	score:    true,
}
