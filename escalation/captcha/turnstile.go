package captcha

// turnstile is Cloudflare's. A response lives for five minutes, once.
// developers.cloudflare.com/turnstile/get-started/server-side-validation
var turnstile = vendor{
	endpoint: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	script:   "https://challenges.cloudflare.com/turnstile/v0/api.js",
	request:  siteverify(nil),
	read:     readSiteverify,
	ours:     []string{"missing-input-secret", "invalid-input-secret", "invalid-widget-id", "invalid-parsed-secret"},
	theirs:   []string{"missing-input-response", "invalid-input-response", "timeout-or-duplicate"},
	action:   true,
}
