//lint:file-ignore SA1019 The newer schema is read by the newest Grafanas only, this one by the older ones too.

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"go.yaml.in/yaml/v3"
)

func TestCommittedDashboardsAreWhatTheProgramWrites(t *testing.T) {
	dir := t.TempDir()
	for i := range boards {
		text, err := boards[i].json()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, boards[i].file()), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	there, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	if len(made) != 6 || len(there) != len(made) {
		t.Errorf("%d dashboards are made, %d are committed", len(made), len(there))
	}
	for _, f := range made {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(folder, filepath.Base(f)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the program writes: cd dashboards/gen && go run .", filepath.Base(f))
		}
	}
}

func TestDashboardsObeyTheRules(t *testing.T) {
	docs, _ := committed(t)
	uids := map[string]bool{}
	for _, d := range docs {
		if uids[d.UID] || uids[d.Title] || d.UID == "" || d.Title == "" || d.Description == "" {
			t.Errorf("%q, %q: no uid, title and description of its own", d.UID, d.Title)
		}
		uids[d.UID], uids[d.Title] = true, true
		for _, c := range lint(d) {
			t.Errorf("%s: %s", d.UID, c)
		}
	}
}

// TestEachRuleFindsWhatBreaksIt breaks a dashboard in one place for every rule.
func TestEachRuleFindsWhatBreaksIt(t *testing.T) {
	_, texts := committed(t)
	var attack string
	for _, text := range texts {
		if bytes.Contains(text, []byte(`"uid": "guardd-attack"`)) {
			attack = string(text)
		}
	}
	instead := func(old, new string) func() string {
		return func() string { return strings.Replace(attack, old, new, 1) }
	}
	found := map[string]bool{}
	for _, row := range []struct {
		rule  string
		broke func() string
	}{
		{"uneditable-dashboard", instead(`"editable": false`, `"editable": true`)},
		{"template-datasource-rule", instead(`"query": "prometheus"`, `"query": "loki"`)},
		{"template-job-rule", instead(`"multi": true`, `"multi": false`)},
		{"template-instance-rule", instead(`"name": "instance"`, `"name": "host"`)},
		{"template-realm-rule", func() string {
			i := strings.LastIndex(attack, `"allValue": ".+"`)
			return attack[:i] + `"allValue": ".*"` + attack[i+len(`"allValue": ".+"`):]
		}},
		{"template-label-promql-rule", instead(`label_values(guardd_build_info, job)`, `label_values(guardd_build_info{, job)`)},
		{"template-on-time-change-reload-rule", instead(`"refresh": 2`, `"refresh": 1`)},
		{"panel-datasource-rule", instead(`"uid": "${datasource}"`, `"uid": "grafanacloud-prom"`)},
		{"panel-title-description-rule", instead(`"title": "Open campaigns"`, `"title": "Posture"`)},
		{"panel-title-description-rule", instead(`docs/findings.md."`, `docs/findings.md"`)},
		{"panel-units-rule", instead(`"unit": "cpm"`, `"unit": "counts per minute"`)},
		{"panel-no-targets-rule", instead(`"refId": "B"`, `"refId": "A"`)},
		{"panel-layout", instead(`"x": 4`, `"x": 3`)},
		{"panel-layout", instead(`"w": 12`, `"w": 25`)},
		{"panel-thresholds", instead(`"value": null`, `"value": 1`)},
		{"dashboard-links", instead(`"keepTime": true`, `"keepTime": false`)},
		{"target-promql-rule", instead(`max by (realm) (`, `max by realm (`)},
		{"target-job-rule", instead(`{job=~\"$job\", `, `{`)},
		{"target-instance-rule", instead(`instance=~\"$instance\"`, `instance=\"$instance\"`)},
		{"target-rate-interval-rule", instead(`[$__rate_interval]`, `[5m]`)},
		{"target-counter-agg-rule", instead(`sum by (class) (rate(guardd_aggregate_logins_total{job=~\"$job\", instance=~\"$instance\", realm=~\"$realm\"}[$__rate_interval]))`, `sum by (class) (guardd_aggregate_logins_total{job=~\"$job\", instance=~\"$instance\", realm=~\"$realm\"})`)},
		{"target-counter-agg-rule", instead(`sum by (what) (guardd_detection_campaigns{job=~\"$job\", instance=~\"$instance\", realm=~\"$realm\"})`, `sum by (what) (rate(guardd_detection_campaigns{job=~\"$job\", instance=~\"$instance\", realm=~\"$realm\"}[$__rate_interval]))`)},
		{"target-histogram-rule", instead(`sum by (le, tier)`, `sum by (tier)`)},
	} {
		text := row.broke()
		if text == attack {
			t.Errorf("%s: there is nothing to break", row.rule)
			continue
		}
		d := &doc{}
		if err := json.Unmarshal([]byte(text), d); err != nil {
			t.Fatal(err)
		}
		complaints := lint(d)
		if len(complaints) == 0 {
			t.Errorf("%s: nobody complains", row.rule)
		}
		for _, c := range complaints {
			if name, _, _ := strings.Cut(c, ": "); name == row.rule {
				found[row.rule] = true
			}
		}
		if !found[row.rule] {
			t.Errorf("%s does not complain; others: %q", row.rule, complaints)
		}
	}
	for _, r := range rules {
		if !found[r.name] {
			t.Errorf("%s: never seen to complain", r.name)
		}
	}
}

