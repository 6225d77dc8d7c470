package loginlog

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// fuzz reads any bytes as a log: no panic, every line counted once, every
// event credible.
func fuzz(f *testing.F, newParser func() Parser, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(s + "\r\n" + s + "\n\n" + s[:len(s)/2]))
		f.Add([]byte(gz(s)))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		lines, err := NewLines(bytes.NewReader(log))
		if err != nil {
			return
		}
		s := NewScanner(lines, newParser())
		events := int64(0)
		for {
			var ev Event
			if ev, err = s.Next(); err != nil {
				break
			}
			events++
			if ev.Times < 1 || ev.Times > MaxRepeat || ev.Outcome < Accepted || ev.Outcome > UnknownAccount || !inRange(ev.Time) {
				t.Fatalf("event %+v", ev)
			}
		}
		if s.Lines != s.Parsed+s.Skipped+s.Unparsed || s.Parsed != events {
			t.Fatalf("%+v with %d events", s.Counts, events)
		}
		switch packed := bytes.HasPrefix(log, []byte("\x1f\x8b")); {
		case packed || errors.Is(err, ErrHeader):
		case err != io.EOF:
			t.Fatal(err)
		case s.Lines != countLines(log):
			t.Fatalf("%d lines counted, %d there", s.Lines, countLines(log))
		}
	})
}

// countLines counts by the other way: line ends, and what follows the last.
func countLines(log []byte) int64 {
	log = bytes.TrimPrefix(log, []byte("\xef\xbb\xbf"))
	n := int64(bytes.Count(log, []byte("\n")))
	if len(log) > 0 && log[len(log)-1] != '\n' {
		n++
	}
	return n
}

func FuzzSSHD(f *testing.F) {
	fuzz(f, func() Parser { return NewSSHD(2025, time.UTC) },
		"Mar 27 13:06:56 host1 sshd[42]: Failed password for invalid user bob from 192.0.2.7 port 4711 ssh2",
		"Mar  7 13:06:56 host1 sshd[42]: message repeated 5 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]",
		"2025-03-27T15:06:56.5+02:00 host1 sshd-session[42]: Accepted password for x from 1.2.3.4 port 1 ssh2: y from 2001:db8::7 port 1 ssh2",
		"Feb 29 13:06:56 host1 last message repeated 3 times",
	)
}

func FuzzJSONL(f *testing.F) {
	cols, known := columns(f, "account=user.name"), words(f, "")
	fuzz(f, func() Parser { return NewJSONL(cols, utc, known) },
		`{"time":"2025-03-27T12:00:00Z","user":{"name":"bob"},"ip":"192.0.2.7","outcome":"success"}`,
		`{"time":1743076800.5,"user.name":null,"ip":"192.0.2.7","outcome":true,"realm":1e9}`,
	)
}

func FuzzCSV(f *testing.F) {
	cols, known := columns(f, "time=1,account=2,ip=3,outcome=4"), words(f, "")
	fuzz(f, func() Parser { return NewCSV(cols, false, ',', utc, known) },
		`2025-03-27 12:00:00,"bo""b",192.0.2.7,ok`,
		"1743076800,,::1,failure,more\n\",\n1,2,3,4",
	)
}

func FuzzCSVHeader(f *testing.F) {
	cols, known := columns(f, ""), words(f, "")
	fuzz(f, func() Parser { return NewCSV(cols, false, ',', utc, known) },
		"time,account,ip,outcome\n1743076800,bob,::1,ok",
		"\"time\", outcome,account,ip\n1743076800,ok,bob,::1",
	)
}

func FuzzLatestYear(f *testing.F) {
	f.Add([]byte("Dec 31 23:59:59 h x\nJan  1 00:00:00 h x\nFeb 29 00:00:00 h x\n"), int64(1743076800))
	f.Fuzz(func(t *testing.T, log []byte, unix int64) {
		if _, err := NewLines(bytes.NewReader(log)); err != nil {
			return // a torn gzip holds no lines
		}
		now := time.Unix(unix&0xffffffff+1e9, 0).UTC()
		read := func() *Lines {
			l, err := NewLines(bytes.NewReader(log))
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		year, err := LatestYear(read(), now, time.UTC)
		if err != nil {
			return
		}
		s := NewScanner(read(), NewSSHD(year, time.UTC))
		for {
			ev, err := s.Next()
			if err != nil {
				return
			}
			if st := ev.Time; st.After(now) && st.Location() == time.UTC && !bytes.Contains(log, []byte("T")) {
				t.Fatalf("%v is after %v", st, now)
			}
		}
	})
}

func BenchmarkSSHD(b *testing.B) {
	line := []byte("Mar 27 13:06:56 host1 sshd[42]: Failed password for invalid user bob from 192.0.2.7 port 4711 ssh2")
	p := NewSSHD(2025, time.UTC)
	for b.Loop() {
		if _, err := p.Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
