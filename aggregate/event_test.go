package aggregate_test

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/aggregate"
)

func whole() *aggregate.Event {
	return &aggregate.Event{
		V: 1, ID: "00112233445566aa-7", Instance: "00112233445566aa", Seq: 7, Kind: aggregate.KindAttempt,
		Time:  time.Date(2026, 11, 30, 4, 5, 6, 123456000, time.UTC),
		Realm: "default", Flow: "login", Account: "wxyzWXYZ0123456789_-Ab", IP: "203.0.113.7", Network: "203.0.113.0/24",
		Attempt: "abcDEF0123456789_-abcd", Action: "allow", Would: "allow", Rung: "captcha", Reasons: []string{"account.burst"},
		Proof: "captcha", ProofError: "expired", KnownDevice: true, Familiar: true, Device: "devDEV0123456789_-devd",
		Posture: "elevated", Degraded: true, Shadow: true, Outcome: "success", Duplicate: true, Breached: true,
		Tag: "0123456789abcdef", TagPrev: "fedcba9876543210", UAClass: "firefox", Channel: "web",
		Tiers: []aggregate.TierLevel{{Tier: "account", Limit: "burst", Left: 9, Capacity: 20, Rung: "captcha"}},
	}
}

func TestEventSurvivesItsJSON(t *testing.T) {
	want := whole()
	v := reflect.ValueOf(want).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("field %s is not set, so this test shows nothing of it", v.Type().Field(i).Name)
		}
	}
	b, err := want.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := aggregate.Event{Outcome: "left over"}
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, &got); d != "" {
		t.Error(d)
	}
}

// A newer program of the same version may say more: an older one reads on.
func TestEventReadsPastWhatItDoesNotKnow(t *testing.T) {
	var e aggregate.Event
	b := `{"v":1,"id":"a-1","kind":"attempt","realm":"default","time":"2026-11-30T04:05:06Z","new_field":{"deep":[1,2]}}`
	if err := e.Decode([]byte(b)); err != nil || e.Realm != "default" {
		t.Errorf("%v, %v", e, err)
	}
}

func TestPoisonIsToldFromEvents(t *testing.T) {
	for name, b := range map[string]string{
		"nothing":       ``,
		"no JSON":       `GET / HTTP/1.1`,
		"cut off":       `{"v":1,"id":"a-1","kind":"attempt","realm":"def`,
		"newer version": `{"v":2,"id":"a-1","kind":"attempt","realm":"default","time":"2026-11-30T04:05:06Z"}`,
		"no version":    `{"id":"a-1","kind":"attempt","realm":"default","time":"2026-11-30T04:05:06Z"}`,
		"no id":         `{"v":1,"kind":"attempt","realm":"default","time":"2026-11-30T04:05:06Z"}`,
		"no time":       `{"v":1,"id":"a-1","kind":"attempt","realm":"default"}`,
		"no realm":      `{"v":1,"id":"a-1","kind":"attempt","time":"2026-11-30T04:05:06Z"}`,
		"other kind":    `{"v":1,"id":"a-1","kind":"finding","realm":"default","time":"2026-11-30T04:05:06Z"}`,
		"wrong type":    `{"v":1,"id":7,"kind":"attempt","realm":"default","time":"2026-11-30T04:05:06Z"}`,
	} {
		var e aggregate.Event
		if err := e.Decode([]byte(b)); !errors.Is(err, aggregate.ErrPoison) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// docs/events.md has one row for each field, and none for others.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, fields []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllSubmatch(text, -1) {
		rows = append(rows, string(m[1]))
	}
	names := func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			fields = append(fields, prefix+name)
		}
	}
	names("", reflect.TypeFor[aggregate.Event]())
	names("tiers.", reflect.TypeFor[aggregate.TierLevel]())
	slices.Sort(rows)
	slices.Sort(fields)
	if d := cmp.Diff(fields, rows); d != "" {
		t.Errorf("docs/events.md against the struct:\n%s", d)
	}
	for _, c := range aggregate.UAClasses {
		if !strings.Contains(string(text), "`"+c+"`") {
			t.Errorf("docs/events.md does not name the class %q", c)
		}
	}
}

func TestUserAgentClasses(t *testing.T) {
	for ua, want := range map[string]string{
		"": "none",
		"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0":                                                                           "firefox",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36":                                  "chrome",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":                    "edge",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/124.0.0.0":                    "opera",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1":          "safari",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Mobile/15E148 Safari/604.1":           "chrome",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36":              "samsung",
		"Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/140.0.0.0 Mobile Safari/537.36": "app",
		"Shop/42 CFNetwork/3826.500.131 Darwin/24.5.0": "app",
		"okhttp/4.12.0":          "app",
		"curl/8.5.0":             "script",
		"python-requests/2.32.3": "script",
		"Go-http-client/1.1":     "script",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                                      "bot",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36": "bot",
		"Something new":                         "other",
		strings.Repeat("x", 8000) + "Firefox/1": "other",
	} {
		if got := aggregate.UAClass(ua); got != want {
			t.Errorf("%.80q is %s, want %s", ua, got, want)
		}
		if !slices.Contains(aggregate.UAClasses, aggregate.UAClass(ua)) {
			t.Errorf("%.80q is of no listed class", ua)
		}
	}
}
