package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/browsertest"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

// known is a StatusSource that says what a test wants it to.
type known struct {
	overview map[string]*aggregate.Overview
	states   []api.Dependency
	about    api.About
}

func (s known) Overview(_ context.Context, realm string) (*aggregate.Overview, bool, error) {
	return s.overview[realm], true, nil
}
func (s known) Dependencies(context.Context) []api.Dependency { return s.states }
func (s known) About() api.About                              { return s.about }

// hostile is what a name in a finding or a reason would be if somebody could choose it.
const hostile = `<img src=x onerror="window.hurt=1">`

func attacked() known {
	at := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	o := &aggregate.Overview{AsOf: at, Since: at.Add(-15 * time.Minute),
		Networks: []aggregate.OverviewNetwork{{Network: "198.51.100.0/24", ASN: 64500, Load: aggregate.Load{Asked: 321, Failures: 54, Successes: 2}},
			{Network: "2001:db8:1234::/48", Load: aggregate.Load{Asked: 7}}},
		Accounts: []aggregate.OverviewAccount{{Account: "wxyzWXYZ0123456789_-Ab", Load: aggregate.Load{Asked: 11, Failures: 12}}},
		Campaigns: []aggregate.Finding{{V: 1, ID: "distributed_guessing-1abc", Realm: "default", What: "distributed_guessing", State: "open", Start: at.Add(-9 * time.Minute), Last: at,
			Posture: "high", Reason: "300 cold failures a minute, 12 expected " + hostile, Guesses: 2700, Groups: []aggregate.FindingGroup{{Kind: "user_agent", Key: "script", PerMinute: 250}},
			Done: []aggregate.FindingAction{{Time: at, What: "posture high"}}}},
		Detection: aggregate.OverviewDetection{Watched: true, Level: "high", Expected: 12, Excess: 288.4, Networks: 1}}
	for i := range 30 {
		o.Minutes = append(o.Minutes, aggregate.Minute{Time: at.Add(time.Duration(i-29) * time.Minute), Allow: 400, Delay: uint64(i), Captcha: uint64(10 * i), Successes: 380, Failures: 30})
	}
	return known{overview: map[string]*aggregate.Overview{"default": o}, about: api.About{Version: "v1.2.3", Instances: 3, Status: "ok", Mode: "on", Started: at},
		states: []api.Dependency{{Name: "store", State: "ok", Detail: "Redis"}, {Name: "events", State: "down", Detail: "Kafka takes none"}, {Name: "limits_db", State: "off"}}}
}

// TestStatusIsWhatIsKnown: with a source, without one, for the realms of the key, and
// in the document's form.
func TestStatusIsWhatIsKnown(t *testing.T) {
	d := newDesk(t)
	s := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Status: attacked(), Keys: []api.Key{ofRole("all", api.RoleRead), ofRole("shop", api.RoleRead, "shop"), key("none", "none")}})
	s.key = "all"
	read := func(path string) (a api.StatusAnswer) {
		t.Helper()
		got := s.do(http.MethodGet, path, "")
		if got.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.StatusCode, got.body)
		}
		if err := json.Unmarshal([]byte(got.body), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := read(api.RouteStatus)
	if a.Realm != "default" || !slices.Equal(a.Realms, []string{"default", "shop"}) || a.Version != "v1.2.3" || a.Posture.Posture != "normal" || len(a.Minutes) != 30 || len(a.Campaigns) != 1 || !a.ReadHere || len(a.Dependencies) != 3 {
		t.Errorf("%+v", a)
	}
	if a = read(api.RouteStatus + "?realm=shop"); a.Realm != "shop" || a.ReadHere || len(a.Networks) != 0 {
		t.Errorf("of a realm that nobody has read: %+v", a)
	}
	s.key = "shop"
	if a = read(api.RouteStatus + "?realm=shop"); !slices.Equal(a.Realms, []string{"shop"}) {
		t.Errorf("a key of one realm sees %v", a.Realms)
	}
	if got := s.do(http.MethodGet, api.RouteStatus, ""); got.StatusCode != http.StatusForbidden {
		t.Errorf("another's realm: %d", got.StatusCode)
	}
	for key, status := range map[string]int{"none": 403, "nobody": 401} {
		if s.key = key; s.do(http.MethodGet, api.RouteStatus, "").StatusCode != status {
			t.Errorf("%s: not %d", key, status)
		}
	}
	s.key = "all"
	if got := s.do(http.MethodGet, api.RouteStatus+"?realm=nowhere", ""); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a realm that there is not: %d", got.StatusCode)
	}
	bare := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Loopback: true})
	if got := bare.do(http.MethodGet, api.RouteStatus, ""); got.StatusCode != http.StatusOK {
		t.Errorf("without a source: %d %s", got.StatusCode, got.body)
	}
}

