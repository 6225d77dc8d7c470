package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// prometheusServer is a real one.
type prometheusServer struct {
	url   string
	since time.Time
}

// missing ends a test that needs Prometheus: it is skipped, loudly; with CI=true or
// GUARDD_REQUIRE_PROMETHEUS=1 it fails, so that a run without it cannot pass for
// one with it.
func missing(t *testing.T, command string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_PROMETHEUS") == "1" {
		t.Fatalf("%s is not installed, and this run must not do without", command)
	}
	t.Skipf("SKIPPED: %s is not installed (Debian: apt-get install prometheus)", command)
}

// startPrometheus runs one that scrapes the targets every second, until the test
// ends.
func startPrometheus(t *testing.T, targets ...string) *prometheusServer {
	t.Helper()
	bin, err := exec.LookPath("prometheus")
	if err != nil {
		missing(t, "prometheus")
	}
	dir, listen := t.TempDir(), freePort(t)
	config := writeFile(t, dir, "prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: guardd
    static_configs: [{targets: ["%s"]}]
`, strings.Join(targets, `", "`)))
	cmd := exec.Command(bin, "--config.file", config, "--storage.tsdb.path", dir+"/data", "--web.listen-address", listen, "--log.level", "warn",
		"--enable-feature", "exemplar-storage")
	cmd.SysProcAttr = daemon.DieWithParent()
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %.4000s", log.String())
		}
	})
	p := &prometheusServer{url: "http://" + listen, since: time.Now()}
	eventually(t, func() (bool, string) {
		status, text := get(p.url + "/-/ready")
		return status == http.StatusOK, text
	})
	return p
}

// TestPrometheusTakesTheConfigurationsOfTheReadmes has promtool read what is to be
// copied from there.
func TestPrometheusTakesTheConfigurationsOfTheReadmes(t *testing.T) {
	bin, err := exec.LookPath("promtool")
	if err != nil {
		missing(t, "promtool")
	}
	for _, file := range []string{filepath.Join(folder, "README.md"), filepath.Join(folder, "..", "README.md")} {
		readme, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, block := range strings.Split(string(readme), "```yaml\n")[1:] {
			text, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(text, "scrape_configs:") && !strings.HasPrefix(text, "rule_files:") {
				continue // guardd's own
			}
			tried++
			if out, err := exec.Command(bin, "check", "config", "--syntax-only", writeFile(t, t.TempDir(), "prometheus.yml", text)).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", file, err, text, out)
			}
		}
		if tried == 0 {
			t.Errorf("%s: there is none", file)
		}
	}
}

// series is one of an answer.
type series struct {
	labels map[string]string
	values []float64
}

// ask evaluates a dashboard's expression over all of the time since the server
// was started, as a panel does that shows it.
func (p *prometheusServer) ask(expr string) ([]series, error) {
	var a struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	err := p.api(&a, "/api/v1/query_range", url.Values{"query": {fill(expr)}, "step": {"1"},
		"start": {stamp(p.since)}, "end": {stamp(time.Now())}})
	if err != nil || a.Status != "success" {
		return nil, fmt.Errorf("%s: %s: %v", expr, a.Error, err)
	}
	var list []series
	for _, r := range a.Data.Result {
		s := series{labels: r.Metric}
		for _, v := range r.Values {
			text, _ := v[1].(string)
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			if !math.IsNaN(x) { // Grafana draws nothing there
				s.values = append(s.values, x)
			}
		}
		if len(s.values) > 0 {
			list = append(list, s)
		}
	}
	return list, nil
}

// traced reports whether any sample of an expression has a trace beside it.
func (p *prometheusServer) traced(expr string) (bool, error) {
	var a struct {
		Status, Error string
		Data          []struct {
			Exemplars []struct{ Labels map[string]string }
		}
	}
	err := p.api(&a, "/api/v1/query_exemplars", url.Values{"query": {fill(expr)}, "start": {stamp(p.since)}, "end": {stamp(time.Now())}})
	if err != nil || a.Status != "success" {
		return false, fmt.Errorf("%s: %s: %v", expr, a.Error, err)
	}
	for _, s := range a.Data {
		for _, e := range s.Exemplars {
			if e.Labels["trace_id"] != "" {
				return true, nil
			}
		}
	}
	return false, nil
}

// labelValues are what a variable of a dashboard offers.
func (p *prometheusServer) labelValues(selector, label string) ([]string, error) {
	var a struct {
		Status, Error string
		Data          []string
	}
	err := p.api(&a, "/api/v1/label/"+label+"/values", url.Values{"match[]": {fill(selector)}, "start": {stamp(p.since)}})
	if err != nil || a.Status != "success" {
		return nil, fmt.Errorf("%s: %s: %v", selector, a.Error, err)
	}
	return a.Data, nil
}

func (p *prometheusServer) api(into any, path string, form url.Values) error {
	status, text := get(p.url + path + "?" + form.Encode())
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%d %.200s: %w", status, text, err)
	}
	return nil
}

// fill does what Grafana does: all of each variable, and for windows of a rate
// those of somebody who has zoomed out. Of what must be seen within one, such as a
// process before and after its restart, none may depend on how busy a machine is.
func fill(expr string) string {
	return strings.NewReplacer("$__rate_interval", "30s", "$job", ".+", "$instance", ".+", "$realm", ".+").Replace(expr)
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
