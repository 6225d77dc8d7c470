package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/guardd/guardd/api/browsertest"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

// TestTheALTCHAWidgetSolvesAChallenge has the widget, as published and on the
// shop's own page, do what guardd asks and post what it found.
func TestTheALTCHAWidgetSolvesAChallenge(t *testing.T) {
	widget := browsertest.Altcha.File(t, "dist/main/altcha.min.js")
	b, w := browsertest.Open(t), newTown(t)
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
	b.Visit(w.shop + "/altcha")
	b.Await("document.querySelector('[name=altcha]')?.value.length > 100")
	b.Tab("button")
	b.Press(kb.Enter)
	b.Await("location.search.includes('" + client.ReturnParameter + "=')")
	w.signIn(b, rightPassword)
	b.Reads("Welcome back.")
}
