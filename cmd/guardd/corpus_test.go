package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
)

// buildCorpus builds what guardd serves: real ranges and "password", seen so
// often.
func buildCorpus(t *testing.T, path string, kind breached.Kind, seen uint64, o breached.BuildOptions) {
	t.Helper()
	rows := breachedtest.Real(kind).With(map[string]uint64{"password": seen}).Rows()
	o.Partial = true
	c := breached.NewCorpus("rows", strings.NewReader(strings.Join(rows, "\n")))
	if _, err := breached.Build(t.Context(), c, path, o, nil); err != nil {
		t.Fatal(err)
	}
}

func checkOf(kind breached.Kind) string {
	return fmt.Sprintf(`{"%v":"%v"}`, kind, breached.HashPassword(kind, []byte("password")))
}

type verdict struct {
	Breached, Complete bool
	Count              int
}

// eventually asks again until ok; what it waits for is a file system's doing.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}

func (p *process) metric(t *testing.T, series string) string {
	t.Helper()
	_, text := get(t, p.admin+"/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no series %s", series)
	return ""
}

func (p *process) hup(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// TestACorpusIsReplacedWithoutAFailedRequest puts a new file in the place of the
// old one again and again, while it is asked as fast as it answers.
func TestACorpusIsReplacedWithoutAFailedRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sha1")
	buildCorpus(t, path, breached.SHA1, 1, breached.BuildOptions{})
	p := startGuardd(t, "--breached", path)
	want := string(breachedtest.RealBody(breached.SHA1, "00000"))
	var last, asked atomic.Int64
	last.Store(1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	ask := func(do func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 2 {
		ask(func() error {
			newest := last.Load()
			var v verdict
			if status := p.post(t, "/v1/breached/check", checkOf(breached.SHA1), &v); status != 200 || !v.Breached || v.Count < int(newest) || v.Count > int(newest)+1 {
				return fmt.Errorf("%d %+v while %d was the newest", status, v, newest)
			}
			return nil
		})
		ask(func() error {
			if status, body := get(t, p.service+"/v1/breached/range/00000"); status != 200 || body != want {
				return fmt.Errorf("range: %d, %d bytes", status, len(body))
			}
			return nil
		})
	}
	for n := range int64(4) {
		buildCorpus(t, path, breached.SHA1, uint64(n)+2, breached.BuildOptions{})
		eventually(t, "the new file answers", func() bool {
			p.hup(t)
			var v verdict
			p.post(t, "/v1/breached/check", checkOf(breached.SHA1), &v)
			return int64(v.Count) == n+2
		})
		last.Store(n + 2)
	}
	close(stop)
	wg.Wait()
	if asked.Load() < 20 {
		t.Errorf("only %d requests meanwhile", asked.Load())
	}
	eventually(t, "four new files are counted", func() bool {
		return p.metric(t, `guardd_breached_corpus_reloads_total{kind="sha1",result="loaded"}`) == "4"
	})
}

// A file that is cut while it is mapped is a fault of the disk or of whoever
// copied over it: nobody is told "safe" by what is left, and guardd lives on.
func TestACorpusThatIsCutAnswersNothingUntilItIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sha1")
	buildCorpus(t, path, breached.SHA1, 7, breached.BuildOptions{})
	p := startGuardd(t, "--breached", path)
	if p.metric(t, `guardd_breached_corpus_damaged{kind="sha1"}`) != "0" {
		t.Fatal("damaged from the beginning")
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cut file is refused", func() bool {
		p.hup(t)
		return p.post(t, "/v1/breached/check", checkOf(breached.SHA1), nil) == http.StatusServiceUnavailable &&
			p.metric(t, `guardd_breached_corpus_damaged{kind="sha1"}`) == "1"
	})
	if status, body := get(t, p.service+"/v1/breached/range/00000"); status != http.StatusServiceUnavailable {
		t.Errorf("the range answers %d, %d bytes", status, len(body))
	}
	if _, err := p.awaitLog("a corpus of leaked passwords is not taken"); err != nil {
		t.Error(err)
	}
	buildCorpus(t, path, breached.SHA1, 8, breached.BuildOptions{})
	eventually(t, "the whole file is taken", func() bool {
		p.hup(t)
		return p.post(t, "/v1/breached/check", checkOf(breached.SHA1), nil) == http.StatusOK &&
			p.metric(t, `guardd_breached_corpus_damaged{kind="sha1"}`) == "0"
	})
	if p.metric(t, `guardd_breached_corpus_reloads_total{kind="sha1",result="refused"}`) == "0" {
		t.Error("the metrics do not say so")
	}
}

