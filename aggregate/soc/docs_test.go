package soc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/guardd/guardd/aggregate"
)

// examples are what docs/soc.md shows, in its order.
func examples(t *testing.T) (all []string) {
	t.Helper()
	pinned := &aggregate.Finding{V: 1, ID: "operator_action-1796-1", Realm: "default", What: "operator_action", State: "once", Start: began, Last: began,
		By: "night-shift", Action: "posture.pin", Was: "normal, not pinned", Is: "high, pinned until 2026-11-30T05:05:06Z", Reason: "a leak"}
	line, err := AppendSyslog(nil, OfFinding(pinned, Once), CEF, producer)
	if err != nil {
		t.Fatal(err)
	}
	// The number of the process is another each time.
	all = append(all, strings.Replace(string(line), fmt.Sprintf(" guardd %d ", os.Getpid()), " guardd 4711 ", 1))
	spray := finding("spray", "open")
	spray.Posture, spray.Reason, spray.Guesses, spray.Peak, spray.Accounts, spray.Sources = "", "one password on 25 accounts", 26, 0, 25, 2
	spray.Groups, spray.Samples, spray.Done = []aggregate.FindingGroup{{Kind: "source", Key: "203.0.113.7/32"}, {Kind: "password", Key: "0123456789abcdef"}}, spray.Samples[:1],
		[]aggregate.FindingAction{{Time: spray.Last, What: "password suspect"}}
	asked := attempt("captcha")
	asked.Tiers = nil
	for f, r := range map[Format]*Record{OCSF: OfFinding(spray, Opened), ECS: OfEvent(asked)} {
		line, err := f.AppendTo(nil, r, producer)
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if err := json.Indent(&shown, line, "", " "); err != nil {
			t.Fatal(err)
		}
		all = append(all, shown.String())
	}
	return all
}

// What an analyst reads in docs/soc.md is what he gets.
func TestTheExamplesOfTheDocumentAreReal(t *testing.T) {
	text, err := os.ReadFile("../../docs/soc.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```\\w*\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		shown[block[1]] = true
	}
	if len(shown) != 3 {
		t.Errorf("%d examples", len(shown))
	}
	for _, e := range examples(t) {
		if !shown[e] {
			t.Errorf("docs/soc.md does not show\n%s", e)
		}
	}
	for what, k := range kinds {
		id, name := k.attack[0], k.attack[1]
		if k.sub[0] != "" {
			id, name = k.sub[0], k.sub[1]
		}
		row := regexp.MustCompile("(?m)^\\| `" + what + "` \\| [^|]+ \\| " + k.severity.String() + " \\| " + regexp.QuoteMeta(strings.TrimSpace(id+" "+name)) + " ?\\|$")
		if !row.Match(text) {
			t.Errorf("docs/soc.md has no row for %s: %s, %s %s", what, k.severity, id, name)
		}
	}
}
