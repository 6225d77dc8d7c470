// Package rules_test holds the alert rules to their word: each fires and is silent
// where its unit tests say, and its runbook tells an operator what is true.
package rules_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

// rule is one rule of a file.
type rule struct {
	File, Record, Alert, Expr, For string
	Labels, Annotations            map[string]string
}

// rules reads every file of rules.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("files of rules: %v %v", files, err)
	}
	for _, file := range files {
		var f struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		unmarshal(t, file, &f)
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				r.File = strings.TrimSuffix(file, ".yaml")
				all = append(all, r)
			}
		}
	}
	return all
}

// alerts are the rules that alert, by name.
func alerts(t *testing.T) map[string]rule {
	t.Helper()
	all := map[string]rule{}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if _, twice := all[r.Alert]; twice {
			t.Errorf("there are two of %s", r.Alert)
		}
		all[r.Alert] = r
	}
	return all
}

func unmarshal(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// promtool runs Prometheus' own checker. Where it is not installed the test is
// skipped, except where nothing may be.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bin, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_PROMETHEUS") == "1" {
			t.Fatal("promtool is not installed, and this run must not do without")
		}
		t.Skip("SKIPPED: promtool is not installed (Debian: apt-get install prometheus), so no rule was tried")
	}
	said, err := exec.Command(bin, args...).CombinedOutput()
	return string(said), err
}

func TestPrometheusTakesEveryRule(t *testing.T) {
	files, _ := filepath.Glob("*.yaml")
	if said, err := promtool(t, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, files...)...); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// expectation is one look of a unit test at one alert.
type expectation struct {
	Eval   string `yaml:"eval_time"`
	Alert  string `yaml:"alertname"`
	Alerts []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

// TestEachAlertFiresAndIsSilent has promtool run the unit tests, and looks that none
// is missing: an alert that nobody has seen fire is a comment, and one that nobody
// has seen silent is noise.
func TestEachAlertFiresAndIsSilent(t *testing.T) {
	files, _ := filepath.Glob("tests/*.yaml")
	known, fires, silent := alerts(t), map[string]bool{}, map[string]bool{}
	for _, file := range files {
		var f struct {
			Tests []struct {
				Input []any         `yaml:"input_series"`
				Looks []expectation `yaml:"alert_rule_test"`
			}
		}
		unmarshal(t, file, &f)
		for _, test := range f.Tests {
			for _, x := range test.Looks {
				if known[x.Alert].Alert == "" {
					t.Errorf("%s: there is no %s, so nothing is tried", file, x.Alert)
				}
				if len(x.Alerts) > 0 {
					fires[x.Alert] = true
				} else if len(test.Input) > 0 { // nothing follows of nothing
					silent[x.Alert] = true
				}
			}
		}
	}
	for name := range known {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: seen to fire: %t, seen silent: %t", name, fires[name], silent[name])
		}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if said, err := promtool(t, "test", "rules", file); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}

// TestWhereNothingIsScrapedOnlyAbsenceIsTold: a Prometheus that has just started, or
// that sees other jobs only, wakes nobody about a Kafka or a corpus that there is not.
func TestWhereNothingIsScrapedOnlyAbsenceIsTold(t *testing.T) {
	var b strings.Builder
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series: [{series: 'up{job=\"other\"}', values: '1x90'}]\n    alert_rule_test:\n", filepath.Join(dir, "*.yaml"))
	for _, name := range slices.Sorted(maps.Keys(alerts(t))) {
		if name != "GuarddAbsent" {
			fmt.Fprintf(&b, "      - {eval_time: 1h, alertname: %s, exp_alerts: []}\n", name)
		}
	}
	file := filepath.Join(t.TempDir(), "absent.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := promtool(t, "test", "rules", file); err != nil || strings.Contains(said, "no file match") {
		t.Errorf("%v: %s", err, said)
	}
}

// severities are who is told: somebody at once, somebody this week, whoever looks,
// and (of the watchdog) a machine.
var severities = []string{"critical", "warning", "info", "none"}

func TestEachAlertSaysWhatItIsAndWhatToDo(t *testing.T) {
	for name, a := range alerts(t) {
		if !regexp.MustCompile(`^Guardd[A-Z][A-Za-z]+$`).MatchString(name) {
			t.Errorf("%s: not the name of an alert of guardd", name)
		}
		if !slices.Contains(severities, a.Labels["severity"]) || len(a.Labels) != 1 {
			t.Errorf("%s: labels %v", name, a.Labels)
		}
		for _, k := range []string{"summary", "description", "runbook_url"} {
			if a.Annotations[k] == "" {
				t.Errorf("%s has no %s", name, k)
			}
		}
		page := fmt.Sprintf("docs/runbooks/%s.md", a.File)
		if want := "https://github.com/guardd/guardd/blob/main/" + page + "#" + strings.ToLower(name); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: its runbook is %s, not %s", name, a.Annotations["runbook_url"], want)
		}
	}
}

