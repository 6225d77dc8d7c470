package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Browser is a tab of a real Chromium that is driven as a person drives it: by
// keys, seeing what is on the page.
type Browser struct {
	t    *testing.T
	ctx  context.Context
	name string // of the screenshots
	axe  []byte // axe-core, once it was needed

	mu   sync.Mutex
	said []string // what the page complained of: errors, refused by its policy
}

// Open starts a Chromium of its own. Where there is none the test is
// skipped, except where CI or GUARDD_REQUIRE_CHROMIUM says that it must not be.
func Open(t *testing.T) *Browser {
	t.Helper()
	program := chromium()
	if program == "" {
		missing(t, "chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("allow-pre-commit-input", true))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // only against hanging for ever
	allocator, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	b := &Browser{t: t, ctx: tab, name: t.Name()}
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Errorf("closing the browser: %v", err)
		}
		closeTab()
		closeAllocator()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.said {
			t.Errorf("the browser says: %s", s)
		}
	})
	// Once, for a browser to be there.
	b.do(chromedp.EmulateViewport(phoneWidth, phoneHeight))
	// A tab that nobody sees may think that it has not the focus.
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	if err := chromedp.Listen(tab, b.listen); err != nil {
		t.Fatal(err)
	}
	return b
}

// missing ends a test that needs a tool: skipped, except where the tests in a
// browser must not be.
func missing(t *testing.T, tool string) {
	t.Helper()
	text := "no " + tool + ": scripts/need.sh " + tool + " installs it"
	if os.Getenv("CI") != "" || os.Getenv("GUARDD_REQUIRE_CHROMIUM") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}

func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// A small phone. The whole of a page must be there without scrolling sideways.
const phoneWidth, phoneHeight = 320, 640

func (b *Browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func call[P, R any](b *Browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	}))
}

// Sized gives the page another width and height than a small phone's.
func (b *Browser) Sized(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// Dark has the page as who prefers the dark sees it, or the light.
func (b *Browser) Dark(dark bool) {
	b.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
}

// WithoutJavaScript has the browser run no scripts from now on.
func (b *Browser) WithoutJavaScript() {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// Speaking sets the languages that the visitor prefers.
func (b *Browser) Speaking(languages string) {
	b.t.Helper()
	call(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": languages}})
}

// Visit goes to an address.
func (b *Browser) Visit(url string) { b.t.Helper(); b.do(chromedp.Navigate(url)) }

// Is evaluates an expression. It is false while a page gives way to the next.
func (b *Browser) Is(expression string) bool {
	ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
	return err == nil && ok
}

// Text is what an element shows; "" while there is none.
func (b *Browser) Text(selector string) string {
	return b.Evaluate("document.querySelector(" + strconv.Quote(selector) + ")?.innerText ?? ''")
}

// Evaluate returns what an expression is, as text; "" when that fails.
func (b *Browser) Evaluate(expression string) string {
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	return text
}

// Leave does what leads to another page, and waits until that is there.
func (b *Browser) Leave(by func()) {
	b.t.Helper()
	b.Await("window.leaving = true")
	by()
	b.Await("!window.leaving && document.readyState == 'complete'")
}

// Await waits until an expression holds, and ends the test when it never does.
func (b *Browser) Await(expression string) {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); !b.Is(expression); {
		select {
		case <-tick.C:
		case <-late:
			b.Fail("never came: %s", expression)
		}
	}
}

// Reads waits until the page holds a text that can be seen.
func (b *Browser) Reads(text string) {
	b.t.Helper()
	b.Await("document.readyState == 'complete' && document.body.innerText.includes(" + strconv.Quote(text) + ")")
}

// Fail ends the test, and says where the browser is and what is to be read there.
func (b *Browser) Fail(format string, args ...any) {
	b.t.Helper()
	where, _ := chromedp.Run(b.ctx, chromedp.Location())
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	b.Shoot("failed")
	b.t.Fatalf(format+"\nat %s:\n%s", append(args, where, text)...)
}

// Tab moves the focus with the tab key alone to the element that the selector
// names, forward, once around the page at most.
func (b *Browser) Tab(selector string) {
	b.t.Helper()
	focused := "document.activeElement?.matches(" + strconv.Quote(selector) + ")"
	for range 60 {
		if b.Is(focused) {
			b.Await("document.activeElement.matches(':focus-visible')") // it shows, too
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.Fail("the tab key does not reach %s", selector)
}

// Press presses keys, one after the other.
func (b *Browser) Press(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }

// Fill types into a field that the tab key reaches, and sends it.
func (b *Browser) Fill(selector, text string) {
	b.t.Helper()
	b.Tab(selector)
	b.Press(text + kb.Enter)
}

// Fits fails when the page is wider than the screen, or when a field has no
// label or a picture no text.
func (b *Browser) Fits() {
	b.t.Helper()
	if !b.Is("document.documentElement.scrollWidth <= document.documentElement.clientWidth") {
		b.Fail("the page is wider than %d pixels", phoneWidth)
	}
	if !b.Is("[...document.querySelectorAll('input:not([type=hidden])')].every((i) => i.labels.length == 1) && [...document.images].every((i) => i.alt && i.complete && i.naturalWidth)") {
		b.Fail("a field without a label, or a picture without text or not loaded")
	}
}

// Shoot keeps a picture of the page in the folder that GUARDD_SCREENSHOTS names.
func (b *Browser) Shoot(name string) {
	dir := os.Getenv("GUARDD_SCREENSHOTS")
	if dir == "" {
		return
	}
	if png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100)); err == nil {
		_ = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(b.name, "/", "-")+"-"+name+".png"), png, 0o644)
	}
}

// listen keeps what the browser refuses (what the policy of the page forbids,
// above all) and what its scripts throw. That a page says no with its status is
// none of it; that what it loads is not there is, except for an icon.
func (b *Browser) listen(event any) {
	var text string
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		isPage := path.Ext(strings.Split(e.Entry.URL, "?")[0]) == "" && strings.Contains(e.Entry.Text, "responded with a status of")
		if e.Entry.Level != cdplog.EntryLevelError || isPage || strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
			return
		}
		text = e.Entry.Text
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, text)
}
