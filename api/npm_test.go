package api_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

// npmPackage is a published package that a test holds the pages against.
// integrity is as npm writes it: nothing else is run.
type npmPackage struct{ name, version, integrity string }

var (
	axeCore = npmPackage{"axe-core", "4.14.1", "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="}
	altcha  = npmPackage{"altcha", "3.2.2", "sha512-yNITQaRSkRe0u/hMxdzoXFFqxqn9iDt1rJ0reREU3D3uDD3w1oFz6v5C2PMww2XnGThtYUwe8MW+PxsiBglNqw=="}
)

// file returns one file of the package. Where there is no npm the test is
// skipped, except where GUARDD_REQUIRE_NPM says that it must not be.
func (p npmPackage) file(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("GUARDD_REQUIRE_NPM") != "" {
			t.Fatal("no npm: scripts/need.sh npm installs it")
		}
		t.Skip("no npm (scripts/need.sh npm)")
	}
	packed := p.fetch(t)
	if sum := sha512.Sum512(packed); "sha512-"+base64.StdEncoding.EncodeToString(sum[:]) != p.integrity {
		t.Fatalf("%s@%s is not what it was", p.name, p.version)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err != nil {
			t.Fatalf("%s in %s: %v", name, p.name, err)
		}
		if h.Name == "package/"+name {
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
}

// fetch has npm bring the package, once per machine.
func (p npmPackage) fetch(t *testing.T) []byte {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "guardd-test")
	file := filepath.Join(dir, fmt.Sprintf("%s-%s.tgz", p.name, p.version))
	if packed, err := os.ReadFile(file); err == nil {
		return packed
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	npm := exec.Command("npm", "pack", "--silent", "--pack-destination", fresh, p.name+"@"+p.version)
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm pack: %v\n%s", err, out)
	}
	packed, err := os.ReadFile(filepath.Join(fresh, filepath.Base(file)))
	if err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(file, packed, 0o644) // the next run fetches it again, at worst
	return packed
}

// TestAxeFindsNothingOnAnyPage holds every page to the rules of axe-core, in
// the light and in the dark.
func TestAxeFindsNothingOnAnyPage(t *testing.T) {
	axe := string(axeCore.file(t, "axe.min.js"))
	b, c := openBrowser(t), pictured()
	picture, err := draw.Image("axe", []byte{1, 2, 3, 4, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	c.media = picture
	c.send = func(string, string) *escalation.Sent {
		return &escalation.Sent{ValidUntil: noon, Challenge: &escalation.Challenge{Token: "price"}}
	}
	s := httptest.NewServer(api.Challenges(api.Config{Challenger: c}))
	t.Cleanup(s.Close)
	judge := func(page, scheme string) {
		t.Helper()
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		b.do(chromedp.Evaluate[chromedp.Void](axe + ";0"))
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
			`axe.run().then((r) => JSON.stringify({passes: r.passes.length, violations: r.violations.map((v) => [v.id, v.impact, v.nodes.map((n) => n.html)])}))`, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Passes     int
			Violations []any
		}
		if err := json.Unmarshal([]byte(found), &got); err != nil || got.Passes < 10 || len(got.Violations) > 0 {
			t.Errorf("%s, %s: %s %v", page, scheme, found, err)
		}
		b.shoot(page + "-" + scheme)
	}
	for _, scheme := range []string{"light", "dark"} {
		for kind, kinds := range map[string][]string{"wait": {"wait", "code", "pow"}, "captcha": {"image", "audio", "code", "pow"}, "verify": {"code"}} {
			c.view.Kind, c.view.Kinds, c.view.NotBefore = kind, kinds, noon.Add(time.Hour)
			b.visit(s.URL + tokenPath + "?lang=pt")
			judge(kind, scheme)
		}
		b.visit(s.URL + tokenPath + "?lang=en")
		b.tab("form[action*='/send'] button")
		b.press(kb.Enter)
		b.reads("A code was sent earlier")
		judge("sent earlier", scheme)
		b.fill("#code", "wrong")
		b.reads("The code was not right")
		judge("wrong", scheme)
		b.visit(s.URL + "/challenges/" + scheme)
		c.view.ReturnURL = ""
		b.fill("#code", "123456")
		b.reads("Thank you")
		judge("done", scheme)
		c.err = escalation.Faults{{Field: "token", Reason: "expired"}}
		b.visit(s.URL + tokenPath + "?lang=ja")
		judge("expired", scheme)
		c.err = nil
	}
}

// TestTheALTCHAWidgetSolvesAChallenge has the widget, as published and on the
// shop's own page, do what guardd asks and post what it found.
func TestTheALTCHAWidgetSolvesAChallenge(t *testing.T) {
	widget := altcha.file(t, "dist/main/altcha.min.js")
	b, w := openBrowser(t), newTown(t)
	w.clock.now.Store(time.Now().UnixMicro()) // the widget looks at its own
	var page string
	w.also = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/altcha.js" {
			rw.Header().Set("Content-Type", "text/javascript")
			_, _ = rw.Write(widget)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, page)
	}
	ask := func() *escalation.Verdict {
		v, err := w.guard.Check(t.Context(), &escalation.Attempt{Account: "alice", IP: "192.0.2.1", ReturnURL: w.shop + "/login?user=alice"})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ask()
	page = fmt.Sprintf(`<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Shop</title><script type="module" src="/altcha.js"></script>
<form method="post" action="%[1]s/answer"><altcha-widget challenge="%[1]s/pow.json" auto="onload"></altcha-widget><button>Go on</button></form>`, ask().Challenge.Page)
	b.visit(w.shop + "/altcha")
	b.await("document.querySelector('[name=altcha]')?.value.length > 100")
	b.tab("button")
	b.press(kb.Enter)
	b.await("location.search.includes('" + client.ReturnParameter + "=')")
	w.signIn(b, rightPassword)
	b.reads("Welcome back.")
}
