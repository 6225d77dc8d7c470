package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeNamesEveryFaultWithItsPathAndLine(t *testing.T) {
	const text = `listn: 127.0.0.1:1
instances: many
redis_deadline: soon
shadow: perhaps
log: {level: loud, format: xml, colour: red}
api_keys:
  - {name: shop, sha256: abc, realm: x}
  - just text
instances: 3
realms:
  default:
    flows:
      login:
        limits: [{tier: account, name: burst, capcity: 20, capacity: lots}]
      otp: 7
`
	got := decode(strings.NewReader(text), "FILE", defaults())
	want := []string{
		`listn: unknown key (line 1)`,
		`instances: must be a whole number, not "many" (line 2)`,
		`redis_deadline: must be a duration such as 5ms or 10s, not "soon" (line 3)`,
		`shadow: must be true or false, not "perhaps" (line 4)`,
		`log.level: must be debug, info, warn or error, not "loud" (line 5)`,
		`log.format: must be auto, text or json (line 5)`,
		`log.colour: unknown key (line 5)`,
		`api_keys[0].sha256: must be 64 hex digits: printf %s KEY | sha256sum (line 7)`,
		`api_keys[0].realm: unknown key (line 7)`,
		`api_keys[1]: must be a table of keys and values (line 8)`,
		`instances: repeated (line 9)`,
		`realms.default.flows.login.limits[0].capcity: unknown key (line 14)`,
		`realms.default.flows.login.limits[0].capacity: must be a whole number, not "lots" (line 14)`,
		`realms.default.flows.otp: must be a table of keys and values (line 15)`,
	}
	if d := cmp.Diff(want, []string(got)); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
}

func TestDecodeRefusesWhatIsNotOneTable(t *testing.T) {
	for text, want := range map[string]string{
		"[1, 2]":                      "FILE: must be a table",
		"just words":                  "FILE: must be a table",
		"listen: a\n---\nlisten: b\n": "more than one document",
		"listen: [a\n":                "line 1",
		"listen: {a: b}":              "listen: must be a single value",
		"\tlisten: a":                 "cannot start any token",
	} {
		if got := decode(strings.NewReader(text), "FILE", defaults()).Error(); !strings.Contains(got, want) {
			t.Errorf("%q: %q does not say %q", text, got, want)
		}
	}
}

func TestDecodeLeavesAbsentAndEmptyKeysAtTheirDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "listen:\nlog:\nredis_deadline:\n", "log: {}"} {
		c := defaults()
		if bad := decode(strings.NewReader(text), "FILE", c); len(bad) > 0 {
			t.Errorf("%q: %v", text, bad)
		}
		if d := cmp.Diff(defaults(), c, cmp.AllowUnexported(config{})); d != "" {
			t.Errorf("%q changed the defaults:\n%s", text, d)
		}
	}
}

// FuzzDecode: whatever a file holds, the answer is faults or a configuration,
// and what is accepted twice is the same.
func FuzzDecode(f *testing.F) {
	f.Add("instances: 3\nlog: {level: info}\nrealms: {a: {flows: {login: {limits: [{tier: ip}]}}}}")
	f.Add("listen: &a [*a]")
	f.Add("realms: &r {default: *r}")
	f.Add("<<: {listen: x}\nlog: !!binary aGk=")
	f.Fuzz(func(t *testing.T, text string) {
		one, two := defaults(), defaults()
		bad, again := decode(strings.NewReader(text), "FILE", one), decode(strings.NewReader(text), "FILE", two)
		if len(bad) != len(again) {
			t.Fatalf("%d faults, then %d", len(bad), len(again))
		}
		for _, fault := range bad {
			if path, reason, ok := strings.Cut(fault, ": "); !ok || path == "" || reason == "" {
				t.Errorf("a fault without a path or a reason: %q", fault)
			}
		}
	})
}
