package soc

import (
	"maps"
	"slices"
)

// kind is what there is to say of a kind of findings beside the finding itself.
// Techniques are MITRE ATT&CK's.
type kind struct {
	title    string
	severity Severity // before a posture raises it
	analytic analytic
	tactic   [2]string // id, name
	attack   [2]string
	sub      [2]string
	// configuration: something of guardd was changed, nobody has attacked.
	configuration bool
}

// analytic is how a finding is come to, as OCSF's type_id.
type analytic uint8

const (
	byRule       analytic = 1
	byBehaviour  analytic = 2
	byStatistics analytic = 3
)

func (a analytic) caption() string {
	return [...]string{"Unknown", "Rule", "Behavioral", "Statistical"}[a]
}

var (
	credentialAccess = [2]string{"TA0006", "Credential Access"}
	initialAccess    = [2]string{"TA0001", "Initial Access"}
	reconnaissance   = [2]string{"TA0043", "Reconnaissance"}
	bruteForce       = [2]string{"T1110", "Brute Force"}
	guessing         = [2]string{"T1110.001", "Password Guessing"}
	spraying         = [2]string{"T1110.003", "Password Spraying"}
	stuffing         = [2]string{"T1110.004", "Credential Stuffing"}
)

// HeldBack is the kind of the record that tells how many were held back.
const HeldBack = "held_back"

// kinds are the findings of docs/findings.md; a test holds the two equal.
var kinds = map[string]kind{
	"distributed_guessing":   {title: "Guesses from many addresses at many accounts", severity: Medium, analytic: byStatistics, tactic: credentialAccess, attack: bruteForce, sub: stuffing},
	"spray":                  {title: "One password tried on many accounts", severity: Medium, analytic: byStatistics, tactic: credentialAccess, attack: bruteForce, sub: spraying},
	"slow_guessing":          {title: "One account guessed at for days from many addresses", severity: Medium, analytic: byBehaviour, tactic: credentialAccess, attack: bruteForce, sub: guessing},
	"hammering":              {title: "One account guessed at from one address", severity: Low, analytic: byBehaviour, tactic: credentialAccess, attack: bruteForce, sub: guessing},
	"success_after_failures": {title: "A stranger signed in after many failures", severity: High, analytic: byBehaviour, tactic: initialAccess, attack: [2]string{"T1078", "Valid Accounts"}},
	"many_accounts":          {title: "One address failing on many accounts", severity: Medium, analytic: byBehaviour, tactic: credentialAccess, attack: bruteForce, sub: stuffing},
	"enumeration":            {title: "One address looking for accounts that exist", severity: Medium, analytic: byBehaviour, tactic: reconnaissance, attack: [2]string{"T1589", "Gather Victim Identity Information"}},
	"token_forgery":          {title: "Forged or foreign tokens shown", severity: High, analytic: byRule, tactic: credentialAccess, attack: [2]string{"T1606", "Forge Web Credentials"}},
	"posture_change":         {title: "The posture was changed", severity: Informational, analytic: byRule, configuration: true},
	"quota_reached":          {title: "A quota of an API key is used", severity: Informational, analytic: byRule, configuration: true},
	"operator_action":        {title: "An operator has changed something", severity: Informational, analytic: byRule, configuration: true},
	HeldBack:                 {title: "Records were held back", severity: Medium, analytic: byRule, configuration: true},
}

// Kinds are what findings can be filtered by.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// kindOf is also of a kind that only a newer guardd knows.
func kindOf(what string) kind {
	if k, ok := kinds[what]; ok {
		return k
	}
	return kind{title: what, severity: Medium, analytic: byRule}
}
