package browsertest

import (
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// found is what axe-core says of a page.
type found struct {
	Passes int
	Wrong  []string
}

const inspect = `axe.run().then((r) => ({Passes: r.passes.length, Wrong: r.violations.map((v) =>
	v.id + ", " + v.impact + " (" + v.help + "): " + v.nodes.map((n) => n.html + " " + n.any.map((c) => c.message).join(", ")).join("; "))}))`

// Accessible fails when axe-core finds anything wrong with the page as it is,
// in the light or in the dark, and when it has no dark.
func (b *Browser) Accessible(state string) {
	b.t.Helper()
	if b.axe == nil {
		b.axe = axeCore.File(b.t, "axe.min.js")
	}
	b.do(chromedp.Evaluate[chromedp.Void](string(b.axe) + ";0"))
	paper := map[string]string{}
	for _, scheme := range []string{"dark", "light"} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[found](inspect, chromedp.EvalAwaitPromise))
		if err != nil {
			b.t.Fatalf("axe-core on %s: %v", state, err)
		}
		paper[b.Evaluate("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color")] = scheme
		if got.Passes < 5 {
			b.t.Errorf("%s, %s: axe-core looked at next to nothing", state, scheme)
		}
		for _, w := range got.Wrong {
			b.t.Errorf("%s, %s: %s", state, scheme, w)
		}
		b.Shoot(state + "-" + scheme)
	}
	if len(paper) < 2 {
		b.t.Errorf("%s looks the same in the dark as in the light: %v", state, paper)
	}
}
