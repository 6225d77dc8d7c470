package soc

import (
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// cefWriter appends a CEF record. In the header a pipe and a backslash are
// escaped, in the extension an equals sign and a backslash; a line end is \n or \r
// there, and a blank in the header, where the standard has nothing for it. Any
// other control character is a blank: some receivers end a record at NUL.
type cefWriter struct {
	b []byte
	n int // fields of the extension
}

func appendCEF(b []byte, r *Record, p Producer) []byte {
	w := &cefWriter{b: append(b, "CEF:0"...)}
	for _, s := range []string{"guardd", "guardd", p.Version, r.signature(), r.Title(), strconv.Itoa(r.Severity.cef())} {
		w.b = append(w.b, '|')
		w.header(s)
	}
	w.b = append(w.b, '|')
	w.field("rt", msText(r.Time))
	w.field("externalId", r.ID)
	w.field("dvchost", cut(p.Host, 100))
	w.custom("cs1", "realm", r.Realm)
	w.sources(r)
	if r.Finding != nil {
		w.finding(r)
	} else {
		w.decision(r)
	}
	w.field("msg", cut(r.Message(), 1023))
	return w.b
}

// sources writes the first address as the source; all that there are is cs5.
func (w *cefWriter) sources(r *Record) {
	ips, nets := r.sources()
	if len(ips) > 0 {
		if a := ips[0].Unmap(); a.Is4() {
			w.field("src", a.String())
		} else {
			w.custom("c6a2", "Source IPv6 Address", plain(a))
		}
	}
	if r.Finding == nil {
		return
	}
	var all []string
	for _, a := range ips {
		all = append(all, plain(a))
	}
	for _, n := range nets {
		all = append(all, n.String())
	}
	w.custom("cs5", "sources", strings.Join(all, ","))
}

func (w *cefWriter) finding(r *Record) {
	f, k := r.Finding, kindOf(r.Finding.What)
	w.field("cat", "finding")
	w.field("act", r.Change.String())
	w.field("suser", cut(f.By, 1023)) // an operator's key
	w.field("start", msText(f.Start))
	if r.Change == Closed {
		w.field("end", msText(r.Time))
	}
	w.number("cnt", f.Guesses)
	w.custom("cs2", "campaign", f.ID)
	w.custom("cs3", "posture", f.Posture)
	technique := k.attack[0]
	if k.sub[0] != "" {
		technique = k.sub[0]
	}
	w.custom("cs4", "technique", technique)
	var names []string
	for _, a := range f.Samples {
		names = append(names, r.name(a))
	}
	if len(names) == 1 {
		w.field("duser", cut(names[0], 1023))
	} else {
		w.custom("cs6", "accounts", strings.Join(names, ","))
	}
	w.customNumber("cn1", "accounts", f.Accounts)
	w.customNumber("cn2", "sources", f.Sources)
	w.field("reason", cut(f.Reason, 1023))
}

func (w *cefWriter) decision(r *Record) {
	e := r.Event
	w.field("duser", cut(r.name(e.Account), 1023))
	w.field("duid", e.Account)
	w.field("deviceExternalId", e.Instance)
	w.custom("cs2", "flow", e.Flow)
	w.custom("cs3", "posture", e.Posture)
	w.custom("cs4", "reasons", strings.Join(e.Reasons, ","))
	w.custom("cs5", "attempt", e.Attempt)
	w.field("requestClientApplication", e.UAClass)
	w.field("cat", "decision")
	if e.Kind == aggregate.KindAttempt {
		w.field("act", e.Action)
		w.custom("cs6", "rung", e.Rung)
		return
	}
	w.field("act", "report")
	w.field("outcome", e.Outcome)
	w.field("reason", ocsfOutcome[e.Outcome].detail)
}

func msText(t time.Time) string { return strconv.FormatInt(ms(t), 10) }

func (w *cefWriter) header(s string) {
	for _, c := range clean(s) {
		switch {
		case c == '|' || c == '\\':
			w.b = append(w.b, '\\', byte(c))
		case control(c):
			w.b = append(w.b, ' ')
		default:
			w.b = append(w.b, string(c)...)
		}
	}
}

// field writes one; none where there is nothing to say.
func (w *cefWriter) field(key, value string) {
	if value == "" {
		return
	}
	if w.n > 0 {
		w.b = append(w.b, ' ')
	}
	w.n++
	w.b = append(append(w.b, key...), '=')
	for _, c := range clean(value) {
		switch {
		case c == '=' || c == '\\':
			w.b = append(w.b, '\\', byte(c))
		case c == '\n':
			w.b = append(w.b, `\n`...)
		case c == '\r':
			w.b = append(w.b, `\r`...)
		case control(c):
			w.b = append(w.b, ' ')
		default:
			w.b = append(w.b, string(c)...)
		}
	}
}

// control tells of what ends a line or a record somewhere: C0 and C1 controls,
// and Unicode's line and paragraph separators.
func control(c rune) bool {
	return c < ' ' || c >= 0x7F && c < 0xA0 || c == '\u2028' || c == '\u2029'
}

// custom is one of the fields that are named by another.
func (w *cefWriter) custom(key, label, value string) {
	if value != "" {
		w.field(key+"Label", label)
		w.field(key, cut(value, 4000))
	}
}

func (w *cefWriter) number(key string, n int) {
	if n != 0 {
		w.field(key, strconv.Itoa(n))
	}
}

func (w *cefWriter) customNumber(key, label string, n int) {
	if n != 0 {
		w.custom(key, label, strconv.Itoa(n))
	}
}
