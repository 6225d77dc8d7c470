package loginlog

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func columns(t testing.TB, s string) Columns {
	t.Helper()
	c, err := ParseColumns(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func words(t testing.TB, s string) Words {
	t.Helper()
	w, err := ParseWords(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var (
	utc  = Clock{Zone: time.UTC}
	noon = time.Date(2025, 3, 27, 12, 0, 0, 0, time.UTC)
)

func TestJSONL(t *testing.T) {
	const cols = "time=ts,account=user.name,ip=client.ip,outcome=result,user_agent=ua"
	for _, c := range []struct {
		name, line string
		want       Event
		err        string // "" none, "skip", or part of the reason
	}{
		{"all of it", `{"ts":"2025-03-27T12:00:00Z","user":{"name":"bob","id":1},"client":{"ip":"192.0.2.7"},"result":"OK","realm":"r","flow":"otp","ua":"curl","more":[1,{}]}`,
			Event{noon, "bob", "192.0.2.7", Accepted, 1, "r", "otp", "curl"}, ""},
		{"flat names that look like paths", `{"ts":1743076800,"user.name":"bob","client.ip":"192.0.2.7","result":false}`,
			Event{noon, "bob", "192.0.2.7", Failed, 1, "", "", ""}, ""},
		{"numbers", `{"ts":1743076800000,"user.name":9007199254740993,"client.ip":"192.0.2.7","result":1}`,
			Event{noon, "9007199254740993", "192.0.2.7", Accepted, 1, "", "", ""}, ""},
		{"an exponent", `{"ts":1.7430768e9,"user.name":"bob","client.ip":"192.0.2.7","result":401}`,
			Event{noon, "bob", "192.0.2.7", Failed, 1, "", "", ""}, ""},
		{"a null name is an empty one", `{"ts":1743076800,"user.name":null,"client.ip":"192.0.2.7","result":"unknown_account"}`,
			Event{noon, "", "192.0.2.7", UnknownAccount, 1, "", "", ""}, ""},
		{"escapes", `{"ts":1743076800,"user.name":"b\u0000\u00f6b","client.ip":"192.0.2.7","result":"failure"}`,
			Event{noon, "b\x00öb", "192.0.2.7", Failed, 1, "", "", ""}, ""},
		{"a logout", `{"ts":"?","user.name":"bob","client.ip":"192.0.2.7","result":"logout"}`, Event{}, "skip"},
		{"not checked", `{"ts":1743076800,"user.name":"bob","client.ip":"192.0.2.7","result":"not_checked"}`, Event{}, "skip"},

		{"no name", `{"ts":1743076800,"client.ip":"192.0.2.7","result":"ok"}`, Event{}, "account"},
		{"a name that is none", `{"ts":1743076800,"user":{"name":["bob"]},"client.ip":"192.0.2.7","result":"ok"}`, Event{}, "account"},
		{"a word unknown", `{"ts":1743076800,"user.name":"bob","client.ip":"192.0.2.7","result":"maybe"}`, Event{}, "--outcomes"},
		{"no time", `{"ts":"yesterday","user.name":"bob","client.ip":"192.0.2.7","result":"ok"}`, Event{}, "no time"},
		{"an array", `[]`, Event{}, errNotJSON.Error()},
		{"null", `null`, Event{}, errNotJSON.Error()},
		{"cut", `{"ts":17430`, Event{}, errNotJSON.Error()},
		{"two", `{} {}`, Event{}, errNotObject.Error()},
		{"not UTF-8", "{\"ts\":1743076800,\"user.name\":\"b\xff\"}", Event{}, errUTF8.Error()},
	} {
		ev, err := NewJSONL(columns(t, cols), utc, words(t, "401=failure,logout=skip")).Parse([]byte(c.line))
		check(t, c.name, ev, err, c.want, c.err)
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		name, columns, lines string
		want                 Event
		err                  string
	}{
		{"by header", "account=user name", "ip, outcome,user name,time,x\n192.0.2.7,ok,\"bo,\"\"b\",2025-03-27 12:00:00,y",
			Event{noon, `bo,"b`, "192.0.2.7", Accepted, 1, "", "", ""}, ""},
		{"by number", "time=4,account=3,ip=1,outcome=2,realm=5", "192.0.2.7,fail,bob,1743076800,shop",
			Event{noon, "bob", "192.0.2.7", Failed, 1, "shop", "", ""}, ""},
		{"mixed", "time=4,account=user,ip=1,outcome=2", "a,b,user,d\n192.0.2.7,fail,bob,1743076800",
			Event{noon, "bob", "192.0.2.7", Failed, 1, "", "", ""}, ""},
		{"an optional column, named", "time=4,account=3,ip=1,outcome=2,flow=f", "a,b,c,d,f\n192.0.2.7,fail,bob,1743076800,otp",
			Event{noon, "bob", "192.0.2.7", Failed, 1, "", "otp", ""}, ""},
		{"an empty name", "time=4,account=3,ip=1,outcome=2", "192.0.2.7,fail,,1743076800",
			Event{noon, "", "192.0.2.7", Failed, 1, "", "", ""}, ""},
		{"a name that is not UTF-8 is the guard's to refuse", "time=4,account=3,ip=1,outcome=2", "192.0.2.7,fail,b\xff,1743076800",
			Event{noon, "b\xff", "192.0.2.7", Failed, 1, "", "", ""}, ""},
		{"after a broken line", "time=4,account=3,ip=1,outcome=2", "\"192.0.2.7,fail\n\n192.0.2.7,fail,bob,1743076800",
			Event{noon, "bob", "192.0.2.7", Failed, 1, "", "", ""}, ""},

		{"the header itself", "", "time,account,ip,outcome", Event{}, "skip"},
		{"short", "time=4,account=3,ip=1,outcome=2", "192.0.2.7,fail,bob", Event{}, "no column 4"},
		{"an open quote", "time=4,account=3,ip=1,outcome=2", "\"192.0.2.7,fail,bob,1743076800", Event{}, errCSV.Error()},
		{"a bare quote", "time=4,account=3,ip=1,outcome=2", "192.0.2.7,fail,b\"b,1743076800", Event{}, errCSV.Error()},
		{"no such column", "account=user", "time,account,ip,outcome", Event{}, `no column "user" for account`},
		{"no such optional column", "realm=tenant", "time,account,ip,outcome", Event{}, `no column "tenant" for realm`},
	} {
		p := NewCSV(columns(t, c.columns), false, ',', utc, words(t, ""))
		var ev Event
		var err error
		for line := range strings.SplitSeq(c.lines, "\n") {
			ev, err = p.Parse([]byte(line))
		}
		check(t, c.name, ev, err, c.want, c.err)
	}
	p := NewCSV(columns(t, "time=4,account=3,ip=1,outcome=2"), true, '\t', utc, words(t, ""))
	if _, err := p.Parse([]byte("1\t2\t3\t4")); err != ErrSkip {
		t.Errorf("a header that is said to be there: %v", err)
	}
	if ev, err := p.Parse([]byte("192.0.2.7\tok\tbob\t1743076800")); err != nil || ev.Account != "bob" {
		t.Errorf("tabs: %+v, %v", ev, err)
	}
}

func check(t *testing.T, name string, ev Event, err error, want Event, reason string) {
	t.Helper()
	switch {
	case reason == "skip":
		if err != ErrSkip {
			t.Errorf("%s: %v, want a skip", name, err)
		}
	case reason != "":
		if err == nil || err == ErrSkip || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", name, err, reason)
		}
	case err != nil:
		t.Errorf("%s: %v", name, err)
	default:
		ev.Time = ev.Time.UTC()
		if ev != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, ev, want)
		}
	}
}

func TestABadHeaderEndsTheReading(t *testing.T) {
	l, err := NewLines(strings.NewReader("a,b\n1,2\n3,4\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := NewScanner(l, NewCSV(columns(t, ""), false, ',', utc, words(t, "")))
	if _, err := s.Next(); !errors.Is(err, ErrHeader) || s.Counts != (Counts{1, 0, 0, 1}) {
		t.Errorf("%v after %+v", err, s.Counts)
	}
}

func TestTimes(t *testing.T) {
	east := time.FixedZone("", 2*3600)
	const at = "2025-03-27 12:00:00"
	for _, c := range []struct{ layout, in, want string }{
		{"", "2025-03-27T12:00:00Z", at}, {"auto", "2025-03-27T14:00:00.25+02:00", at + ".25"},
		{"", "2025-03-27 14:00:00", at}, {"", "2025-03-27T14:00:00.5", at + ".5"}, // of the zone
		{"", "2025-03-27 12:00:00+00:00", at}, {"", "2025-03-27 12:00:00 +0000", at}, {"", "2025-03-27T12:00:00+0000", at},
		{"", "27/Mar/2025:12:00:00 +0000", at}, {"", "Thu, 27 Mar 2025 12:00:00 +0000", at},
		{"", " 1743076800 ", at}, {"", "1743076800.123456789", at + ".123456789"}, {"", "1743076800000", at},
		{"", "1743076800123.5", at + ".1235"}, {"", "1743076800000001", at + ".000001"}, {"", "1743076800000000001", at + ".000000001"},
		{"rfc3339", "2025-03-27T12:00:00Z", at}, {"unix", "1743076800", at}, {"unix_ms", "1743076800001", at + ".001"},
		{"unix_us", "1743076800000001", at + ".000001"}, {"unix_ns", "1743076800000000001", at + ".000000001"},
		{"unix_ms", "86400000", "1970-01-02 00:00:00"}, // too small to be told by its size
		{"02.01.2006 15:04", "27.03.2025 14:00", at},

		{"", "", ""}, {"", "0", ""}, {"", "-1", ""}, {"", ".5", ""}, {"", "1.2.3", ""}, {"", "1743076800x", ""}, {"", "99999999999999999999999", ""},
		{"", "9999999999", ""}, {"rfc3339", "1743076800", ""}, {"unix", "now", ""}, {"unix", "18446744073709551615", ""}, {"unix", "1e9", ""},
		{"", "2300-01-01T00:00:00Z", ""}, {"", "1969-12-31T23:59:59Z", ""}, {"", "0000-00-00 00:00:00", ""},
	} {
		got, err := (&Clock{Layout: c.layout, Zone: east}).parse(c.in)
		text := got.UTC().Format("2006-01-02 15:04:05.999999999")
		if err != nil {
			text = ""
		}
		if text != c.want {
			t.Errorf("%q in layout %q is %q (%v), want %q", c.in, c.layout, text, err, c.want)
		}
	}
}

func TestColumnsAndWordsNameTheirFaults(t *testing.T) {
	for _, bad := range []string{"user=1", "time", "time=", "time=1,,ip=2"} {
		if c, err := ParseColumns(bad); err == nil {
			t.Errorf("columns %q became %v", bad, c)
		}
	}
	for _, bad := range []string{"ok", "ok=good", "ok="} {
		if w, err := ParseWords(bad); err == nil {
			t.Errorf("words %q became %v", bad, w)
		}
	}
	w := words(t, "OK=failure")
	if w["ok"] != Word(Failed) || w["success"] != Word(Accepted) {
		t.Errorf("a word of the flag does not outdo a customary one: %v", w)
	}
}
