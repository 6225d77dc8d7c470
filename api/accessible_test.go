package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/browsertest"
	"github.com/guardd/guardd/escalation"
)

// TestAxeFindsNothingOnAnyPage holds every page, in each of its states, to the
// rules of axe-core.
func TestAxeFindsNothingOnAnyPage(t *testing.T) {
	c := pictured()
	picture, err := draw.Image("axe", []byte{1, 2, 3, 4, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	c.media = picture
	s := startChallenges(t, api.Config{Challenger: c})
	b := browsertest.Open(t)
	page := s.url + tokenPath
	submit := func(form, answer, button string) {
		t.Helper()
		b.Leave(func() {
			b.Is("(f => { const a = f.querySelector('[name=answer]'); if (a) a.value = '" + answer + "'; f.requestSubmit(f.querySelector('" + button + "')); })(" +
				"document.querySelector(\"" + form + "\"))")
		})
	}
	digits, code, send := "form:has(#digits)", "form:has(#code)", "form[action*='/send']"

	for _, lang := range escalation.Languages {
		b.Visit(page + "?lang=" + lang)
		b.Accessible("captcha in " + lang)
	}
	submit(digits, "0", "button")
	b.Accessible("a wrong answer")
	submit(digits, "1", "[name=another]")
	b.Accessible("another picture")
	submit(code, "0", "button")
	b.Accessible("a wrong code")

	until, price := noon.Add(15*time.Minute), &escalation.Challenge{Kind: "captcha", Kinds: []string{"image"}, Token: "price", ExpiresAt: noon}
	for state, sent := range map[string]*escalation.Sent{
		"a code sent": {Sent: true, ValidUntil: until}, "a code that lives": {ValidUntil: until}, "a code that has its price": {Challenge: price},
	} {
		c.send = func(string, string) *escalation.Sent { return sent }
		b.Visit(page)
		submit(send, "", "button")
		b.Accessible(state)
	}
	c.send = func(string, string) *escalation.Sent { return &escalation.Sent{Challenge: price} }
	b.Visit(page)
	submit(send, "", "button")
	submit(send, "0", "button")
	b.Accessible("a price not paid")

	c.view.Kind, c.view.Kinds, c.view.NotBefore = escalation.KindWait, []string{"wait", "code", "pow"}, noon.Add(time.Hour)
	b.Visit(page)
	b.Accessible("a wait")
	submit("#wait", "", "button")
	b.Accessible("a wait not over")
	c.view.Kind, c.view.Kinds, c.view.ReturnURL = escalation.KindVerify, []string{"code"}, ""
	b.Visit(page)
	b.Accessible("a code asked for")
	c.answer = func(*escalation.Solution) *escalation.Solved {
		return &escalation.Solved{Proof: strings.Repeat("proof", 50)}
	}
	submit(code, "0", "button")
	b.Accessible("a proof to copy")

	for _, err := range []error{escalation.Faults{{Field: "token", Reason: "invalid"}}, escalation.Faults{{Field: "token", Reason: "expired"}}, escalation.ErrTooMany, errors.New("broken")} {
		c.err = err
		b.Visit(page)
		b.Accessible(err.Error())
	}
}
