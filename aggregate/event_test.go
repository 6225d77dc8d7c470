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
	"github.com/guardd/guardd/escalation"
)

func whole() *aggregate.Event {
	return &aggregate.Event{
		V: 1, ID: "00112233445566aa-7", Instance: "00112233445566aa", Seq: 7, Kind: aggregate.KindAttempt,
		Time:  time.Date(2026, 11, 30, 4, 5, 6, 123456000, time.UTC),
		Realm: "default", Flow: "login", Account: "wxyzWXYZ0123456789_-Ab", Name: "sealed", IP: "203.0.113.7", Network: "203.0.113.0/24",
		Attempt: "abcDEF0123456789_-abcd", Action: "allow", Would: "allow", Rung: "captcha", Reasons: []string{"account.burst"},
		Proof: "captcha", ProofError: "expired", Shown: "prfPRF0123456789_-prfP", KnownDevice: true, Familiar: true, Device: "devDEV0123456789_-devd",
		Posture: "elevated", Degraded: true, Shadow: true, Outcome: "success", Duplicate: true, Expired: true, Breached: true,
		Tag: "0123456789abcdef", TagPrev: "fedcba9876543210", Repeat: true, UAClass: "firefox", Trace: "4bf92f3577b34da6a3ce929d0e0e4736", Span: "00f067aa0ba902b7", Channel: "web",
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
	for _, c := range escalation.UAClasses {
		if !strings.Contains(string(text), "`"+c+"`") {
			t.Errorf("docs/events.md does not name the class %q", c)
		}
	}
}