func TestBothKindsPublicAndRemote(t *testing.T) {
	dir := t.TempDir()
	buildCorpus(t, filepath.Join(dir, "s"), breached.SHA1, 7, breached.BuildOptions{})
	buildCorpus(t, filepath.Join(dir, "n"), breached.NTLM, 9, breached.BuildOptions{NoSuffixes: true})
	asked := make(chan string, 100)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		io.WriteString(w, breached.HashPassword(breached.SHA1, []byte("new leak")).Suffix()+":42")
	}))
	defer elsewhere.Close()
	file := writeFile(t, "guardd.yaml", fmt.Sprintf("breached: {files: [%s/s, %s/n], public: true, minimum_count: 8, remote: {url: %q, timeout: 50s}}\n", dir, dir, elsewhere.URL))
	p := startGuardd(t, "--config", file, "--challenge-listen", "127.0.0.1:0")
	for kind, want := range map[breached.Kind]verdict{breached.SHA1: {false, false, 7}, breached.NTLM: {true, false, 9}} {
		var v verdict
		if p.post(t, "/v1/breached/check", checkOf(kind), &v); v != want {
			t.Errorf("%v: %+v, want %+v", kind, v, want)
		}
	}
	if len(asked) != 0 {
		t.Error("elsewhere is asked for what a file knows")
	}
	var v verdict
	body := fmt.Sprintf(`{"sha1":"%v"}`, breached.HashPassword(breached.SHA1, []byte("new leak")))
	if p.post(t, "/v1/breached/check", body, &v); v != (verdict{true, true, 42}) || len(asked) != 1 {
		t.Errorf("%+v, elsewhere was asked %d times", v, len(asked))
	}
	pages := strings.TrimSuffix(p.challenges, "/challenges")
	for _, base := range []string{p.service, pages} {
		if status, text := get(t, base+"/range/00001"); status != 200 || text != string(breachedtest.RealBody(breached.SHA1, "00001")) {
			t.Errorf("%s: %d, %d bytes", base, status, len(text))
		}
	}
	if status, text := get(t, pages+"/v1/breached/range/00001"); status != 404 {
		t.Errorf("what needs a key is on the pages' listener: %d, %d bytes", status, len(text))
	}
	// Nobody who reads logs or metrics learns what was asked for.
	_, metrics := get(t, p.admin+"/metrics")
	for _, kind := range breached.Kinds {
		for _, h := range []breached.Hash{breached.HashPassword(kind, []byte("password")), breached.HashPassword(kind, []byte("new leak"))} {
			for where, text := range map[string]string{"the log": p.logged(), "the metrics": metrics} {
				if strings.Contains(strings.ToUpper(text), h.Suffix()[:12]) || strings.Contains(text, `"`+h.Prefix()+`"`) {
					t.Errorf("%s tells of a hash", where)
				}
			}
		}
	}
	if n := p.metric(t, `guardd_breached_lookups_total{kind="sha1",result="range"}`); n != "2" {
		t.Errorf("%s ranges were counted", n)
	}
	if n := p.metric(t, `guardd_breached_corpus_rows{kind="ntlm"}`); n == "0" {
		t.Error("the corpus has no rows")
	}
}

func TestBreachedFilesAreGivenInSeveralWays(t *testing.T) {
	a, b := writeFile(t, "a", ""), writeFile(t, "b", "")
	for name, args := range map[string][]string{"commas": {"--breached", a + "," + b}, "twice": {"--breached", a, "--breached", b}} {
		c, err := loadWith(t, "breached: {files: [nowhere]}", map[string]string{"GUARDD_BREACHED": "neither"}, args...)
		if err != nil || !reflect.DeepEqual(c.Breached.Files, []string{a, b}) {
			t.Errorf("%s: %v, %v", name, c.Breached.Files, err)
		}
	}
	for yaml, want := range map[string]string{
		"breached: {files: [nowhere]}":                                            "breached.files[0]: stat ",
		"breached: {files: [a, b, c]}":                                            "breached.files: 3 files",
		"breached: {public: true}":                                                "breached.public: there is nothing to serve",
		"breached: {minimum_count: 0}":                                            "breached.minimum_count: must be 1 or more",
		"breached: {remote: {url: api.example.com}}":                              "breached.remote.url: must be like https://api.pwnedpasswords.com",
		"breached: {remote: {url: 'https://a.example/?k=1'}}":                     "breached.remote.url: must be like",
		"breached: {remote: {timeout: 0s}}":                                       "breached.remote.timeout: must be from",
		"breached: {remote: {cache: -1}}":                                         "breached.remote.cache: must be from",
		"breached: {remote: {fresh: -1s}}":                                        "breached.remote.fresh: must not be negative",
		"breached: {file: x}":                                                     "breached.file: unknown key",
		"realms: {default: {delivery: {driver: log}, breached: {verify: maybe}}}": "realms.default.breached.verify: ",
	} {
		if _, err := loadWith(t, yaml, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", yaml, err, want)
		}
	}
	if _, err := loadWith(t, "", nil, "--breached", a+","); err == nil || !strings.Contains(err.Error(), "--breached: ") {
		t.Errorf("a comma too many: %v", err)
	}
}

// A .7z has been served as a corpus elsewhere, and every password was "safe".
func TestWhatIsNoCorpusIsNotServed(t *testing.T) {
	dir := t.TempDir()
	buildCorpus(t, filepath.Join(dir, "a"), breached.SHA1, 7, breached.BuildOptions{})
	buildCorpus(t, filepath.Join(dir, "b"), breached.SHA1, 7, breached.BuildOptions{})
	for files, want := range map[string]string{
		writeFile(t, "pwned.7z", "7z\xBC\xAF\x27\x1C"+strings.Repeat("x", 4096)): "breached.files[0]: ",
		dir + "/a," + dir + "/b": "are both of sha1",
	} {
		p, err := startProcess("", nil, "--breached", files)
		if err == nil {
			p.kill()
			t.Fatalf("%s is served", files)
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "cannot start") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
