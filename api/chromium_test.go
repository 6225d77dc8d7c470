package api_test

import (
	"context"
	"os"
	"os/exec"
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

// browser is a tab of a real Chromium that is driven as a person drives it: by
// keys, seeing what is on the page.
type browser struct {
	t    *testing.T
	ctx  context.Context
	name string // of the screenshots

	mu   sync.Mutex
	said []string // what the page complained of: errors, refused by its policy
}

// openBrowser starts a Chromium of its own. Where there is none the test is
// skipped, except where GUARDD_REQUIRE_CHROMIUM says that it must not be.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium()
	if path == "" {
		if os.Getenv("GUARDD_REQUIRE_CHROMIUM") != "" {
			t.Fatal("no chromium: scripts/need.sh chromium installs it")
		}
		t.Skip("no chromium (scripts/need.sh chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-US"))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // only against hanging for ever
	allocator, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: tab, name: t.Name()}
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

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	}))
}

func (b *browser) withoutJavaScript() {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// speaking sets the languages that the visitor prefers.
func (b *browser) speaking(languages string) {
	b.t.Helper()
	call(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": languages}})
}

func (b *browser) visit(url string) { b.t.Helper(); b.do(chromedp.Navigate(url)) }

// is evaluates an expression. It is false while a page gives way to the next.
func (b *browser) is(expression string) bool {
	ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
	return err == nil && ok
}

// await waits until an expression holds, and ends the test when it never does.
func (b *browser) await(expression string) {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); !b.is(expression); {
		select {
		case <-tick.C:
		case <-late:
			b.fail("never came: %s", expression)
		}
	}
}

// reads waits until the page holds a text that can be seen.
func (b *browser) reads(text string) {
	b.t.Helper()
	b.await("document.readyState == 'complete' && document.body.innerText.includes(" + strconv.Quote(text) + ")")
}

func (b *browser) fail(format string, args ...any) {
	b.t.Helper()
	where, _ := chromedp.Run(b.ctx, chromedp.Location())
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	b.shoot("failed")
	b.t.Fatalf(format+"\nat %s:\n%s", append(args, where, text)...)
}

// tab moves the focus with the tab key alone to the element that the selector
// names, forward, once around the page at most.
func (b *browser) tab(selector string) {
	b.t.Helper()
	focused := "document.activeElement?.matches(" + strconv.Quote(selector) + ")"
	for range 60 {
		if b.is(focused) {
			b.await("document.activeElement.matches(':focus-visible')") // it shows, too
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.fail("the tab key does not reach %s", selector)
}

func (b *browser) press(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }

// fill types into a field that the tab key reaches, and sends it.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.tab(selector)
	b.press(text + kb.Enter)
}

// fits fails when the page is wider than the screen, or when a field has no
// label or a picture no text.
func (b *browser) fits() {
	b.t.Helper()
	if !b.is("document.documentElement.scrollWidth <= document.documentElement.clientWidth") {
		b.fail("the page is wider than %d pixels", phoneWidth)
	}
	if !b.is("[...document.querySelectorAll('input:not([type=hidden])')].every((i) => i.labels.length == 1) && [...document.images].every((i) => i.alt && i.complete && i.naturalWidth)") {
		b.fail("a field without a label, or a picture without text or not loaded")
	}
}

// shoot keeps a picture of the page in the folder that GUARDD_SCREENSHOTS names.
func (b *browser) shoot(name string) {
	dir := os.Getenv("GUARDD_SCREENSHOTS")
	if dir == "" {
		return
	}
	if png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100)); err == nil {
		_ = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(b.name, "/", "-")+"-"+name+".png"), png, 0o644)
	}
}

// listen keeps what the browser refuses (what the policy of the page forbids,
// above all) and what its scripts throw. That a wrong
// answer is a 422, a late one a 410, and that there is no icon is none of it.
func (b *browser) listen(event any) {
	var text string
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level != cdplog.EntryLevelError || strings.Contains(e.Entry.Text, "status of 422") || strings.Contains(e.Entry.Text, "status of 410") || strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
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
