package api

import (
	"bytes"
	"html/template"
	"net/http"
)

// statusPage is the page, made once: it holds nothing of anybody, and asks
// RouteStatus and RouteExplain for what it shows, with the key of who looks at it.
var statusPage, statusPolicy = func() ([]byte, string) {
	css, js := pageFile("status.css"), pageFile("status.js")
	t := template.Must(template.New("status.html").ParseFS(pageFiles, "page/status.html"))
	var b bytes.Buffer
	if err := t.Execute(&b, struct {
		CSS template.CSS
		JS  template.JS
	}{template.CSS(css), template.JS(js)}); err != nil {
		panic(err) // our own template
	}
	return b.Bytes(), "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; connect-src 'self'; img-src data:; style-src " +
		hashSource(string(css)) + "; script-src " + hashSource(string(js))
}()

func serveStatusPage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(statusPage)
}
