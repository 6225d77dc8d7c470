package api_test

import (
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// Names, order, null, zones and rounding of the answers, to the byte.
func TestAnswersToTheByte(t *testing.T) {
	at := time.Date(2026, 12, 1, 13, 0, 0, 250_000, time.FixedZone("CET", 3600))
	for _, row := range []struct {
		name    string
		verdict escalation.Verdict
		want    string
	}{
		{"delay", escalation.Verdict{Action: "delay", Would: "delay", Posture: keys.High, RetryAfter: time.Second + time.Microsecond, ProofError: escalation.ProofTooEarly,
			Reasons: []string{"pair.burst", "posture"}, Tiers: []escalation.TierLevel{{Tier: "pair", Limit: "burst", Left: 7, Capacity: 10, Rung: keys.Delay}},
			Challenge: &escalation.Challenge{Kind: "wait", Kinds: []string{"wait", "code"}, Token: "t", NotBefore: at, ExpiresAt: at.Add(10 * time.Minute)}},
			`{"action":"delay","proceed":false,"known_device":false,"posture":"high","degraded":false,"shadow":false,"would":"delay",` +
				`"reasons":["pair.burst","posture"],"proof_error":"too_early","retry_after_ms":1001,` +
				`"tiers":[{"tier":"pair","limit":"burst","left":7,"capacity":10,"rung":"delay"}],` +
				`"challenge":{"kind":"wait","kinds":["wait","code"],"token":"t","expires_at":"2026-12-01T12:10:00.00025Z","not_before":"2026-12-01T12:00:00.00025Z"}}`},
		{"flood", escalation.Verdict{Action: "captcha", Would: "captcha", Degraded: true, Reasons: []string{"flood"},
			Challenge: &escalation.Challenge{Kind: "captcha", Kinds: []string{"image", "audio", "code"}, Token: "t", ExpiresAt: at}},
			`{"action":"captcha","proceed":false,"known_device":false,"posture":"normal","degraded":true,"shadow":false,"would":"captcha",` +
				`"reasons":["flood"],"proof_error":"","retry_after_ms":0,"tiers":[],` +
				`"challenge":{"kind":"captcha","kinds":["image","audio","code"],"token":"t","expires_at":"2026-12-01T12:00:00.00025Z"}}`},
		{"deny", escalation.Verdict{Action: "deny", Would: "deny", Reasons: []string{"list.deny"}},
			`{"action":"deny","proceed":false,"known_device":false,"posture":"normal","degraded":false,"shadow":false,"would":"deny",` +
				`"reasons":["list.deny"],"proof_error":"","retry_after_ms":0,"tiers":[]}`},
		{"allow with a proof left", escalation.Verdict{Action: "allow", Would: "allow", Proceed: true, Attempt: "a", Trace: escalation.Trace{KnownDevice: true, Familiar: true}, Proof: "p",
			Replayed: true, Realm: "default", Flow: "login", AttemptExpires: at, Now: at},
			`{"action":"allow","proceed":true,"attempt":"a","known_device":true,"posture":"normal","degraded":false,"shadow":false,"would":"allow",` +
				`"reasons":[],"proof_error":"","retry_after_ms":0,"tiers":[],"proof":"p"}`},
		{"shadow shows nothing to act on", escalation.Verdict{Action: "allow", Would: "delay", Proceed: true, Shadow: true, Attempt: "a", RetryAfter: time.Second,
			Challenge: &escalation.Challenge{Kind: "wait", Kinds: []string{"wait"}, Token: "t", ExpiresAt: at}},
			`{"action":"allow","proceed":true,"attempt":"a","known_device":false,"posture":"normal","degraded":false,"shadow":true,"would":"delay",` +
				`"reasons":[],"proof_error":"","retry_after_ms":0,"tiers":[]}`},
	} {
		g := allowing()
		g.check = func(*escalation.Attempt) (*escalation.Verdict, error) { return &row.verdict, nil }
		if a := start(t, api.Config{Guard: g}).post(api.RouteAttempts, `{"account":"a","ip":"192.0.2.1"}`); a.body != row.want+"\n" {
			t.Errorf("%s\n got %s\nwant %s", row.name, a.body, row.want)
		}
	}

	for _, row := range []struct {
		recorded escalation.Recorded
		want     string
	}{
		{escalation.Recorded{Recorded: true, Device: "d", DeviceExpires: at, Advice: []string{"notify_user"}},
			`{"recorded":true,"duplicate":false,"attempt_error":"","device":"d","device_expires_at":"2026-12-01T12:00:00.00025Z","advice":["notify_user"]}`},
		{escalation.Recorded{AttemptError: "expired"}, `{"recorded":false,"duplicate":false,"attempt_error":"expired","advice":[]}`},
	} {
		g := allowing()
		g.report = func(*escalation.Report, func(string) bool) (*escalation.Recorded, error) { return &row.recorded, nil }
		if a := start(t, api.Config{Guard: g}).post(api.RouteOutcomes, `{"attempt":"x","account":"a","outcome":"success"}`); a.body != row.want+"\n" {
			t.Errorf("\n got %s\nwant %s", a.body, row.want)
		}
	}
	if a := start(t, api.Config{Guard: allowing()}).post(api.RouteRevoke, `{"account":"a"}`); a.body != "{\"revoked\":true}\n" {
		t.Errorf("revoked: %s", a.body)
	}
}
