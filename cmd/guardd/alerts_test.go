package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// prometheusSet is a real Prometheus with our rules, a real Alertmanager behind it,
// and a hook behind that.
type prometheusSet struct {
	url  string // of Prometheus
	told chan hooked
}

// hooked is as much of what Alertmanager posts as is looked at.
type hooked struct {
	Status string
	Alerts []struct {
		Status              string
		Labels, Annotations map[string]string
	}
}

// installed finds a command by any of its names. Where it is not installed the test is
// skipped, except where nothing may be.
func installed(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if bin, err := exec.LookPath(name); err == nil {
			return bin
		}
	}
	if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_PROMETHEUS") == "1" {
		t.Fatalf("%s is not installed, and this run must not do without", names[0])
	}
	t.Skipf("SKIPPED: %s is not installed (Debian: apt-get install prometheus prometheus-alertmanager)", names[0])
	return ""
}

// runServer starts a server that ends with the test, and waits for its url to answer 200.
func runServer(t *testing.T, url, bin string, args ...string) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.SysProcAttr = daemon.DieWithParent()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s: %.4000s", bin, text)
		}
	})
	eventually(t, url+" answers", func() bool {
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func startPrometheus(t *testing.T, scraped *process) *prometheusSet {
	t.Helper()
	prometheus, alertmanager := installed(t, "prometheus"), installed(t, "prometheus-alertmanager", "alertmanager")
	s := &prometheusSet{told: make(chan hooked, 64)}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var h hooked
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			t.Error(err)
		}
		select {
		case s.told <- h:
		default: // nobody reads any more
		}
	}))
	t.Cleanup(hook.Close)
	var port [2]int
	for i := range port {
		p, err := daemon.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		port[i] = p
	}
	rules, err := filepath.Abs(filepath.Join(root, "dashboards/rules"))
	if err != nil {
		t.Fatal(err)
	}
	target, _ := url.Parse(scraped.admin)
	am := fmt.Sprintf("127.0.0.1:%d", port[0])
	runServer(t, "http://"+am+"/-/ready", alertmanager, "--config.file", writeFile(t, "alertmanager.yml", `
route: {receiver: hook, group_by: [alertname], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "`+hook.URL+`"}]}]
`), "--storage.path", t.TempDir(), "--web.listen-address", am, "--cluster.listen-address", "", "--log.level", "warn")
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port[1])
	runServer(t, s.url+"/-/ready", prometheus, "--config.file", writeFile(t, "prometheus.yml", `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: ["`+rules+`/*.yaml"]
alerting: {alertmanagers: [{static_configs: [{targets: ["`+am+`"]}]}]}
scrape_configs: [{job_name: guardd, static_configs: [{targets: ["`+target.Host+`"]}]}]
`), "--storage.tsdb.path", t.TempDir(), "--web.listen-address", strings.TrimPrefix(s.url, "http://"), "--log.level", "warn", "--enable-feature", "exemplar-storage")
	return s
}

// ask decodes the data of an answer of Prometheus'.
func (s *prometheusSet) ask(t *testing.T, path string, into any) {
	t.Helper()
	_, text := get(t, s.url+path)
	var a struct {
		Status string
		Data   json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Status != "success" {
		t.Fatalf("%s: %s: %v", path, text, err)
	}
	if err := json.Unmarshal(a.Data, into); err != nil {
		t.Fatalf("%s: %s: %v", path, text, err)
	}
}

// TestAnAlertReachesAHook is the whole way: guardd refuses a policy, Prometheus reads
// that, its rule fires, Alertmanager posts it, and nothing else.
func TestAnAlertReachesAHook(t *testing.T) {
	policy := writeFile(t, "policy.yaml", "realms: {default: {delivery: {driver: log}}}\n")
	p := startGuardd(t, "--policy", policy)
	s := startPrometheus(t, p)
	eventually(t, "guardd is scraped", func() bool {
		var up struct{ Result []struct{ Value [2]any } }
		s.ask(t, "/api/v1/query?query=up%7Bjob%3D%22guardd%22%7D", &up)
		return len(up.Result) == 1 && up.Result[0].Value[1] == "1"
	})
	if err := os.WriteFile(policy, []byte("realms: {default: {flows: {login: {limits: [{tier: account, name: burst, capacity: -1}]}}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	asks := traced(t, p, "/v1/attempts", `{"account":"alice","ip":"192.0.2.1"}`, "01")
	eventually(t, "a bucket leads to a trace", func() bool {
		var all []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		s.ask(t, "/api/v1/query_exemplars?query=guardd_decision_duration_seconds_bucket&start="+fmt.Sprint(time.Now().Unix()-600)+"&end="+fmt.Sprint(time.Now().Unix()+60), &all)
		return len(all) > 0 && all[0].Exemplars[0].Labels["trace_id"] == asks
	})
	late := time.After(3 * patience)
	for told := false; !told; {
		select {
		case h := <-s.told:
			for _, a := range h.Alerts {
				switch a.Labels["alertname"] {
				case "GuarddWatchdog":
				case "GuarddReloadFailed":
					told = true
					if a.Status != "firing" || a.Labels["severity"] != "warning" || a.Labels["instance"] == "" ||
						!strings.HasSuffix(a.Annotations["runbook_url"], "service.md#guarddreloadfailed") || !strings.Contains(a.Annotations["summary"], a.Labels["instance"]) {
						t.Errorf("told %+v", a)
					}
				default:
					t.Errorf("told of %s, which is not so", a.Labels["alertname"])
				}
			}
		case <-late:
			t.Fatal("nobody was told")
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	n := 0
	s.ask(t, "/api/v1/rules", &rules)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
			if fires := r.Name == "GuarddReloadFailed" || r.Name == "GuarddWatchdog"; (r.State == "firing") != fires {
				t.Errorf("%s is %s", r.Name, r.State)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d rules", n)
	}
}

// TestPromtoolHasNothingToSayOfTheMetrics has Prometheus' own linter read a scrape.
func TestPromtoolHasNothingToSayOfTheMetrics(t *testing.T) {
	promtool := installed(t, "promtool")
	p := startGuardd(t)
	p.attempt(t, "alice", "192.0.2.1")
	_, text := get(t, p.admin+"/metrics")
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 || !strings.Contains(text, "guardd_attempts_total") {
		t.Errorf("%v: %s", err, said)
	}
}
