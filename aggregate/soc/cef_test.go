package soc

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// parseCEF reads a record as a receiver does, by the standard and not by what
// writes it: seven header fields between bare pipes, then key=value, a key being a
// word before a bare equals sign.
func parseCEF(line string) (header []string, ext map[string]string, err error) {
	var field strings.Builder
	i := 0
	for ; i < len(line) && len(header) < 7; i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line) && strings.IndexByte(`\|`, line[i+1]) >= 0:
			i++
			field.WriteByte(line[i])
		case c == '\\':
			return nil, nil, fmt.Errorf("a bare backslash in the header at %d", i)
		case c == '|':
			header = append(header, field.String())
			field.Reset()
		default:
			field.WriteByte(c)
		}
	}
	if len(header) < 7 || header[0] != "CEF:0" {
		return nil, nil, fmt.Errorf("a header of %d fields: %q", len(header), header)
	}
	ext = map[string]string{}
	rest := line[i:]
	keys := regexp.MustCompile(`(?:^| )([A-Za-z0-9]+)=`)
	// An equals sign that is escaped has a backslash before it, which is in no key.
	bounds := keys.FindAllStringSubmatchIndex(rest, -1)
	for n, m := range bounds {
		end := len(rest)
		if n+1 < len(bounds) {
			end = bounds[n+1][0]
		}
		key, raw := rest[m[2]:m[3]], rest[m[1]:end]
		var value strings.Builder
		for j := 0; j < len(raw); j++ {
			switch c := raw[j]; {
			case c == '=':
				return nil, nil, fmt.Errorf("a bare = in %s: %q", key, raw)
			case c != '\\':
				value.WriteByte(c)
			case j+1 == len(raw):
				return nil, nil, fmt.Errorf("a bare backslash ends %s", key)
			default:
				j++
				switch raw[j] {
				case 'n':
					value.WriteByte('\n')
				case 'r':
					value.WriteByte('\r')
				case '=', '\\':
					value.WriteByte(raw[j])
				default:
					return nil, nil, fmt.Errorf("%s has an escape that is none: %q", key, raw)
				}
			}
		}
		if _, twice := ext[key]; twice {
			return nil, nil, fmt.Errorf("%s twice", key)
		}
		ext[key] = value.String()
	}
	return header, ext, nil
}

// cefKeys are those of the standard (revision 26) that are used, with the most
// that each may hold.
var cefKeys = map[string]int{"rt": 13, "externalId": 40, "dvchost": 100, "src": 15, "c6a2": 39, "c6a2Label": 1023, "cat": 1023, "act": 63, "start": 13, "end": 13,
	"cnt": 20, "duser": 1023, "suser": 1023, "duid": 1023, "deviceExternalId": 255, "requestClientApplication": 1023, "outcome": 63, "reason": 1023, "msg": 1023,
	"cn1": 20, "cn1Label": 1023, "cn2": 20, "cn2Label": 1023}

func checkCEF(line string) (ext map[string]string, wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == 0x7F || c == '\u2028' || c == '\u2029' }) || !utf8.ValidString(line) {
		bad("it has a control character, or is no UTF-8: %q", line)
	}
	header, ext, err := parseCEF(line)
	if err != nil {
		bad("%v", err)
		return nil, wrong
	}
	if n, err := strconv.Atoi(header[6]); err != nil || n < 0 || n > 10 {
		bad("severity %q", header[6])
	}
	for _, i := range []int{1, 2, 4, 5} {
		if header[i] == "" {
			bad("header field %d is empty", i)
		}
	}
	for key, value := range ext {
		most, ok := cefKeys[key]
		if !ok && regexp.MustCompile(`^cs[1-6](Label)?$`).MatchString(key) {
			most, ok = 4000, true
		}
		if !ok {
			bad("%s is no key that is used", key)
		} else if len(value) > most {
			bad("%s has %d bytes", key, len(value))
		}
		if label, custom := strings.CutSuffix(key, "Label"); custom && ext[label] == "" {
			bad("%s names nothing", key)
		} else if regexp.MustCompile(`^(cs|cn|c6a)[0-9]$`).MatchString(key) && ext[key+"Label"] == "" {
			bad("%s has no name", key)
		}
	}
	for _, key := range []string{"rt", "externalId", "cat", "act", "msg"} {
		if ext[key] == "" {
			bad("no %s", key)
		}
	}
	return ext, wrong
}

func TestEveryRecordIsACEFRecord(t *testing.T) {
	all := samples()
	for _, name := range names(all) {
		line, err := CEF.AppendTo(nil, all[name], producer)
		if err != nil {
			t.Fatal(err)
		}
		if _, wrong := checkCEF(string(line)); len(wrong) > 0 {
			t.Errorf("%s: %v\n%s", name, wrong, line)
		}
	}
}

// Whatever an account is called, a receiver reads its name and no other field.
func TestCEFGivesHostileNamesBack(t *testing.T) {
	for _, name := range hostile {
		r := OfEvent(attempt("verify"))
		plain, _ := CEF.AppendTo(nil, r, producer)
		r.Names = map[string]string{hashA: name}
		line, _ := CEF.AppendTo(nil, r, producer)
		ext, wrong := checkCEF(string(line))
		want := strings.Map(func(c rune) rune {
			if c != '\n' && c != '\r' && control(c) {
				return ' '
			}
			return c
		}, clean(name))
		if name == "" {
			want = hashA
		}
		if got := ext["duser"]; got != want || len(wrong) > 0 {
			t.Errorf("%q is read as %q, %v", name, got, wrong)
		}
		without, _ := checkCEF(string(plain))
		for key, value := range ext {
			if key != "duser" && without[key] != value {
				t.Errorf("%q changes %s to %q", name, key, value)
			}
		}
	}
}

func FuzzCEF(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, reason string) {
		ff := finding("hammering", "open")
		ff.Samples, ff.Reason, ff.ID = ff.Samples[:1], reason, "id"+reason
		r := OfFinding(ff, Opened)
		r.Names = map[string]string{hashA: name}
		line, err := CEF.AppendTo(nil, r, Producer{Version: reason, Host: name})
		if err != nil {
			t.Fatal(err)
		}
		ext, wrong := checkCEF(string(line))
		wrong = slices.DeleteFunc(wrong, func(s string) bool { return strings.HasPrefix(s, "cs2 has") })
		if len(wrong) > 0 || ext["cs4"] != "T1110.001" {
			t.Fatalf("%v in %s", wrong, line)
		}
	})
}
