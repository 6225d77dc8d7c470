package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// clock is a time that a test owns.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.now.Store(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) forward(d time.Duration) { c.now.Add(d.Microseconds()) }

// realGuard is the real thing on the embedded twin, with two realms.
func realGuard(t testing.TB, edits ...func(*escalation.Config)) *escalation.Guard {
	t.Helper()
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	twin := keys.NewMemory(keys.MemoryConfig{Buckets: 4096, Marks: 4096})
	policy := escalation.DefaultPolicy()
	policy.Realms["shop"] = &escalation.Realm{Delivery: escalation.Delivery{Driver: "log"}}
	if err := policy.Validate(); err != nil {
		t.Fatal(err)
	}
	c := escalation.Config{Store: twin, Records: twin, Policy: policy, Secrets: secrets, Instances: 1, Now: newClock().now.Load}
	for _, edit := range edits {
		edit(&c)
	}
	g, err := escalation.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// startReal is a service over a real guard whose clock is the test's.
func startReal(t *testing.T, edits ...func(*escalation.Config)) (*service, *clock) {
	c := newClock()
	edits = append(edits, func(e *escalation.Config) { e.Now = c.now.Load })
	return start(t, api.Config{Guard: realGuard(t, edits...)}), c
}

func (s *service) ask(q client.AttemptRequest) *client.AttemptResponse {
	s.t.Helper()
	body, _ := json.Marshal(q)
	return read[client.AttemptResponse](s.t, s.post(api.RouteAttempts, string(body)))
}

func (s *service) report(q client.OutcomeRequest) answer {
	s.t.Helper()
	body, _ := json.Marshal(q)
	return s.post(api.RouteOutcomes, string(body))
}

func TestAccountsThatCannotBeCounted(t *testing.T) {
	s, _ := startReal(t)
	for _, row := range []struct{ account, reason string }{
		{``, "empty"}, {`   `, "empty"}, {`\u00ad\u200b`, "empty"}, {`a\u0000b`, "control"}, {`a\nb`, "control"}, {`a\u007f`, "control"}, {`a\u0085`, "control"},
		{strings.Repeat("a", 513), "too_long"}, {strings.Repeat("a", 4096), "too_long"},
	} {
		for path, rest := range map[string]string{api.RouteAttempts: `,"ip":"192.0.2.1"`, api.RouteRevoke: ``} {
			got := s.post(path, `{"account":"`+row.account+`"`+rest+`}`).problem(t, http.StatusBadRequest, client.ProblemInvalid)
			if !slices.Equal(got, []string{"account: " + row.reason}) {
				t.Errorf("%s %.20q: %q, want %s", path, row.account, got, row.reason)
			}
		}
	}
	s.ask(client.AttemptRequest{Account: strings.Repeat("a", 512), IP: "192.0.2.1"})
	s.ask(client.AttemptRequest{Account: "Älice 🦊 \"<script>", IP: "192.0.2.1"})
}

func TestAddressesThatCannotBeCounted(t *testing.T) {
	s, _ := startReal(t)
	for _, row := range []struct{ ip, reason string }{
		{"", "empty"}, {" ", "empty"}, {"192.0.2.1, 198.51.100.7", "list"}, {"192.0.2.1,198.51.100.7", "list"}, {"192.0.2.1 198.51.100.7", "list"},
		{"localhost", "not_an_address"}, {"999.0.2.1", "not_an_address"}, {"192.0.2.1:", "not_an_address"}, {"[2001:db8::1", "not_an_address"},
		{"192.0.2.0/24", "not_an_address"}, {"192.0.2.1:99999", "not_an_address"}, {strings.Repeat("1", 4096), "not_an_address"},
	} {
		body, _ := json.Marshal(client.AttemptRequest{Account: "a", IP: row.ip})
		got := s.post(api.RouteAttempts, string(body)).problem(t, http.StatusBadRequest, client.ProblemInvalid)
		if !slices.Equal(got, []string{"ip: " + row.reason}) {
			t.Errorf("%.20q: %q, want %s", row.ip, got, row.reason)
		}
	}
}

// However an address is written, it is one bucket.
func TestSpellingsOfOneAddressAreCountedTogether(t *testing.T) {
	s, _ := startReal(t)
	for want, group := range map[string][]string{
		"IPv4": {"192.0.2.1", "192.0.2.1:443", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80", "64:ff9b::192.0.2.1", "64:ff9b::c000:201", " 192.0.2.1 "},
		"IPv6": {"2001:db8::1", "[2001:db8::1]:443", "[2001:db8::1]", "2001:db8::ffff%eth0", "2001:DB8:0:0:1::"},
	} {
		for i, ip := range group {
			a := s.ask(client.AttemptRequest{Account: want + string(rune('a'+i)), IP: ip})
			if left := leftOf(t, a, "ip", "burst"); left != int64(40-1-i) {
				t.Errorf("%s as %q: %d left of tier ip, want %d", want, ip, left, 40-1-i)
			}
		}
	}
}

func leftOf(t *testing.T, a *client.AttemptResponse, tier, limit string) int64 {
	t.Helper()
	for _, l := range a.Tiers {
		if l.Tier == tier && l.Limit == limit {
			return l.Left
		}
	}
	t.Fatalf("%s.%s is not among %+v", tier, limit, a.Tiers)
	return 0
}

func TestEveryBadFieldIsNamed(t *testing.T) {
	s, _ := startReal(t)
	good := client.AttemptRequest{Account: "a", IP: "192.0.2.1"}
	for want, edit := range map[string]func(*client.AttemptRequest){
		"realm":        func(q *client.AttemptRequest) { q.Realm = "nowhere" },
		"flow":         func(q *client.AttemptRequest) { q.Flow = "logout" },
		"request_id":   func(q *client.AttemptRequest) { q.RequestID = strings.Repeat("x", 129) },
		"return_url":   func(q *client.AttemptRequest) { q.ReturnURL = "https://evil.example/" },
		"password_tag": func(q *client.AttemptRequest) { q.PasswordTag = "0123" },
		"account ip":   func(q *client.AttemptRequest) { q.Account, q.IP = "", "" },
	} {
		q := good
		edit(&q)
		body, _ := json.Marshal(q)
		if q.Account == "" {
			body = []byte(`{}`)
		}
		var fields []string
		for _, f := range s.post(api.RouteAttempts, string(body)).problem(t, http.StatusBadRequest, client.ProblemInvalid) {
			field, _, _ := strings.Cut(f, ":")
			fields = append(fields, field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("named %q, want %q", got, want)
		}
	}
	s.post(api.RouteRevoke, `{"account":"a","realm":"nowhere"}`).problem(t, http.StatusBadRequest, client.ProblemInvalid)
}

func TestAnAttemptAsDocumented(t *testing.T) {
	s, _ := startReal(t)
	a := s.post(api.RouteAttempts, `{"account":"alice@example.com","ip":"203.0.113.7"}`)
	r := read[client.AttemptResponse](t, a)
	if r.Action != "allow" || !r.Proceed || r.Attempt == "" || r.Would != "allow" || r.Posture != "normal" || r.Challenge != nil {
		t.Errorf("answered %s", a.body)
	}
	for _, piece := range []string{`"reasons":[]`, `"proof_error":""`, `"retry_after_ms":0`, `"known_device":false`, `"degraded":false`, `"shadow":false`,
		`{"tier":"account","limit":"burst","left":19,"capacity":20,"rung":"allow"}`} {
		if !strings.Contains(a.body, piece) {
			t.Errorf("%s lacks %s", a.body, piece)
		}
	}
	if strings.Contains(a.body, "challenge") || strings.Contains(a.body, "null") {
		t.Errorf("answered %s", a.body)
	}
}

// climb makes wrong guesses until more than allow is asked.
func climb(t *testing.T, s *service, q client.AttemptRequest) *client.AttemptResponse {
	t.Helper()
	for range 50 {
		a := s.ask(q)
		if a.Would != client.ActionAllow {
			return a
		}
		s.report(client.OutcomeRequest{Attempt: a.Attempt, Account: q.Account, Outcome: client.OutcomeFailure})
	}
	t.Fatal("50 guesses were let through")
	return nil
}

func TestADelayAndItsTicket(t *testing.T) {
	s, now := startReal(t)
	q := client.AttemptRequest{Account: "alice", IP: "192.0.2.1"}
	climb(t, s, q)
	now.forward(time.Second) // what comes back in it is enough for this one guess
	a := climb(t, s, q)
	c := a.Challenge
	if a.Action != "delay" || a.Proceed || a.Attempt != "" || c == nil || c.Kind != "wait" || !slices.Equal(c.Kinds, []string{"wait", "code", "pow"}) {
		t.Fatalf("answered %+v", a)
	}
	begun := time.UnixMicro(now.now.Load())
	wait := time.Duration(a.RetryAfterMS) * time.Millisecond
	if wait != time.Second || !c.NotBefore.Equal(begun.Add(wait)) || !c.ExpiresAt.Equal(c.NotBefore.Add(10*time.Minute)) || c.NotBefore.Location() != time.UTC {
		t.Errorf("wait %v, not before %v, expires %v", wait, c.NotBefore, c.ExpiresAt)
	}
	if !slices.Equal(a.Reasons, []string{"pair.burst"}) {
		t.Errorf("reasons %q", a.Reasons)
	}
	q.Proof = c.Token
	now.forward(wait - time.Microsecond)
	if a := s.ask(q); a.ProofError != "too_early" || a.Proceed {
		t.Errorf("before its time: %+v", a)
	}
	now.forward(time.Microsecond)
	if a := s.ask(q); !a.Proceed || a.Attempt == "" {
		t.Errorf("in time: %+v", a)
	}
	if a := s.ask(q); a.Proceed || a.ProofError != "spent" {
		t.Errorf("again: %+v", a)
	}
}

func TestARequestIDIsForOneRequest(t *testing.T) {
	s, _ := startReal(t)
	q := client.AttemptRequest{Account: "alice", IP: "192.0.2.1", RequestID: "once"}
	a, b := s.ask(q), s.ask(q)
	if a.Attempt == "" || a.Attempt != b.Attempt || leftOf(t, b, "pair", "burst") != 9 {
		t.Errorf("a repeat is counted, or another attempt: %+v", b)
	}
	q.Account = "bob"
	body, _ := json.Marshal(q)
	if got := s.post(api.RouteAttempts, string(body)).problem(t, http.StatusConflict, client.ProblemConflict); !slices.Equal(got, []string{"request_id: conflict"}) {
		t.Errorf("fields %q", got)
	}
}

func TestShadowAsksNothingOfAnybody(t *testing.T) {
	s, _ := startReal(t, func(c *escalation.Config) { c.Shadow = true })
	a := climb(t, s, client.AttemptRequest{Account: "alice", IP: "192.0.2.1"})
	if a.Action != "allow" || !a.Proceed || !a.Shadow || a.Would != "delay" || a.Attempt == "" || a.Challenge != nil || a.RetryAfterMS != 0 {
		t.Errorf("answered %+v", a)
	}
	for name := range s.post(api.RouteAttempts, `{"account":"alice","ip":"192.0.2.1"}`).Header {
		if !slices.Contains([]string{"Cache-Control", "Content-Length", "Content-Type", "Date", "X-Content-Type-Options"}, name) {
			t.Errorf("a header says something: %s", name)
		}
	}
}

func TestOutcomesThatAreNotRecorded(t *testing.T) {
	s, now := startReal(t)
	q := client.AttemptRequest{Account: "alice", IP: "192.0.2.1"}
	attempt, other := s.ask(q).Attempt, s.ask(client.AttemptRequest{Account: "bob", IP: "192.0.2.1"}).Attempt
	ticket := climb(t, s, q).Challenge.Token
	device := read[client.OutcomeResponse](t, s.report(client.OutcomeRequest{Attempt: other, Account: "bob", Outcome: "success"})).Device
	for _, row := range []struct {
		name string
		q    client.OutcomeRequest
		want string
	}{
		{"forged", client.OutcomeRequest{Attempt: "forged", Account: "alice", Outcome: "success"}, "attempt"},
		{"bent", client.OutcomeRequest{Attempt: bend(attempt), Account: "alice", Outcome: "success"}, "attempt"},
		{"a wait ticket", client.OutcomeRequest{Attempt: ticket, Account: "alice", Outcome: "success"}, "attempt"},
		{"a device token", client.OutcomeRequest{Attempt: device, Account: "bob", Outcome: "success"}, "attempt"},
		{"none", client.OutcomeRequest{Account: "alice", Outcome: "success"}, "attempt"},
		{"huge", client.OutcomeRequest{Attempt: strings.Repeat("A", 40_000), Account: "alice", Outcome: "success"}, "attempt"},
		{"other account", client.OutcomeRequest{Attempt: attempt, Account: "bob", Outcome: "success"}, "account"},
		{"no account", client.OutcomeRequest{Attempt: attempt, Outcome: "success"}, "account"},
		{"no outcome", client.OutcomeRequest{Attempt: attempt, Account: "alice"}, "outcome"},
		{"unknown outcome", client.OutcomeRequest{Attempt: attempt, Account: "alice", Outcome: "SUCCESS"}, "outcome"},
	} {
		got := s.report(row.q).problem(t, http.StatusBadRequest, client.ProblemInvalid)
		if len(got) != 1 || !strings.HasPrefix(got[0], row.want+": ") {
			t.Errorf("%s: fields %q, want %s", row.name, got, row.want)
		}
	}
	if r := read[client.OutcomeResponse](t, s.report(client.OutcomeRequest{Attempt: attempt, Account: " ALICE ", Outcome: "failure"})); !r.Recorded || r.Duplicate {
		t.Errorf("the attempt in another spelling: %+v", r)
	}
	now.forward(16 * time.Minute)
	if r := read[client.OutcomeResponse](t, s.report(client.OutcomeRequest{Attempt: other, Account: "bob", Outcome: "success"})); r.Recorded || r.AttemptError != "expired" || r.Device != "" {
		t.Errorf("late: %+v", r)
	}
}

// bend changes one character in the middle of a token.
func bend(token string) string {
	b := []byte(token)
	i := len(b) / 2
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func TestAnOutcomeCountsOnce(t *testing.T) {
	s, _ := startReal(t)
	q := client.AttemptRequest{Account: "alice", IP: "192.0.2.1"}
	done := client.OutcomeRequest{Attempt: s.ask(q).Attempt, Account: "alice", Outcome: "success"}
	first := read[client.OutcomeResponse](t, s.report(done))
	again := read[client.OutcomeResponse](t, s.report(done))
	if !first.Recorded || first.Duplicate || first.Device == "" || first.DeviceExpiresAt.IsZero() || len(first.Advice) != 0 {
		t.Errorf("first: %+v", first)
	}
	if !again.Duplicate || again.Device == "" {
		t.Errorf("again: %+v", again)
	}
	done.Outcome = "failure"
	if r := read[client.OutcomeResponse](t, s.report(done)); !r.Duplicate || r.Device != "" {
		t.Errorf("then a failure: %+v", r)
	}
	for _, device := range []string{first.Device, again.Device} {
		q.Device = device
		if a := s.ask(q); !a.KnownDevice || !a.Proceed {
			t.Errorf("with the device: %+v", a)
		}
	}
	read[client.RevokeResponse](t, s.post(api.RouteRevoke, `{"account":"alice"}`))
	if a := s.ask(q); a.KnownDevice || !slices.Contains(a.Reasons, "device.invalid") {
		t.Errorf("after a revocation: %+v", a)
	}
}

// The realm of an outcome is sealed into its attempt; a key of another realm
// cannot book it.
func TestAKeyOfAnotherRealmCannotBookAnOutcome(t *testing.T) {
	s := start(t, api.Config{Guard: realGuard(t), Keys: []api.Key{key("default", "default", "default"), key("shop", "shop", "shop")}})
	s.key = "shop"
	attempt := s.ask(client.AttemptRequest{Account: "alice", IP: "192.0.2.1", Realm: "shop"}).Attempt
	s.key = "default"
	q := client.OutcomeRequest{Attempt: attempt, Account: "alice", Outcome: "success"}
	if got := s.report(q).problem(t, http.StatusForbidden, client.ProblemForbidden); !slices.Equal(got, []string{"realm: forbidden"}) {
		t.Errorf("fields %q", got)
	}
	s.key = "shop"
	if r := read[client.OutcomeResponse](t, s.report(q)); !r.Recorded || r.Duplicate {
		t.Errorf("its own key: %+v", r)
	}
}
