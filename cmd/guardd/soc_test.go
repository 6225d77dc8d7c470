package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leodido/go-syslog/v4/rfc5424"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
	"github.com/guardd/guardd/aggregate/soc/soctest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

func TestFaultsOfSinksAreRefusedByName(t *testing.T) {
	secret := writeFile(t, "hook.secret", longLine)
	for _, tt := range []struct{ yaml, want string }{
		{"{to: pigeon}", `soc.sinks[0].to: "pigeon" is not topic:NAME`},
		{"", "soc.sinks[0].to: missing"},
		{"{to: 'topic:soc'}", "soc.sinks[0].to: needs kafka"},
		{"{to: 'file:x', format: xml}", "soc.sinks[0].format: must be one of [guardd ocsf ecs cef]"},
		{"{to: 'file:x', what: [spray, sprey]}", `soc.sinks[0].what[1]: must be one of distributed_guessing, enumeration, `},
		{"{to: 'file:x', realms: [nowhere]}", `soc.sinks[0].realms[0]: no realm "nowhere"`},
		{"{to: 'file:x', min_severity: bad}", "soc.sinks[0].min_severity: must be one of [informational low"},
		{"{to: 'file:x', decisions: some}", "soc.sinks[0].decisions: must be one of [none refused all]"},
		{"{to: 'file:x', per_minute: -1}", "soc.sinks[0].per_minute: must be from 0"},
		{"{to: 'file:x', queue: -1}", "soc.sinks[0].queue: must be from 0"},
		{"{to: 'file:x', secret_file: " + secret + "}", "soc.sinks[0].secret_file: means nothing to file"},
		{"{to: 'syslog://h:1', keep: 1}", "soc.sinks[0].keep: means nothing to syslog"},
		{"{to: 'syslog://h:1', tls: {ca_file: x}}", "soc.sinks[0].tls: means nothing to syslog"},
		{"{to: 'syslog+tls://h:1', tls: {ca_file: nowhere}}", "soc.sinks[0].tls.ca_file: open "},
		{"{to: 'https://h.example/', secret_file: nowhere}", "soc.sinks[0].secret_file: open "},
		{"{to: 'https://h.example/'}", "soc.sinks[0].secret_file: a signing secret is needed"},
		{"{to: 'http://h.example/', secret_file: " + secret + "}", "soc.sinks[0].to: is plain http"},
		{"{to: 'https://h.example/', secret_file: " + secret + ", allow_networks: [x]}", `soc.sinks[0].allow_networks[0]: "x" is not a network`},
		{"{to: 'alertmanager+https://h.example', format: cef}", "soc.sinks[0].format: means nothing to alertmanager+https"},
		{"{to: 'alertmanager+https://h.example', decisions: all}", "soc.sinks[0].decisions: Alertmanager is told of findings only"},
		{"{to: 'alertmanager+https://h.example', labels: {a-b: c}}", `soc.sinks[0].labels: "a-b" is no name`},
		{"{to: 'file:x', name: 'A b'}", "soc.sinks[0].name: must be up to 32"},
		{"{to: 'file:x'}, {to: 'file:y'}", `soc.sinks[1].name: "file" is used twice`},
	} {
		_, err := loadWith(t, "soc: {sinks: ["+tt.yaml+"]}", nil)
		if tt.yaml == "" {
			_, err = loadWith(t, "soc: {sinks: [{}]}", nil)
			tt.want = `soc.sinks[0].to: "" is not topic:NAME`
		}
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+tt.want) {
			t.Errorf("%s: %v, not %q", tt.yaml, err, tt.want)
		}
	}
}