// runbooks are the pages, by name, in sections by heading.
func runbooks(t *testing.T) map[string]map[string]string {
	t.Helper()
	files, _ := filepath.Glob(root + "/docs/runbooks/*.md")
	pages := map[string]map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sections := map[string]string{}
		for _, s := range strings.Split("\n"+string(text), "\n## ")[1:] {
			head, body, _ := strings.Cut(s, "\n")
			sections[head] = body
		}
		pages[strings.TrimSuffix(filepath.Base(file), ".md")] = sections
	}
	return pages
}

// TestEachAlertHasItsRunbook, and each section of one its alert: at night nobody
// should read of one that is no more.
func TestEachAlertHasItsRunbook(t *testing.T) {
	pages, known := runbooks(t), alerts(t)
	for name, a := range known {
		s := pages[a.File][name]
		for _, part := range []string{"**What it means.**", "**Look.**", "**Do.**"} {
			if !strings.Contains(s, part) {
				t.Errorf("docs/runbooks/%s.md: %s lacks %s", a.File, name, part)
			}
		}
	}
	for page, sections := range pages {
		for name := range sections {
			if known[name].File != page {
				t.Errorf("docs/runbooks/%s.md: there is no alert %s in %s.yaml", page, name, page)
			}
		}
	}
}

// TestEveryKindOfFindingIsInAnAlert: what is found and nobody is told of was found
// for nothing.
func TestEveryKindOfFindingIsInAnAlert(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| `what` | is |")
	table, _, _ = strings.Cut(table, "| field |")
	kinds := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(kinds) < 10 {
		t.Fatalf("kinds of findings: %v", kinds)
	}
	asked := ""
	for _, a := range alerts(t) {
		for _, m := range regexp.MustCompile(`what=~?"([^"]*)"`).FindAllStringSubmatch(a.Expr, -1) {
			asked += "|" + m[1] + "|"
		}
	}
	for _, k := range kinds {
		if !strings.Contains(asked, "|"+k[1]+"|") && !strings.Contains(quietly, "|"+k[1]+"|") {
			t.Errorf("no alert asks for %s", k[1])
		}
	}
}

// quietly are kinds of findings that follow of what somebody did, or that another
// alert tells of; a quota that is used is between a customer and who bills him.
const quietly = "|operator_action|posture_change|quota_reached|"

// TestTheReadmeKnowsTheAlerts: how many there are, and each file of them.
func TestTheReadmeKnowsTheAlerts(t *testing.T) {
	text, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := alerts(t)
	if want := fmt.Sprintf("Prometheus' rules: %d alerts,", len(known)); !strings.Contains(string(text), want) {
		t.Errorf("the README does not say: %s", want)
	}
	for name, a := range known {
		if !strings.Contains(string(text), "\n| `"+a.File+"` | ") {
			t.Errorf("the README has no row of %s, where %s is", a.File, name)
		}
	}
}