// noStore is a store that does not answer.
type noStore struct{ *keys.Memory }

func (noStore) Get(context.Context, string) ([]byte, error) { return nil, keys.ErrOpen }

// TestStatusWithoutAStore shows what is left, and that the store is gone.
func TestStatusWithoutAStore(t *testing.T) {
	d := newDesk(t)
	gone := operate.New(operate.Config{Guard: d.guard, Store: noStore{keys.NewMemory(keys.MemoryConfig{})}, Realms: func() []string { return []string{"default"} }}, "0123456789abcdef")
	s := startAdmin(t, api.OperatorsConfig{Desk: gone, Status: attacked(), Loopback: true})
	got := s.do(http.MethodGet, api.RouteStatus, "")
	if got.StatusCode != http.StatusOK || strings.Contains(got.body, `"posture":{`) || !strings.Contains(got.body, "198.51.100.0/24") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestStatusPage: what goes on is on one page, for phones too, with a key where one
// is needed; what somebody else chose is text; and it explains.
func TestStatusPage(t *testing.T) {
	d := newDesk(t)
	for range 5 {
		if _, err := d.guard.Check(t.Context(), &escalation.Attempt{Account: "alice", IP: "203.0.113.7"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Pin(t.Context(), &operate.Who{Name: "ops"}, &operate.PinRequest{Posture: "high", ExpiresIn: "1h", Reason: "a leak"}); err != nil {
		t.Fatal(err)
	}
	s := startAdmin(t, api.OperatorsConfig{Desk: d.Desk, Status: attacked(), Keys: []api.Key{ofRole("ops", api.RoleRead)}})
	b := browsertest.Open(t)
	b.Visit(s.url + api.RouteStatusPage)
	b.Await("!document.querySelector('#login').hidden")
	b.Fits()
	b.Accessible("key")
	b.Fill("#key", "wrong")
	b.Reads("not one of the configured ones")
	b.Fill("#key", "ops")
	b.Reads("Pinned by an operator until")
	for _, text := range []string{"high", "288 a minute beyond 12 expected", "1 network, 0 passwords", "198.51.100.0/24 AS64500", "2001:db8:1234::/48", "wxyzWXYZ0123456789_-Ab",
		"distributed guessing", hostile, "2,700 guesses", "user agent script: 250 a minute", "Done: posture high", "Kafka takes none", "one of 3 instances", "v1.2.3"} {
		b.Reads(text)
	}
	if b.Is("window.hurt") || b.Is("document.querySelector('#campaigns img')") {
		t.Error("what somebody chose is markup")
	}
	if got := b.Text("#chip"); got != "degraded" {
		t.Errorf("with a dependency down the page says %q", got)
	}
	if n := b.Evaluate("document.querySelectorAll('#rates rect').length"); n != "88" { // 30 of allow, 29 of two others
		t.Errorf("%s bars", n)
	}
	b.Fits()
	b.Accessible("attacked")
	b.Tab("#accounts button")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#hash').value == 'wxyzWXYZ0123456789_-Ab' && document.activeElement.id == 'ip'")
	b.Evaluate("document.querySelector('#hash').value = ''")
	b.Fill("#ip", "nowhere")
	b.Reads("ip: ")
	b.Evaluate("document.querySelector('#ip').value = ''")
	b.Tab("#account")
	b.Press("alice")
	b.Fill("#ip", "203.0.113.7")
	b.Reads("An attempt now would be answered delay, because of")
	for _, text := range []string{"pair.burst", "What would bring allow:", "the visitor passes one of: wait, code"} {
		b.Reads(text)
	}
	b.Fits()
	b.Accessible("explained")
	b.Tab("#realm")
	b.Press(kb.ArrowDown)
	b.Reads("No event has been read")
	if b.Is("document.querySelector('#explained').innerText != ''") || b.Is("document.querySelector('#campaigns').innerText.includes('guessing')") {
		t.Error("another realm shows what was of the first")
	}
}

// TestStatusPageWithoutJavaScriptSaysWhereElseToLook.
func TestStatusPageWithoutJavaScriptSaysWhereElseToLook(t *testing.T) {
	s := startAdmin(t, api.OperatorsConfig{Desk: newDesk(t).Desk, Loopback: true})
	b := browsertest.Open(t)
	b.WithoutJavaScript()
	b.Visit(s.url + api.RouteStatusPage)
	if !strings.Contains(b.Text("body"), "/admin/v1/status") {
		b.Fail("it says nothing")
	}
}
