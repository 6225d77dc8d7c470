package loginlog

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// all reads a whole log and returns its events, each as often as it stands.
func all(t testing.TB, r io.Reader, p Parser) (*Scanner, []Event) {
	t.Helper()
	lines, err := NewLines(r)
	if err != nil {
		t.Fatal(err)
	}
	s := NewScanner(lines, p)
	var events []Event
	for {
		ev, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for range ev.Times {
			events = append(events, ev)
		}
	}
	if s.Lines != s.Parsed+s.Skipped+s.Unparsed {
		t.Fatalf("%+v does not add up", s.Counts)
	}
	return s, events
}

// open returns the real log.
func open(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Open("testdata/sshd-auth.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The figures of the real log were counted with grep and awk: 190 "Accepted
// password", 628 "Failed password" and 85 repeats of it that stand for 410
// more; 40 lines tell of publickey; 43 names are empty.
func TestRealLogIsReadToTheLastGuess(t *testing.T) {
	s, events := all(t, open(t), NewSSHD(2026, time.UTC))
	if want := (Counts{Lines: 4095, Parsed: 190 + 628 + 85, Skipped: 4095 - 903}); s.Counts != want {
		t.Errorf("counts %+v, want %+v", s.Counts, want)
	}
	got := map[Outcome]int{}
	empty := 0
	for _, ev := range events {
		got[ev.Outcome]++
		if ev.Account == "" {
			empty++
		}
	}
	if got[Accepted] != 190 || got[Failed]+got[UnknownAccount] != 628+410 || empty != 43 {
		t.Errorf("accepted %d, failed %d, empty %d", got[Accepted], got[Failed]+got[UnknownAccount], empty)
	}
	first, last := events[0].Time, events[len(events)-1].Time
	if first.Format(time.DateOnly) != "2026-03-29" || last.Format(time.DateOnly) != "2026-04-20" {
		t.Errorf("from %v to %v", first, last)
	}
}

func TestSSHDLines(t *testing.T) {
	const head = "Mar 27 13:06:56 host1 sshd[42]: "
	login := func(account, ip string, o Outcome, times int) Event {
		at := time.Date(2025, 3, 27, 13, 6, 56, 0, time.UTC)
		return Event{Time: at, Account: account, IP: ip, Outcome: o, Times: times}
	}
	skip := func() error { return ErrSkip }
	for _, c := range []struct {
		name, line string
		want       Event
		err        error
	}{
		{"accepted", head + "Accepted password for bob from 192.0.2.7 port 4711 ssh2", login("bob", "192.0.2.7", Accepted, 1), nil},
		{"failed", head + "Failed password for bob from 192.0.2.7 port 4711 ssh2", login("bob", "192.0.2.7", Failed, 1), nil},
		{"no ssh2", head + "Failed password for bob from 192.0.2.7 port 4711", login("bob", "192.0.2.7", Failed, 1), nil},
		{"IPv6", head + "Failed password for bob from 2001:db8::7 port 4711 ssh2", login("bob", "2001:db8::7", Failed, 1), nil},
		{"PAM", head + "Accepted keyboard-interactive/pam for bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", Accepted, 1), nil},
		{"a certificate's words", head + "Accepted gssapi-with-mic for bob from 192.0.2.7 port 1 ssh2: bob@EXAMPLE", login("bob", "192.0.2.7", Accepted, 1), nil},
		{"unknown", head + "Failed password for invalid user bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", UnknownAccount, 1), nil},
		{"unknown, long ago", head + "Failed password for illegal user bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", UnknownAccount, 1), nil},
		{"empty", head + "Failed password for invalid user  from 192.0.2.7 port 1 ssh2", login("", "192.0.2.7", UnknownAccount, 1), nil},
		{"empty, known", head + "Failed password for  from 192.0.2.7 port 1 ssh2", login("", "192.0.2.7", Failed, 1), nil},
		{"blanks in the name", head + "Failed password for invalid user a b  c from 192.0.2.7 port 1 ssh2", login("a b  c", "192.0.2.7", UnknownAccount, 1), nil},
		{"a name that is a mark", head + "Failed password for invalid user invalid user x from 192.0.2.7 port 1 ssh2", login("invalid user x", "192.0.2.7", UnknownAccount, 1), nil},
		{"a name that blames another", head + "Failed password for invalid user root from 198.51.100.1 port 22 ssh2 from 192.0.2.7 port 1 ssh2",
			login("root from 198.51.100.1 port 22 ssh2", "192.0.2.7", UnknownAccount, 1), nil},
		{"a name that begins like the origin", head + "Failed password for invalid user x from 1.2.3.4 from 192.0.2.7 port 1 ssh2",
			login("x from 1.2.3.4", "192.0.2.7", UnknownAccount, 1), nil},
		{"from from from", head + "Failed password for invalid user from from from from 192.0.2.7 port 1 ssh2", login("from from from", "192.0.2.7", UnknownAccount, 1), nil},
		{"a name that speaks sshd", head + "Failed password for invalid user message repeated 9 times: [ x from 192.0.2.7 port 1 ssh2",
			login("message repeated 9 times: [ x", "192.0.2.7", UnknownAccount, 1), nil},
		{"repeated", head + "message repeated 5 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", login("root", "192.0.2.7", Failed, 5), nil},
		{"repeated publickey", head + "message repeated 5 times: [ Failed publickey for root from 192.0.2.7 port 1 ssh2: RSA x]", Event{}, skip()},
		{"session binary", "Mar 27 13:06:56 host1 sshd-session[42]: Failed password for bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", Failed, 1), nil},
		{"no pid, priority", "<38>Mar 27 13:06:56 host1 sshd: Failed password for bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", Failed, 1), nil},
		{"RFC 3339", "2025-03-27T15:06:56+02:00 host1 sshd[42]: Failed password for bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", Failed, 1), nil},
		{"journalctl", "2025-03-27T13:06:56+0000 host1 sshd[42]: Failed password for bob from 192.0.2.7 port 1 ssh2", login("bob", "192.0.2.7", Failed, 1), nil},
		{"an address that is none is the guard's to refuse", head + "Failed password for bob from UNKNOWN port 65535 ssh2", login("bob", "UNKNOWN", Failed, 1), nil},

		{"publickey", head + "Accepted publickey for bob from 192.0.2.7 port 1 ssh2: RSA SHA256:x", Event{}, skip()},
		{"the same guess again", head + "Invalid user bob from 192.0.2.7", Event{}, skip()},
		{"another failure", head + "Failed to release session: no reply for bob from 192.0.2.7 port 1", Event{}, skip()},
		{"another program", "Mar 27 13:06:56 host1 sudo: Failed password for bob from 192.0.2.7 port 1 ssh2", Event{}, skip()},
		{"a mark", "Mar 27 13:06:56 host1 -- MARK --", Event{}, skip()},
		{"repeated, of nothing", "Mar 27 13:06:56 host1 last message repeated 3 times", Event{}, skip()},

		{"no time", "Failed password for bob from 192.0.2.7 port 1 ssh2", Event{}, errStamp},
		{"cut in the time", "Mar 27 13:0", Event{}, errStamp},
		{"cut after the time", "Mar 27 13:06:56 host1", Event{}, errHeader},
		{"cut in the origin", head + "Failed password for bob from 192.0.2.7", Event{}, errLogin},
		{"no port", head + "Failed password for bob from 192.0.2.7 port x ssh2", Event{}, errLogin},
		{"no address", head + "Failed password for bob from  port 1 ssh2", Event{}, errLogin},
		{"no number of times", head + "message repeated many times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", Event{}, errRepeated},
		{"zero times", head + "message repeated 0 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", Event{}, errRepeated},
		{"a number to hang a replay", head + "message repeated 999999999 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", Event{}, errRepeated},
		{"no such day", "Feb 30 13:06:56 host1 sshd[42]: x", Event{}, errStamp},
		{"29 February of a common year", "Feb 29 13:06:56 host1 sshd[42]: x", Event{}, errDate},
		{"before time began", "1969-03-27T15:06:56Z host1 sshd[42]: x", Event{}, errDate},
		{"after the last microsecond", "2300-03-27T15:06:56Z host1 sshd[42]: x", Event{}, errDate},
	} {
		ev, err := NewSSHD(2025, time.UTC).Parse([]byte(c.line))
		if !errors.Is(err, c.err) || err == nil && c.err != nil {
			t.Errorf("%s: error %v, want %v", c.name, err, c.err)
			continue
		}
		ev.Time = ev.Time.UTC()
		if err == nil && ev != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, ev, c.want)
		}
	}
}