// TestGrafanaKnowsEveryField reads the files with Grafana's own types, strictly,
// and then not: they are strict about a panel and not about what is inside of its
// queries and fields, so what they have understood is written again and compared:
// a name that they do not know is lost on the way.
func TestGrafanaKnowsEveryField(t *testing.T) {
	r := cog.NewRuntime()
	r.RegisterDataqueryVariant(prometheus.VariantConfig())
	r.RegisterPanelcfgVariant(timeseries.VariantConfig())
	r.RegisterPanelcfgVariant(stat.VariantConfig())
	r.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	r.RegisterPanelcfgVariant(heatmap.VariantConfig())
	r.RegisterPanelcfgVariant(table.VariantConfig())
	_, texts := committed(t)
	for _, text := range texts {
		if wrong := unknown(t, text); len(wrong) > 0 {
			t.Errorf("%.60s: %q", text, wrong[:min(len(wrong), 5)])
		}
	}
	for _, row := range []struct{ old, new string }{
		{`"refresh": "30s"`, `"refesh": "30s"`},
		{`"gridPos"`, `"gridPoz"`},
		{`"legendFormat"`, `"legendFromat"`},
		{`"lineWidth"`, `"lineWith"`},
	} {
		for _, text := range texts {
			broken := bytes.Replace(text, []byte(row.old), []byte(row.new), 1)
			if bytes.Equal(broken, text) { // not every dashboard has one
				continue
			}
			if len(unknown(t, broken)) == 0 {
				t.Errorf("%s is taken for %s", row.new, row.old)
			}
		}
	}
}

// unknown is what Grafana's types say of text, or lose of it.
func unknown(t *testing.T, text []byte) (wrong []string) {
	t.Helper()
	var d dashboard.Dashboard
	// The error is a list whose nil is not nil.
	if err := d.UnmarshalJSONStrict(text); err != nil && reflect.ValueOf(err).Len() > 0 {
		return append(wrong, err.Error())
	}
	if err := d.Validate(); err != nil {
		return append(wrong, err.Error())
	}
	// Read once more: strictly, they keep no panel, because of that same nil.
	var lax dashboard.Dashboard
	if err := json.Unmarshal(text, &lax); err != nil {
		return append(wrong, err.Error())
	}
	again, err := json.Marshal(lax)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &got); err != nil {
		t.Fatal(err)
	}
	return lost("", want, got)
}

// lost are the paths of want that got does not have, or has otherwise.
func lost(path string, want, got any) (list []string) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k, v := range w {
			list = append(list, lost(path+"."+k, v, g[k])...)
		}
		return list
	case []any:
		g, _ := got.([]any)
		if len(w) != len(g) {
			return []string{path}
		}
		for i := range w {
			list = append(list, lost(path, w[i], g[i])...)
		}
		return list
	}
	if !reflect.DeepEqual(want, got) {
		return []string{path}
	}
	return nil
}

// TestProvisioningFilesPointAtEachOther reads the files that Grafana starts with.
func TestProvisioningFilesPointAtEachOther(t *testing.T) {
	read := func(file string, into any) {
		text, err := os.ReadFile(filepath.Join(folder, "provisioning", file))
		if err != nil {
			t.Fatal(err)
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, Type, Access, URL, UID string
			IsDefault                    bool `yaml:"isDefault"`
			JSONData                     struct {
				HTTPMethod   string `yaml:"httpMethod"`
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		}
	}
	read("datasources/guardd.yaml", &sources)
	if sources.APIVersion != 1 || len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL == "" || sources.Datasources[0].JSONData.TimeInterval == "" {
		t.Errorf("data sources: %+v", sources)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			FolderUID          string `yaml:"folderUid"`
			DisableDeletion    bool   `yaml:"disableDeletion"`
			AllowUIUpdates     bool   `yaml:"allowUiUpdates"`
			UpdateInterval     int    `yaml:"updateIntervalSeconds"`
			Options            struct{ Path string }
		}
	}
	read("dashboards/guardd.yaml", &providers)
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil || len(providers.Providers) == 1 && !strings.Contains(string(readme), " "+providers.Providers[0].Options.Path+"/\n") {
		t.Errorf("the README has dashboards copied to another folder: %v", err)
	}
	if providers.APIVersion != 1 || len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || !filepath.IsAbs(providers.Providers[0].Options.Path) || providers.Providers[0].AllowUIUpdates {
		t.Errorf("dashboards: %+v", providers)
	}
}

// TestReadmeNamesWhatIsThere holds it to the dashboards, their titles, and the
// tests.
func TestReadmeNamesWhatIsThere(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs, _ := committed(t)
	for _, d := range docs {
		title := strings.TrimPrefix(d.Title, "guardd / ")
		if !strings.Contains(string(readme), "| ["+title+"]("+d.UID+".json) |") {
			t.Errorf("%s is not in the table", title)
		}
	}
	if n := strings.Count(string(readme), ".json) |"); n != len(docs) {
		t.Errorf("%d dashboards are in the table, there are %d", n, len(docs))
	}
	var tests []byte
	files, _ := filepath.Glob("*_test.go")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, text...)
	}
	named := regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`").FindAllStringSubmatch(string(readme), -1)
	if len(named) < 5 {
		t.Errorf("named are %q", named)
	}
	for _, n := range named {
		if !bytes.Contains(tests, []byte("func "+n[1]+"(t *testing.T)")) || n[2] != "" && !bytes.Contains(tests, []byte(`t.Run("`+n[2]+`"`)) {
			t.Errorf("there is no %s", n[0])
		}
	}
}
