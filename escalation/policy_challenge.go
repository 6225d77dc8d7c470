package escalation

import (
	"fmt"
	"slices"
	"strings"
)

// Pow is a realm's proof of work: derivations of a key, of which a browser does
// about a thousand a second at the default cost. It proves cost, not humanity.
type Pow struct {
	// Off offers none.
	Off bool `yaml:"off,omitempty"`
	// Cost is the number of rounds of one derivation (PBKDF2/SHA-256). Default
	// 5000.
	Cost int `yaml:"cost,omitempty"`
	// Tries is how many derivations the mildest takes, at least; at most twice
	// as many. Each step below the threshold, and each posture, doubles it, up
	// to 20,000. Default 100.
	Tries int `yaml:"tries,omitempty"`
	// SatisfiesCaptcha offers it in place of a picture, too.
	SatisfiesCaptcha bool `yaml:"satisfies_captcha,omitempty"`
}

// ThirdParty is one provider of challenges, as data: package captcha gives the
// fields their meaning, judges them, and makes the Provider.
type ThirdParty struct {
	// Name is turnstile, hcaptcha, recaptcha or friendly.
	Name string `yaml:"name"`
	// SiteKey is the public key.
	SiteKey string `yaml:"site_key"`
	// SecretFile holds the secret key.
	SecretFile string `yaml:"secret_file"`
	// Hosts are the host names on which the widget may have been solved.
	Hosts []string `yaml:"hosts,omitempty"`
	// Action is what the widget was shown for, where the provider knows it.
	Action string `yaml:"action,omitempty"`
	// MinScore is the least score that counts as human, where the provider
	// gives one.
	MinScore Percent `yaml:"min_score,omitempty"`
	// URL is where answers are verified, when not at the provider's own address.
	URL string `yaml:"url,omitempty"`
}

// The notices that an owner may be sent, at most one an hour.
const (
	NoticeFailures = "success_after_failures" // somebody got in after many failures
	NoticeDevice   = "new_device"             // from a device not seen before
	NoticeRevoked  = "devices_revoked"        // known devices count no more
)

// Notices are all of them.
var Notices = []string{NoticeFailures, NoticeDevice, NoticeRevoked}

// validChallenges fills in and compiles what the realm says of challenges.
func (r *Realm) validChallenges(path string, c *realmRules, faults *Faults) {
	// Codes are the way past every rung that nobody else can use up: a realm
	// that cannot send them would lock its owners out.
	if r.Delivery.Driver == "" {
		faults.Add(path+".delivery", "is needed, because every rung above allow can ask for a code: say {driver: webhook, ...}, smtp, or log (for development)")
	}
	if r.Pow.Cost == 0 {
		r.Pow.Cost = defaultPowCost
	}
	if r.Pow.Tries == 0 {
		r.Pow.Tries = defaultPowTries
	}
	if n := r.Pow.Cost; n < 1 || n > maxPowCost {
		faults.Add(path+".pow.cost", "%d is not from 1 to %d", n, maxPowCost)
	}
	if n := r.Pow.Tries; n < 1 || n > maxPowTries {
		faults.Add(path+".pow.tries", "%d is not from 1 to %d", n, maxPowTries)
	}
	c.pow = powRules{cost: r.Pow.Cost, tries: int64(r.Pow.Tries), captcha: r.Pow.SatisfiesCaptcha}
	if r.Pow.Off {
		c.pow = powRules{}
	}
	seen := map[string]bool{}
	for i, p := range r.Providers {
		if seen[p.Name] {
			faults.Add(fmt.Sprintf("%s.providers[%d].name", path, i), "%q is named twice", p.Name)
		}
		seen[p.Name] = true
	}
	if r.Notices == nil {
		r.Notices = slices.Clone(Notices)
	}
	c.notices = map[string]bool{}
	for i, n := range r.Notices {
		if !slices.Contains(Notices, n) {
			faults.Add(fmt.Sprintf("%s.notices[%d]", path, i), "%q is not one of %s", n, strings.Join(Notices, ", "))
		}
		c.notices[n] = true
	}
}
