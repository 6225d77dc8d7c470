package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"
)

// families are what the binary exports, by name.
func families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := testMetrics(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range all {
		byName[f.GetName()] = f
		if f.GetType() == dto.MetricType_HISTOGRAM {
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				byName[f.GetName()+part] = f
			}
		}
	}
	return byName
}

var (
	selector = regexp.MustCompile(`\b((?:guardd|process)_[a-z_]+)\b(\{(?:[^"}]|"[^"]*")*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|=)"([^"]*)"`)
	recorded = regexp.MustCompile(`[a-z_]+:[a-z_]+:[a-z0-9_]+`)
)

// has reports whether a family has a series that a selector's matchers take. What
// Prometheus adds (job, instance) and the bounds of buckets are not the binary's labels.
func has(f *dto.MetricFamily, matchers [][]string) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		for _, want := range matchers {
			name, value, found := want[1], want[3], want[1] == "job" || want[1] == "instance"
			if name == "le" {
				found = slices.ContainsFunc(m.GetHistogram().GetBucket(), func(b *dto.Bucket) bool { return formatBound(b.GetUpperBound()) == value })
			}
			for _, l := range m.GetLabel() {
				is := l.GetValue() == value
				if want[2] == "=~" {
					is = regexp.MustCompile("^(?:" + value + ")$").MatchString(l.GetValue())
				}
				found = found || l.GetName() == name && is
			}
			if !found {
				return false
			}
		}
		return true
	})
}

func formatBound(v float64) string {
	text, _ := yaml.Marshal(v)
	return strings.TrimSpace(string(text))
}

// TestRulesAskForWhatThereIs: a metric, a label or a word of it that is renamed makes
// an alert silent for ever, and nobody notices.
func TestRulesAskForWhatThereIs(t *testing.T) {
	exported, asked := families(t), 0
	files, _ := filepath.Glob(filepath.Join(root, "dashboards/rules/*.yaml"))
	records, wanted := map[string]bool{}, map[string]string{}
	for _, file := range files {
		var f struct {
			Groups []struct {
				Rules []struct{ Record, Alert, Expr string }
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &f)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				name := r.Record + r.Alert
				records[r.Record] = true
				for _, w := range recorded.FindAllString(r.Expr, -1) {
					wanted[w] = name
				}
				for _, s := range selector.FindAllStringSubmatch(recorded.ReplaceAllString(r.Expr, ""), -1) {
					asked++
					f := exported[s[1]]
					if f == nil {
						t.Errorf("%s asks for %s, which is not exported", name, s[1])
						continue
					}
					// Each word of an alternative has to exist, too.
					for _, m := range alternatives(matcher.FindAllStringSubmatch(s[2], -1)) {
						if !has(f, m) {
							t.Errorf("%s asks for %s of %s, and there is no such series", name, m, s[1])
						}
					}
				}
			}
		}
	}
	for w, by := range wanted {
		if !records[w] {
			t.Errorf("%s asks for %s, which no rule records", by, w)
		}
	}
	for r := range records {
		if r != "" && wanted[r] == "" {
			t.Errorf("%s is recorded and no rule asks for it", r)
		}
	}
	if asked < 50 {
		t.Errorf("only %d selectors found: the reading is broken", asked)
	}
}

// alternatives spreads matchers such as action=~"a|b" into one set for each word.
func alternatives(ms [][]string) [][][]string {
	all := [][][]string{nil}
	for _, m := range ms {
		var next [][][]string
		words := []string{m[3]}
		if m[2] == "=~" {
			words = strings.Split(m[3], "|")
		}
		for _, before := range all {
			for _, w := range words {
				next = append(next, append(slices.Clone(before), []string{"", m[1], m[2], w}))
			}
		}
		all = next
	}
	return all
}

// TestRunbooksNameWhatThereIs: metrics that are exported, commands and flags that
// there are. At night nobody wants to find out which.
func TestRunbooksNameWhatThereIs(t *testing.T) {
	pages, _ := filepath.Glob(filepath.Join(root, "docs/runbooks/*.md"))
	if len(pages) < 5 {
		t.Fatalf("pages: %v", pages)
	}
	exported, helps := families(t), map[string]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bguardd_[a-z_]+`).FindAllString(string(text), -1) {
			if exported[name] == nil {
				t.Errorf("%s: %s is not exported", page, name)
			}
		}
		for _, c := range regexp.MustCompile("`(guardd [^`]+)`").FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(c[1])[1:]
			help := helpOf(t, helps, words)
			for _, flag := range words {
				if name, ok := strings.CutPrefix(flag, "--"); ok && !regexp.MustCompile(`(?m)-`+name+`\b`).MatchString(help) {
					t.Errorf("%s: %s: there is no --%s", page, c[1], name)
				}
			}
		}
	}
	if len(helps) < 8 {
		t.Errorf("only %d commands found: the reading is broken", len(helps))
	}
}

// helpOf is what a command says of itself: its words up to the first that is a flag
// or no lower-case word.
func helpOf(t *testing.T, known map[string]string, words []string) string {
	t.Helper()
	n := slices.IndexFunc(words, func(w string) bool { return !regexp.MustCompile(`^[a-z]+$`).MatchString(w) })
	if n < 0 {
		n = len(words)
	}
	command := words[:n]
	key := strings.Join(command, " ")
	if known[key] != "" {
		return known[key]
	}
	said, err := exec.Command("guardd", append(slices.Clone(command), "-h")...).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "usage: guardd "+command[0]) {
		t.Errorf("guardd %s: there is no such command: %.200s", key, said)
	}
	known[key] = string(said) + " "
	return known[key]
}