func TestSinksAreGivenByFlagToo(t *testing.T) {
	c, err := loadWith(t, "", map[string]string{"GUARDD_SOC": "file:old"}, "--soc", "file:/var/x.jsonl#format=ecs&decisions=refused&what=[spray],syslog+tls://siem.example:6514#format=cef&min_severity=high&per_minute=0")
	if err != nil {
		t.Fatal(err)
	}
	all := c.SOC.Sinks
	if len(all) != 2 || all[0].Name != "file" || all[0].Format != "ecs" || all[0].Decisions != "refused" || !slices.Equal(all[0].What, []string{"spray"}) || all[0].perMinute() != socPerMinute ||
		all[1].Name != "syslog" || all[1].To != "syslog+tls://siem.example:6514" || all[1].MinSeverity.String() != "high" || all[1].perMinute() != 0 {
		t.Errorf("%+v, %+v", all[0], all[1])
	}
	for flag, want := range map[string]string{"file:x#colour=red": "colour: unknown key", "file:x#format=xml": "format: must be one of", "file:x#%zz": "invalid URL escape"} {
		if _, err := loadWith(t, "", nil, "--soc", flag); err == nil || !strings.Contains(err.Error(), "--soc: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// inbox is a webhook of a SOC's that may be down.
type inbox struct {
	*httptest.Server
	mu   sync.Mutex
	down bool
	got  map[string]string // bodies by webhook-id
	n    int
}

func newInbox(t *testing.T, down bool) *inbox {
	b := &inbox{got: map[string]string{}, down: down}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.n++
		if b.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		b.got[r.Header.Get("webhook-id")] = string(body)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *inbox) bodies() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.got {
		all = append(all, body)
	}
	return all
}

// with counts those that have all of some texts.
func with(lines []string, texts ...string) (n int) {
	for _, line := range lines {
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
			n++
		}
	}
	return n
}

func (p *process) pin(t *testing.T, reason string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, p.admin+"/admin/v1/posture", strings.NewReader(fmt.Sprintf(`{"posture":"high","expires_in":"1h","reason":%q}`, reason)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
}

// linesIn are those of a file that may not be there yet.
func linesIn(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// The whole of it: a real guardd, a real rsyslog over TLS, a real Alertmanager, a
// file and a webhook. An operator acts, the posture changes, somebody guesses.
func TestASOCIsToldByEverySink(t *testing.T) {
	rsyslog, am, hook, dir := soctest.StartRsyslog(t, true), soctest.StartAlertmanager(t), newInbox(t, false), t.TempDir()
	secret := writeFile(t, "hook.secret", longLine)
	p := startGuardd(t, "--config", writeFile(t, "guardd.yaml", fmt.Sprintf(`
soc:
  sinks:
    - {name: siem, to: "syslog+tls://%s", format: cef, decisions: refused, tls: {ca_file: %s, cert_file: %s, key_file: %s}}
    - {to: "file:%s/soc.jsonl", decisions: all}
    - {to: "%s/hook", format: ecs, what: [operator_action], secret_file: %s, allow_networks: [127.0.0.0/8]}
    - {to: "alertmanager+%s", allow_networks: [127.0.0.0/8], min_severity: high, labels: {team: soc}}
`, rsyslog.Addr, rsyslog.Certs.CA, rsyslog.Certs.Cert, rsyslog.Certs.Key, dir, hook.URL, secret, am.URL)))
	for range 5 {
		p.attempt(t, "Alice@Example.com", "203.0.113.7")
	}
	p.post(t, "/v1/outcomes", fmt.Sprintf(`{"attempt":%q,"account":"bob","outcome":"failure"}`, p.attempt(t, "bob", "203.0.113.8").Attempt), nil)
	p.pin(t, "a leak|=]")

	file := func() []string { return linesIn(filepath.Join(dir, "soc.jsonl")) }
	p.until(t, "every decision in the file", func() bool {
		return with(file(), `"class_uid":3002`, `"type_uid":300206`) >= 5 && with(file(), `"type_uid":300201`) == 1
	})
	p.until(t, "what the operator did, and the posture, in the file", func() bool {
		return with(file(), `"class_uid":2004`, "operator_action", "posture.pin", "a leak|=]") == 1 && with(file(), `"class_uid":2004`, "posture_change") == 1
	})
	p.until(t, "the same in rsyslog, and who was refused", func() bool {
		raw := rsyslog.Raw()
		return with(raw, "CEF:0|guardd|guardd|", "|operator_action|", `a leak|\=]`) == 1 && with(raw, "|posture_change|") == 1 && with(raw, "|attempt_delay|", "src=203.0.113.7") >= 1
	})
	if n := with(rsyslog.Raw(), "|attempt_allow|") + with(rsyslog.Raw(), "|outcome_failure|"); n != 0 {
		t.Errorf("%d that were not refused are told to who asked for refusals", n)
	}
	for _, raw := range rsyslog.Raw() {
		if _, err := rfc5424.NewParser().Parse([]byte(raw)); err != nil {
			t.Errorf("%v: %s", err, raw)
		}
	}
	p.until(t, "what the operator did, at the webhook", func() bool { return with(hook.bodies(), `"action":"operator_action"`, `"ecs":{"version":`) == 1 })
	if n := len(hook.bodies()); n != 1 {
		t.Errorf("%d records at a webhook that asked for one kind", n)
	}
	p.until(t, "the posture at Alertmanager", func() bool {
		for _, a := range am.Told() {
			if a.Labels["alertname"] == "guardd_posture_change" && a.Labels["severity"] == "critical" && a.Labels["team"] == "soc" {
				return true
			}
		}
		return false
	})
	for _, line := range append(append(file(), rsyslog.Raw()...), hook.bodies()...) {
		if strings.Contains(strings.ToLower(line), "alice") {
			t.Errorf("an account's name is told: %s", line)
		}
	}
	if n := p.metric(t, `guardd_soc_delivered_total{sink="siem"}`); n == "0" {
		t.Error("what was delivered is not counted")
	}
}

// What has no room and no bus that keeps it is counted, and kept on disk; logins go on.
func TestWhatASinkIsNotToldIsADeadLetter(t *testing.T) {
	hook, dir := newInbox(t, true), t.TempDir()
	p := startGuardd(t, "--config", writeFile(t, "guardd.yaml", fmt.Sprintf(
		"soc: {dead_letters: %s/dead.jsonl, sinks: [{to: '%s', decisions: all, queue: 2, secret_file: %s, allow_networks: [127.0.0.0/8]}]}", dir, hook.URL, writeFile(t, "hook.secret", longLine))))
	for i := range 6 {
		if a := p.attempt(t, fmt.Sprint("user", i), "203.0.113.7"); !a.Proceed {
			t.Errorf("%+v", a)
		}
	}
	p.until(t, "dead letters", func() bool { return p.metric(t, `guardd_soc_dead_letters_total{reason="full",sink="webhook"}`) == "4" })
	p.until(t, "them on disk", func() bool { return len(linesIn(filepath.Join(dir, "dead.jsonl"))) == 4 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); code != 0 || err != nil {
		t.Errorf("exit %d, %v", code, err)
	}
	lines := linesIn(filepath.Join(dir, "dead.jsonl"))
	if len(lines) != 6 || !json.Valid([]byte(lines[5])) {
		t.Errorf("%d dead letters on disk, of 6 that were never delivered", len(lines))
	}
}

// A guardd that is killed while its sink is down loses nothing: the next one, or
// another of the fleet, tells what it had not. A fleet tells each once.
func TestKafkaKeepsWhatASinkWasNotTold(t *testing.T) {
	kafka, store, hook, dir := kafkatest.Start(t, kafkatest.Options{}), redistest.Start(t), newInbox(t, true), t.TempDir()
	secret, signing := writeFile(t, "guardd.secret", longLine+"\n"), writeFile(t, "hook.secret", longLine)
	start := func(spool string) *process {
		return startGuardd(t, "--redis", store.URL(), "--redis-deadline", "10s", "--secret-file", secret, "--config", writeFile(t, "guardd.yaml", fmt.Sprintf(
			"{kafka: {brokers: ['%s'], partitions: 2}, events: {spool_dir: %s/%s}, soc: {sinks: [{to: '%s', secret_file: %s, allow_networks: [127.0.0.0/8]}, {name: lake, to: 'topic:soc', decisions: all}]}}",
			kafka.Addr(), dir, spool, hook.URL, signing)))
	}
	p := start("a")
	p.pin(t, "before the kill")
	p.attempt(t, "alice", "203.0.113.7")
	p.until(t, "that the sink refuses", func() bool { return p.metric(t, `guardd_soc_failures_total{sink="webhook"}`) != "0" })
	p.until(t, "the lake is told", func() bool { return p.metric(t, `guardd_soc_delivered_total{sink="lake"}`) >= "3" })
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.done
	hook.mu.Lock()
	hook.down = false
	hook.mu.Unlock()
	all := []*process{start("b"), start("c")}
	all[0].until(t, "what was told before the kill", func() bool {
		return with(hook.bodies(), "before the kill") == 1 && with(hook.bodies(), "posture_change") == 1
	})
	all[1].pin(t, "after the kill")
	all[0].until(t, "what came after it", func() bool { return with(hook.bodies(), "after the kill") == 1 })
	hook.mu.Lock()
	defer hook.mu.Unlock()
	if told := len(hook.got); told > 4 {
		t.Errorf("%d different records: %v", told, hook.got)
	}
}

// Of two realms one has names told. They are told by the sinks, of that realm, and are
// nowhere else that could be read: not on Kafka, not in Redis, not in the log.
func TestNamesAreToldOnlyWhereARealmWantsThem(t *testing.T) {
	kafka, store, dir := kafkatest.Start(t, kafkatest.Options{}), redistest.Start(t), t.TempDir()
	p := startGuardd(t, "--redis", store.URL(), "--redis-deadline", "10s", "--secret-file", writeFile(t, "guardd.secret", longLine+"\n"), "--log-level", "debug",
		"--config", writeFile(t, "guardd.yaml", fmt.Sprintf(`
kafka: {brokers: ['%s'], partitions: 2}
events: {spool_dir: %s/spool}
soc: {sinks: [{to: "file:%s/soc.jsonl", decisions: all}, {name: cef, to: "file:%s/soc.cef", format: cef, decisions: all}]}
realms:
  open: {clear_names: true, delivery: {driver: log}}
  default: {delivery: {driver: log}}
`, kafka.Addr(), dir, dir, dir)))
	guess := func(realm, account string) {
		var a answer
		p.post(t, "/v1/attempts", fmt.Sprintf(`{"realm":%q,"account":%q,"ip":"203.0.113.9"}`, realm, account), &a)
		p.post(t, "/v1/outcomes", fmt.Sprintf(`{"attempt":%q,"account":%q,"outcome":"failure"}`, a.Attempt, account), nil)
	}
	guess("open", "Mallory=|Malone")
	guess("default", "Mallory=|Malone")
	ocsf, cef := filepath.Join(dir, "soc.jsonl"), filepath.Join(dir, "soc.cef")
	p.until(t, "four records in each file", func() bool { return len(linesIn(ocsf)) == 4 && len(linesIn(cef)) == 4 })
	if n := with(linesIn(ocsf), `"name":"mallory=|malone"`, `"tenant_uid":"open"`); n != 2 {
		t.Errorf("%d of 2 have the name", n)
	}
	if n := with(linesIn(cef), `duser=mallory\=|malone `, "cs1=open"); n != 2 {
		t.Errorf("%d of 2 have the name", n)
	}
	if n := with(linesIn(ocsf), "mallory") + with(linesIn(cef), "mallory"); n != 4 {
		t.Errorf("%d lines have the name, and 4 should: that of a realm that did not ask is told", n)
	}
	p.until(t, "what was decided in Redis", func() bool { return len(redisStrings(t, store.URL(), "recents")) > 0 })
	for where, all := range map[string][]string{"Redis": redisStrings(t, store.URL(), ""), "Kafka": kafkaMessages(t, kafka.Addr(), 4), "the log": {p.logged()}} {
		if len(all) == 0 || with(all, `"name":"`) == 0 && where == "Kafka" {
			t.Errorf("nothing to look at in %s", where)
		}
		for _, s := range all {
			if strings.Contains(strings.ToLower(s), "mallory") {
				t.Errorf("%s holds the name: %s", where, s)
			}
		}
	}
}

// redisStrings are the keys that have a text in their name, and what is in them.
func redisStrings(t *testing.T, url, text string) (all []string) {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	names, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(name, text) {
			continue
		}
		// A dump may be compressed; a list of entries is not.
		if entries, err := client.XRange(t.Context(), name, "-", "+").Result(); err == nil {
			all = append(all, fmt.Sprint(name, entries))
		} else if value, err := client.Get(t.Context(), name).Result(); err == nil {
			all = append(all, name+value)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// kafkaMessages are the first n of the topic of events.
func kafkaMessages(t *testing.T, addr string, n int) (all []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("guardd.events", "guardd.findings"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for len(all) < n {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, string(r.Value)) })
	}
	return all
}