func TestLastMessageRepeatedRepeatsTheLoginBefore(t *testing.T) {
	log := strings.Join([]string{
		"Mar 27 13:06:56 h sshd[1]: Failed password for bob from 192.0.2.7 port 1 ssh2",
		"Mar 27 13:06:57 h last message repeated 2 times",
		"Mar 27 13:06:58 h last message repeated 1 time",
		"Mar 27 13:06:59 h sshd[1]: Connection closed",
		"Mar 27 13:07:00 h last message repeated 7 times",
	}, "\n")
	s, events := all(t, strings.NewReader(log), NewSSHD(2025, time.UTC))
	if want := (Counts{5, 3, 2, 0}); s.Counts != want || len(events) != 1+2+1 {
		t.Errorf("%+v with %d events", s.Counts, len(events))
	}
	if at := events[3].Time; at.Second() != 58 {
		t.Errorf("the repeat is at %v", at)
	}
}

func TestYear(t *testing.T) {
	day := func(s string) time.Time {
		at, err := time.Parse("2006-01-02 15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct {
		name  string
		now   string
		lines []string // times as logged
		want  []string // dates as read
	}{
		{"this year", "2026-11-30 00:00:00", []string{"Mar 27 13:06:56", "Apr 20 00:00:00"}, []string{"2026-03-27", "2026-04-20"}},
		{"last year", "2026-04-19 00:00:00", []string{"Mar 27 13:06:56", "Apr 20 00:00:00"}, []string{"2025-03-27", "2025-04-20"}},
		{"now is not the future", "2026-04-20 00:00:00", []string{"Apr 20 00:00:00"}, []string{"2026-04-20"}},
		{"a second ahead is", "2026-04-20 00:00:00", []string{"Apr 20 00:00:01"}, []string{"2025-04-20"}},
		{"over New Year", "2026-04-01 00:00:00", []string{"Dec 30 23:00:00", "Jan  2 00:00:00", "Mar  1 00:00:00"}, []string{"2025-12-30", "2026-01-02", "2026-03-01"}},
		{"over two", "2026-04-01 00:00:00", []string{"Dec 30 23:00:00", "Jun  2 00:00:00", "Aug  2 00:00:00", "Jan  1 00:00:00"}, []string{"2024-12-30", "2025-06-02", "2025-08-02", "2026-01-01"}},
		{"a straggler at New Year", "2026-04-01 00:00:00", []string{"Dec 31 23:00:00", "Jan  1 00:00:00", "Dec 31 23:59:59", "Jan  1 00:00:01"},
			[]string{"2025-12-31", "2026-01-01", "2025-12-31", "2026-01-01"}},
		{"a straggler first", "2026-04-01 00:00:00", []string{"Jan  1 00:00:00", "Dec 31 23:59:59"}, []string{"2026-01-01", "2025-12-31"}},
		{"newer file first", "2026-04-01 00:00:00", []string{"Mar 20 00:00:00", "Mar 31 00:00:00", "Feb 20 00:00:00"}, []string{"2026-03-20", "2026-03-31", "2026-02-20"}},
		{"the last line is not the latest", "2026-03-30 00:00:00", []string{"Mar 31 00:00:00", "Mar 20 00:00:00"}, []string{"2025-03-31", "2025-03-20"}},
		{"leap day", "2026-04-01 00:00:00", []string{"Feb 28 00:00:00", "Feb 29 00:00:00"}, []string{"2024-02-28", "2024-02-29"}},
		{"leap day after New Year", "2026-04-01 00:00:00", []string{"Dec 28 00:00:00", "Feb 29 00:00:00"}, []string{"2023-12-28", "2024-02-29"}},
		{"complete times are as they are", "2026-04-01 00:00:00", []string{"2031-01-02T03:04:05Z", "Mar 31 00:00:00"}, []string{"2031-01-02", "2026-03-31"}},
	} {
		var log strings.Builder
		for _, at := range c.lines {
			log.WriteString(at + " h sshd[1]: Failed password for bob from 192.0.2.7 port 1 ssh2\n")
		}
		lines, err := NewLines(strings.NewReader(log.String()))
		if err != nil {
			t.Fatal(err)
		}
		year, err := LatestYear(lines, day(c.now), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		_, events := all(t, strings.NewReader(log.String()), NewSSHD(year, time.UTC))
		var got []string
		for _, ev := range events {
			got = append(got, ev.Time.Format(time.DateOnly))
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestYearKnowsTheZone(t *testing.T) {
	east := time.FixedZone("east", 10*3600)
	now := time.Date(2026, 4, 20, 0, 0, 0, 0, time.UTC) // 10:00 there
	lines, err := NewLines(strings.NewReader("Apr 20 09:59:59 h sshd[1]: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	if y, err := LatestYear(lines, now, east); y != 2026 || err != nil {
		t.Errorf("year %d, %v", y, err)
	}
}
