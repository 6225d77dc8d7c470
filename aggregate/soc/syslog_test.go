package soc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/leodido/go-syslog/v4/rfc5424"
)

// checkSyslog has somebody else's parser read a message.
func checkSyslog(t *testing.T, r *Record, f Format, p Producer) {
	t.Helper()
	b, err := AppendSyslog(nil, r, f, p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := rfc5424.NewParser().Parse(b)
	if err != nil {
		t.Fatalf("%v: %q", err, b)
	}
	s := m.(*rfc5424.SyslogMessage)
	want, err := f.AppendTo(nil, r, p)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case s.Message == nil || *s.Message != string(want):
		t.Errorf("the message is not what was sent: %q", b)
	case *s.Facility != facility || int(*s.Severity) != r.Severity.syslog() || s.Version != 1:
		t.Errorf("priority %d", *s.Priority)
	case s.StructuredData == nil || len(*s.StructuredData) != 1:
		t.Errorf("structured data %v in %q", s.StructuredData, b)
	case s.Timestamp == nil || s.Timestamp.UnixMicro() != r.Time.UnixMicro():
		t.Errorf("at %v, and not %v", s.Timestamp, r.Time)
	case s.MsgID == nil || *s.MsgID != word(r.signature(), 32):
		t.Errorf("message id %v", s.MsgID)
	}
	params := (*s.StructuredData)[enterprise]
	blank := strings.Map(func(c rune) rune {
		if control(c) {
			return ' '
		}
		return c
	}, clean(r.Realm))
	if params["id"] != r.ID || params["realm"] != blank || params["severity"] != r.Severity.String() {
		t.Errorf("%q, and not %q %q %q, in %q", params, r.ID, r.Realm, r.Severity, b)
	}
	if bytes.ContainsAny(b, "\n\x00") {
		t.Errorf("it would be two lines: %q", b)
	}
}

func TestEveryRecordIsASyslogMessage(t *testing.T) {
	all := samples()
	for _, name := range names(all) {
		for _, f := range Formats {
			checkSyslog(t, all[name], f, producer)
		}
	}
}

func TestSyslogGivesHostileRealmsBack(t *testing.T) {
	for _, name := range hostile {
		r := *OfEvent(attempt("verify"))
		r.Realm = name
		checkSyslog(t, &r, CEF, Producer{Host: name, Version: name})
	}
}

func FuzzSyslog(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, realm, name string) {
		r := *OfEvent(attempt("verify"))
		r.Realm, r.Names = realm, map[string]string{hashA: name}
		for _, format := range Formats {
			checkSyslog(t, &r, format, Producer{Host: realm})
		}
	})
}

// FuzzFormats: whatever is told, each format that is JSON is JSON of one line, and
// conforms.
func FuzzFormats(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, s, s)
	}
	schema, fields := loadOCSF(f), loadECS(f)
	f.Fuzz(func(t *testing.T, name, reason, key string) {
		ff := finding("many_accounts", "open")
		ff.Reason, ff.Groups[0].Key = reason, key
		e := attempt("captcha")
		e.Channel, e.IP, e.Reasons = name, key, []string{reason}
		for _, r := range []*Record{OfFinding(ff, Opened), OfEvent(e)} {
			r.Names = map[string]string{hashA: name}
			for _, format := range []Format{Own, OCSF, ECS} {
				line, err := format.AppendTo(nil, r, producer)
				if err != nil || !json.Valid(line) || bytes.ContainsAny(line, "\n\r") {
					t.Fatalf("%v: %s", err, line)
				}
			}
			line, _ := OCSF.AppendTo(nil, r, producer)
			if w := schema.checkRecord(line); len(w) > 0 {
				t.Errorf("%v: %s", w, line)
			}
			line, _ = ECS.AppendTo(nil, r, producer)
			if w := checkECS(fields, line); len(w) > 0 {
				t.Errorf("%v: %s", w, line)
			}
		}
	})
}
