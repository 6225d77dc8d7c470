package delivery

import (
	_ "embed"
	htmltemplate "html/template"
	"strings"
	texttemplate "text/template"
	"time"
	"unicode"

	"github.com/guardd/guardd/escalation"
)

// The default words of mails: no links to click, since mails that ask for a
// click are what phishing looks like; no code in the subject, since locked
// telephones show subjects.
var (
	//go:embed words/code.txt
	codeText string
	//go:embed words/code.html
	codeHTML string
	//go:embed words/notice.txt
	noticeText string
	//go:embed words/notice.html
	noticeHTML string

	defaultCode = escalation.Words{Subject: "{{.Name}}: your code to sign in", Text: codeText, HTML: codeHTML}

	defaultNotice = escalation.Words{Subject: "{{.Name}}: news of your account", Text: noticeText, HTML: noticeHTML}
)

// Facts are what templates may name.
type Facts struct {
	Name, Realm, Flow, Account string
	Code                       string
	// ExpiresAt and At are in UTC, as 2 January 2006, 15:04 UTC.
	ExpiresAt, At string
	Only          bool // no other code is sent until ExpiresAt
	Notice        string
	What          string // Notice in a sentence
	Suppressed    int64
}

// notices are the sentences for what happened.
var notices = map[string]string{
	"success_after_failures": "After many wrong passwords, somebody signed in to your account with the right one.",
	"new_device":             "Somebody signed in to your account on a device that had not been used for it before.",
	"devices_revoked":        "Every device that your account knew has been forgotten.",
}

func factsOf(m *escalation.Message, name string) Facts {
	what, ok := notices[m.Notice]
	if !ok {
		what = "Something happened to your account: " + m.Notice + "."
	}
	return Facts{What: what, Name: name, Realm: m.Realm, Flow: m.Flow, Account: m.Account, Code: m.Code, Only: m.Only,
		ExpiresAt: written(m.ExpiresAt), At: written(m.At), Notice: m.Notice, Suppressed: m.Suppressed}
}

func written(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// mailWords are the templates of one kind of mail.
type mailWords struct {
	subject, text *texttemplate.Template
	html          *htmltemplate.Template
}

// mailText is what they make.
type mailText struct{ subject, text, html string }

// parseWords lays given over the defaults and tries the templates out, so that
// a misspelt field is found at load and not by an owner who waits for a code.
func parseWords(path string, given, or escalation.Words, f *faultList) (w mailWords) {
	pick := func(given, or string) string {
		if given != "" {
			return given
		}
		return or
	}
	parse := func(field, text string) *texttemplate.Template {
		t, err := texttemplate.New(field).Parse(text)
		if err != nil {
			f.add(path+"."+field, "%v", err)
		}
		return t
	}
	w.subject = parse("subject", pick(given.Subject, or.Subject))
	w.text = parse("text", pick(given.Text, or.Text))
	var err error
	if w.html, err = htmltemplate.New("html").Parse(pick(given.HTML, or.HTML)); err != nil {
		f.add(path+".html", "%v", err)
	}
	if len(f.all) > 0 {
		return w
	}
	trial := Facts{Name: "n", Realm: "r", Flow: "f", Account: "a@example.com", Code: "0", ExpiresAt: "e", At: "a", Notice: "x"}
	for _, only := range []bool{false, true} {
		trial.Only = only
		if field, err := w.try(trial); err != nil {
			f.add(path+"."+field, "%v", err)
			break
		}
	}
	return w
}

// try reports the first template that fails.
func (w mailWords) try(f Facts) (field string, err error) {
	_, field, err = w.fill(f)
	return field, err
}

func (w mailWords) fill(f Facts) (m mailText, field string, err error) {
	var subject, text, html strings.Builder
	if err = w.subject.Execute(&subject, f); err != nil {
		return m, "subject", err
	}
	if err = w.text.Execute(&text, f); err != nil {
		return m, "text", err
	}
	if err = w.html.Execute(&html, f); err != nil {
		return m, "html", err
	}
	return mailText{oneLine(subject.String()), text.String(), html.String()}, "", nil
}

// oneLine makes a header of whatever a template made: a line break in it would
// begin a header of somebody else's choice.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return strings.Join(strings.Fields(s), " ")
}
