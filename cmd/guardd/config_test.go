package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/guardd/guardd/aggregate/asn/asntest"
	"github.com/guardd/guardd/escalation"
)

// loadWith is what serve does with a file, flags and an environment.
func loadWith(t *testing.T, yaml string, environ map[string]string, args ...string) (*config, error) {
	t.Helper()
	if yaml != "" {
		args = append([]string{"--config", writeFile(t, "guardd.yaml", yaml)}, args...)
	}
	fl, rest, err := parseFlags("serve", serveUsage, args, getenv(environ), io.Discard, io.Discard)
	if err != nil || len(rest) > 0 {
		t.Fatalf("flags %v: %v, left over %v", args, err, rest)
	}
	return load(fl)
}

func getenv(m map[string]string) env {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	someSum   = "1f825aa2f0020ef7cf91dfa30da4668d791c5d4824fc8e41354b89ec05795ab3"
	emptySum  = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	longLine  = "0123456789abcdef0123456789abcdef"
	otherLine = "fedcba9876543210fedcba9876543210"
)

func TestFlagsBeatEnvironmentBeatsFileBeatsDefaults(t *testing.T) {
	const file = "instances: 2\nredis_deadline: 2ms\nlog: {level: warn}\n"
	environ := map[string]string{"GUARDD_INSTANCES": "3", "GUARDD_REDIS_DEADLINE": "3ms", "GUARDD_SHADOW": ""}
	c, err := loadWith(t, file, environ, "--instances", "4")
	if err != nil {
		t.Fatal(err)
	}
	if c.Instances != 4 || c.RedisDeadline != duration(3*time.Millisecond) || c.Log.Level.Level() != slog.LevelWarn || c.Listen != "127.0.0.1:8080" {
		t.Errorf("instances %d (flag 4), redis_deadline %s (environment 3ms), level %s (file warn), listen %s (default)",
			c.Instances, c.RedisDeadline, c.Log.Level.Level(), c.Listen)
	}
	if c.Shadow {
		t.Error("an environment variable set to nothing was taken for something")
	}
}

func TestEverySettingIsAKeyOfTheFileUnderTheSameName(t *testing.T) {
	for _, s := range settings {
		key, value := strings.ReplaceAll(s.flag, "-", "_"), "7"
		switch s.field(&config{}).(type) {
		case *bool:
			value = "true"
		case *duration:
			value = "1s"
		}
		switch s.flag {
		case "aggregate":
			value = "false"
		case "detection":
			value = "off"
		case "breached":
			value = "{files: [7]}"
		case "kafka":
			value = "{brokers: [7]}"
		case "soc":
			value = "{sinks: [{to: 7}]}"
		case "tracing":
			value = "{otlp: \"7\"}"
		case "log-level":
			key, value = "log", "{level: debug}"
		case "log-format":
			key, value = "log", "{format: json}"
		}
		c := defaults()
		before := *c
		if bad := decode(strings.NewReader(key+": "+value), "FILE", c); len(bad) > 0 {
			t.Errorf("--%s: the file has no such key: %v", s.flag, bad)
		} else if cmp.Equal(before, *c, cmp.AllowUnexported(config{})) {
			t.Errorf("--%s: %s: %s changed nothing", s.flag, key, value)
		}
	}
}

func TestEveryFaultOfAConfigurationIsNamedAtOnce(t *testing.T) {
	const file = `
listen: 0.0.0.0:8080
admin_listen: nowhere
redis: http://example.com
redis_deadline: 1h
instances: -1
memory_entries: 10
drain: -1s
api_keys: []
realms:
  default:
    delivery: {driver: log}
    normalise: upper
    flows:
      login:
        limits: [{tier: account, name: burst, capacity: -3}]
`
	_, err := loadWith(t, file, map[string]string{"GUARDD_SHADOW": "perhaps"}, "--log-format", "xml")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, path := range []string{"listen:", "admin_listen:", "redis:", "redis_deadline:", "instances:", "memory_entries:", "drain:", "secret_file:",
		"GUARDD_SHADOW:", "--log-format:", "realms.default.normalise:", "realms.default.flows.login.limits[0].capacity:"} {
		if !strings.Contains("\n"+err.Error(), "\n"+path) {
			t.Errorf("%s is not named in:\n%v", path, err)
		}
	}
}

