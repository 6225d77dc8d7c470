package soctest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Alertmanager is a running Alertmanager that tells a webhook of the test's of every
// alert at once.
type Alertmanager struct {
	URL string

	mu   sync.Mutex
	told []Alert
}

// Alert is one that a webhook was told of.
type Alert struct {
	Status      string            `json:"status"` // firing, resolved
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
}

// StartAlertmanager starts one that ends with the test.
func StartAlertmanager(t testing.TB) *Alertmanager {
	t.Helper()
	path, dir := find(t, "prometheus-alertmanager", "alertmanager"), t.TempDir()
	a := &Alertmanager{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Alerts []Alert }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("a notice of Alertmanager's: %v", err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.told = append(a.told, m.Alerts...)
	}))
	t.Cleanup(hook.Close)
	conf := filepath.Join(dir, "alertmanager.yml")
	text := fmt.Sprintf("route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\nreceivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: true}]}]\n", hook.URL)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, addr := run(t, path, func(port string) []string {
		return []string{"--config.file=" + conf, "--storage.path=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:" + port, "--cluster.listen-address="}
	})
	a.URL = "http://" + addr
	return a
}

// Told are the alerts that the webhook was told of, in order.
func (a *Alertmanager) Told() []Alert {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Alert(nil), a.told...)
}
