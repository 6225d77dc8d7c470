// Package escalation decides what to do about an attempt: it holds the policy,
// asks the store, climbs the ladder (allow, delay, captcha, verify; never a
// lock), and seals what the visitor carries away: attempts, challenges,
// proofs and device tokens.
//
// A login handler's three questions are Guard's three verbs: Check before the
// password is compared, Report after, Revoke when the password has changed.
package escalation
