package sink

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/aggregate/soc/soctest"
)

type finding = aggregate.Finding

const signingSecret = "0123456789abcdef0123456789abcdef"

// verify is a receiver's check, written from the text of Standard Webhooks 1.0.0.
func verify(r *http.Request, body []byte) error {
	id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(n, 0)).Abs() > 5*time.Minute || id == "" || strings.Contains(id, ".") {
		return fmt.Errorf("id %q, timestamp %q", id, stamp)
	}
	mac := hmac.New(sha256.New, []byte(signingSecret))
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
		return errors.New("the signature is another")
	}
	return nil
}

func TestAWebhookIsSignedAndItsAnswersAreUnderstood(t *testing.T) {
	status, after := 200, ""
	got := map[string]string{} // content types by id
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := verify(r, body); err != nil {
			t.Error(err)
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		if status == 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		got[r.Header.Get("webhook-id")] = r.Header.Get("Content-Type") + " " + string(body)
	}))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c := Config{To: srv.URL + "/hook", TLS: &tls.Config{RootCAs: roots}, Secrets: [][]byte{[]byte(signingSecret)}, AllowNetworks: []string{"127.0.0.0/8"}}
	s, all := open(t, c), records(5)
	deliver(t, s, all...)
	for _, r := range all {
		want, _ := soc.OCSF.AppendTo(nil, r, producer)
		if got["msg_"+r.ID] != "application/json "+string(want) {
			t.Errorf("%s came as %s", r.ID, got["msg_"+r.ID])
		}
	}
	for code, refused := range map[int]bool{400: true, 422: true, 413: true, 500: false, 503: false, 429: false, 401: false, 404: false, 302: false} {
		status = code
		n, err := s.Deliver(t.Context(), all)
		if n != 0 || err == nil || errors.Is(err, soc.ErrRefused) != refused {
			t.Errorf("%d: %d, %v", code, n, err)
		}
		if strings.Contains(fmt.Sprint(err), "/hook") {
			t.Errorf("%d: the error shows the path: %v", code, err)
		}
	}
	status, after = 429, "17"
	_, err := s.Deliver(t.Context(), all)
	if a, ok := errors.AsType[*soc.After](err); !ok || a.Wait != 17*time.Second {
		t.Errorf("%v", err)
	}
	c.AllowNetworks = nil
	status, after = 200, ""
	if n, err := open(t, c).Deliver(t.Context(), all); n != 0 || err == nil {
		t.Errorf("an address that was not allowed is dialled: %d, %v", n, err)
	}
}

// The real thing: Alertmanager is told of an opening, of a severity that rises, and of
// the end; what is not told again would end by itself.
func TestAlertmanagerIsToldWhileACampaignIsOpen(t *testing.T) {
	am := soctest.StartAlertmanager(t)
	s := open(t, Config{To: "alertmanager+" + am.URL, AllowNetworks: []string{"127.0.0.0/8"}, Labels: map[string]string{"team": "soc"}})
	r := records(1)[0]
	deliver(t, s, r, soc.OfEvent(&aggregate.Event{V: 1, ID: "a-1", Kind: "attempt", Realm: "default", Action: "captcha", Time: time.Now()}))
	told := func(status, severity string) func() bool {
		return func() bool {
			for _, a := range am.Told() {
				if a.Status == status && a.Labels["severity"] == severity && a.Labels["alertname"] == "guardd_spray" && a.Labels["team"] == "soc" &&
					a.Labels["campaign"] == "spray-0" && a.Labels["realm"] == "default" && strings.Contains(a.Annotations["description"], "25 accounts") {
					return true
				}
			}
			return false
		}
	}
	await(t, "that it is firing", told("firing", "warning"))
	deliver(t, s, changed(r, soc.Updated, func(f *finding) { f.Posture = "high" }))
	await(t, "that it is firing as worse", told("firing", "critical"))
	await(t, "that what it was before is over", told("resolved", "warning"))
	if err := s.(soc.Keeper).Again(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, changed(r, soc.Closed, func(f *finding) { f.Posture, f.State, f.End = "high", "closed", f.Last }))
	await(t, "that it is over", told("resolved", "critical"))
	if n := len(s.(*alertmanager).open); n != 0 {
		t.Errorf("%d are told again", n)
	}
}

// What Alertmanager is sent ends by itself unless it is sent again.
func TestAnAlertEndsUnlessItIsToldAgain(t *testing.T) {
	var bodies []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.URL.Path+" "+string(b))
	}))
	defer srv.Close()
	s := open(t, Config{To: "alertmanager+" + srv.URL + "/am/", AllowNetworks: []string{"127.0.0.0/8"}})
	all := records(2)
	all[1] = changed(all[1], soc.Once, func(f *finding) { f.What, f.State = "operator_action", "once" })
	deliver(t, s, all...)
	if err := s.(soc.Keeper).Again(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 2 || !strings.HasPrefix(bodies[0], "/am/api/v2/alerts [") || strings.Count(bodies[0], "alertname") != 2 {
		t.Fatalf("%q", bodies)
	}
	if strings.Count(bodies[1], "alertname") != 1 || !strings.Contains(bodies[1], "spray-0") {
		t.Errorf("told again: %s", bodies[1])
	}
	x := s.(*alertmanager).open["default\x00spray-0"]
	if left := time.Until(x.EndsAt); left <= resend || left > lasts {
		t.Errorf("it ends in %v, told each %v", left, resend)
	}
}