func TestFaultsOfConfigurationsAreRefusedByName(t *testing.T) {
	keyed := func(k string) string { return "listen: 0.0.0.0:8080\napi_keys: [" + k + "]\n" }
	for _, tt := range []struct{ name, yaml, want string }{
		{"open listener without keys", "listen: :8080", "listen: :8080 is not a loopback address: api_keys are needed"},
		{"a name is not known to be loopback", "listen: example.com:8080", "listen: example.com:8080 is not"},
		{"open admin listener", "admin_listen: 0.0.0.0:8081", "admin_listen: 0.0.0.0:8081 is not a loopback address: needs admin_open"},
		{"no port", "listen: 127.0.0.1", "is not host:port"},
		{"impossible port", "listen: 127.0.0.1:99999", "no such port"},
		{"key without name", keyed("{sha256: " + someSum + "}"), "api_keys[0].name: missing"},
		{"key without sum", keyed("{name: shop}"), "api_keys[0].sha256: missing"},
		{"key that is empty", keyed("{name: shop, sha256: " + emptySum + "}"), "api_keys[0].sha256: is that of the empty key"},
		{"key given twice", keyed("{name: a, sha256: " + someSum + "}, {name: a, sha256: " + someSum + "}"), `api_keys[1].name: "a" is used twice`},
		{"key of no role", keyed("{name: a, sha256: " + someSum + ", admin: all}"), `api_keys[0].admin: must be read or operate, not "all"`},
		{"key for no realm", keyed("{name: a, sha256: " + someSum + ", realms: [nowhere]}"), `api_keys[0].realms[0]: no realm "nowhere"`},
		{"a database of no kind", "limits_db: postgre://db/guardd", "limits_db: must be postgres://"},
		{"redis without secrets", "redis: redis://127.0.0.1", "secret_file: needed with redis"},
		{"no secret file", "secret_file: nowhere", "secret_file: open "},
		{"no policy file", "policy: nowhere", "policy: open "},
		{"policy and realms", "policy: x\nrealms: {default: {delivery: {driver: log}}}", "policy: names a file, but realms are given here too"},
		{"a page's listener without port", "challenge_listen: 0.0.0.0", "challenge_listen: \"0.0.0.0\" is not host:port"},
		{"a public URL that is none", "public_url: login.example.com", "public_url: must be like https://login.example.com"},
		{"a public URL with a query", "public_url: 'https://login.example.com/?a'", "public_url: must be like https://login.example.com"},
		{"no delivery secret", "realms: {default: {delivery: {driver: webhook, url: 'https://app.example.com/', secret_file: nowhere}}}", "realms.default.delivery.secret_file: open "},
		{"no such delivery", "realms: {default: {delivery: {driver: pigeon}}}", "realms.default.delivery.driver: "},
		{"a provider without key", "realms: {default: {delivery: {driver: log}, providers: [{name: turnstile}]}}", "realms.default.providers[0].site_key: "},
		{"no provider secret", "realms: {default: {delivery: {driver: log}, providers: [{name: turnstile, site_key: k, hosts: [a.example], secret_file: nowhere}]}}", "realms.default.providers[0].secret_file: open "},
		{"no pepper file", "realms: {default: {delivery: {driver: log}, pepper_file: nowhere}}", "realms.default.pepper_file: open "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadWith(t, tt.yaml, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestKeysAndLoopbackListenersAreAccepted(t *testing.T) {
	for _, yaml := range []string{
		"listen: '[::1]:0'", "listen: localhost:0", "listen: 127.8.9.1:80",
		"listen: 0.0.0.0:8080\napi_keys: [{name: shop, sha256: " + strings.ToUpper(someSum) + ", realms: [default]}]",
		"admin_listen: 0.0.0.0:8081\nadmin_open: true", "challenge_listen: 0.0.0.0:8082\npublic_url: https://login.example.com/guardd",
	} {
		if _, err := loadWith(t, yaml, nil); err != nil {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}

func TestPathsInAFileAreRelativeToIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"guardd.yaml":      "secret_file: s/secret\npolicy: p/policy.yaml\nlimits_db: sqlite:p/limits.db\nasn_file: p/asn.mmdb\n",
		"s/secret":         "# the only one\n\n" + longLine + "\n",
		"p/policy.yaml":    "realms: {default: {delivery: {driver: log}, pepper_file: pepper}}\n",
		"p/pepper":         otherLine + "\n",
		"unrelated/pepper": "",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asntest.Write(t, filepath.Join(dir, "p/asn.mmdb"), map[string]uint32{"192.0.2.0/24": 64500})
	t.Chdir(filepath.Join(dir, "unrelated"))
	c, err := loadWith(t, "", nil, "--config", filepath.Join(dir, "guardd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if c.secrets == nil || string(c.policy.Realms["default"].Pepper) != otherLine {
		t.Errorf("secrets %v, pepper %q", c.secrets, c.policy.Realms["default"].Pepper)
	}
	if want := "sqlite:" + filepath.Join(dir, "p/limits.db"); c.LimitsDB != want {
		t.Errorf("limits_db %s, want %s", c.LimitsDB, want)
	}
	if want := filepath.Join(dir, "p/asn.mmdb"); c.ASNFile != want {
		t.Errorf("asn_file %s, want %s", c.ASNFile, want)
	}
	if len(c.warnings) > 0 {
		t.Errorf("warned about private files: %q", c.warnings)
	}
}

func TestSecretFileThatEveryoneCanReadIsWarnedAbout(t *testing.T) {
	path := writeFile(t, "secret", longLine)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loadWith(t, "", nil, "--secret-file", path)
	if err != nil || len(c.warnings) != 1 || !strings.Contains(c.warnings[0], path) {
		t.Errorf("warnings %q, error %v", c.warnings, err)
	}
}

func TestSecretFileThatIsSomethingElseIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "\n# only a remark\n", "short": "hunter2\n", "large": strings.Repeat("x", 1<<17)} {
		if _, err := loadWith(t, "", nil, "--secret-file", writeFile(t, name, text)); err == nil || !strings.Contains(err.Error(), "secret_file: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is not changed must not be named at a reload: who reads that a restart is
// due looks for what changed, or learns not to read it.
func TestAConfigurationThatIsReadAgainDiffersInNothing(t *testing.T) {
	file := writeFile(t, "guardd.secret", strings.Repeat("s3cret", 6)+"\n")
	load := func() *config {
		c, err := loadWith(t, "", nil, "--secret-file", file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	was := load()
	if names := was.differs(load()); len(names) > 0 {
		t.Errorf("nothing has changed, and named are %q", names)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("another", 6)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if names := was.differs(load()); !slices.Equal(names, []string{"secret_file"}) {
		t.Errorf("another secret, and named are %q", names)
	}
}

func TestSecondSecretNeedsAPepper(t *testing.T) {
	secret := writeFile(t, "secret", longLine+"\n"+otherLine+"\n")
	if _, err := loadWith(t, "", nil, "--secret-file", secret); err == nil || !strings.Contains(err.Error(), "realms.default.pepper_file: ") {
		t.Errorf("without one: %v", err)
	}
	pepper := writeFile(t, "pepper", longLine)
	if _, err := loadWith(t, "realms: {default: {delivery: {driver: log}, pepper_file: "+pepper+"}}", nil, "--secret-file", secret); err != nil {
		t.Errorf("with one: %v", err)
	}
}

func TestExampleConfigurationIsTheDefaults(t *testing.T) {
	example, err := loadWith(t, exampleConfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := loadWith(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := cmp.Options{cmp.AllowUnexported(config{}), cmpopts.IgnoreFields(config{}, "Realms", "reach", "book"), cmpopts.EquateEmpty(),
		cmpopts.IgnoreUnexported(escalation.Policy{}, escalation.Percent{}, escalation.Refill{}, escalation.Duration{}), byText()}
	if d := cmp.Diff(plain, example, opts); d != "" {
		t.Errorf("the example is not the defaults (-default +example):\n%s", d)
	}
	// Rows are laid over the defaults, so a missing one would be equal, too.
	rows := example.Realms["default"].Flows["login"].Limits
	if d := cmp.Diff(plain.policy.Realms["default"].Flows["login"].Limits, rows, opts); d != "" {
		t.Errorf("the example's rows are not the default table (-default +example):\n%s", d)
	}
}

// byText compares the policy's numbers by how they are written.
func byText() cmp.Option {
	return cmp.FilterValues(func(a, b interface{ MarshalText() ([]byte, error) }) bool { return true },
		cmp.Comparer(func(a, b interface{ MarshalText() ([]byte, error) }) bool {
			x, _ := a.MarshalText()
			y, _ := b.MarshalText()
			return bytes.Equal(x, y)
		}))
}

func TestExampleConfigurationHasEveryKey(t *testing.T) {
	for _, s := range settings {
		key := "\n" + strings.ReplaceAll(s.flag, "-", "_") + ":"
		if group, name, ok := strings.Cut(s.flag, "-"); ok && group == "log" {
			key = name + ": "
		}
		if !strings.Contains(exampleConfig, key) {
			t.Errorf("%q is not in the example", key)
		}
	}
}
