package loginlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fields are what a log in columns can tell of a login. The first four are
// needed.
var Fields = []string{"time", "account", "ip", "outcome", "realm", "flow", "user_agent"}

const needed = 4

// Columns says where in a log each field stands: in JSON the name of a member
// ("user.name" is a member of a member), in CSV a header's name or a number
// from 1.
type Columns map[string]string

// ParseColumns reads "time=ts,account=3". Fields that it does not name have
// their own name.
func ParseColumns(s string) (Columns, error) {
	c := Columns{}
	for _, f := range Fields {
		c[f] = f
	}
	for pair := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		field, from, ok := strings.Cut(pair, "=")
		field, from = strings.TrimSpace(field), strings.TrimSpace(from)
		switch {
		case !ok || from == "":
			return nil, fmt.Errorf("%q is not FIELD=COLUMN", pair)
		case !slices.Contains(Fields, field):
			return nil, fmt.Errorf("unknown field %q; there are %s", field, strings.Join(Fields, ", "))
		}
		c[field] = from
	}
	return c, nil
}

// Words says what a log's outcome words mean.
type Words map[string]Word

// Word is the meaning of one outcome word: an Outcome, or WordSkip.
type Word Outcome

// WordSkip marks lines that are no login, such as logouts.
const WordSkip Word = 255

// meanings are the words that guardd itself uses for them.
var meanings = map[string]Word{
	"success":         Word(Accepted),
	"failure":         Word(Failed),
	"unknown_account": Word(UnknownAccount),
	"skip":            WordSkip,
}

// customary are words that need no flag. Outcomes of guardd's in which no
// password was found wrong are skipped: the login that follows counts.
var customary = map[Word]string{
	Word(Accepted):       "success succeeded successful accepted ok pass passed true 1",
	Word(Failed):         "failure failed fail rejected denied false 0 abandoned",
	Word(UnknownAccount): "unknown_account unknown_user invalid_user no_such_user",
	WordSkip:             "second_factor_pending denied_by_policy not_checked",
}

// ParseWords reads "200=success,401=failure,logout=skip", in addition to the
// customary words. Case does not matter.
func ParseWords(s string) (Words, error) {
	w := Words{}
	for meaning, words := range customary {
		for _, word := range strings.Fields(words) {
			w[word] = meaning
		}
	}
	for pair := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		word, means, ok := strings.Cut(pair, "=")
		meaning, known := meanings[strings.TrimSpace(means)]
		if !ok || !known {
			return nil, fmt.Errorf("%q is not WORD=success, failure, unknown_account or skip", pair)
		}
		w[strings.ToLower(strings.TrimSpace(word))] = meaning
	}
	return w, nil
}

// TimeLayouts are the names that stand for layouts of time.
var TimeLayouts = []string{"auto", "rfc3339", "unix", "unix_ms", "unix_us", "unix_ns"}

// guesses are the layouts tried for "auto" when the time is not a number.
var guesses = []string{
	time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 Z0700", "2006-01-02T15:04:05Z0700", "02/Jan/2006:15:04:05 -0700",
	time.RFC1123Z, time.RFC1123,
}

// unixNanos is how many nanoseconds one unit of a numeric layout has.
var unixNanos = map[string]int64{"unix": 1e9, "unix_ms": 1e6, "unix_us": 1e3, "unix_ns": 1}

// Clock reads a log's times.
type Clock struct {
	// Layout is one of TimeLayouts, or one in the manner of package time; ""
	// is "auto".
	Layout string
	// Zone is that of times which bear none.
	Zone *time.Location

	last int // the guess that was right before
}

// NewClock makes a Clock. It refuses a layout that names no day, since every
// time would be the year 0's.
func NewClock(layout string, zone *time.Location) (Clock, error) {
	if _, numeric := unixNanos[layout]; layout != "" && layout != "auto" && layout != "rfc3339" && !numeric {
		at := time.Date(2011, 12, 30, 0, 0, 0, 0, time.UTC)
		back, err := time.ParseInLocation(layout, at.Format(layout), time.UTC)
		if err != nil || !back.Equal(at) {
			return Clock{}, fmt.Errorf("%q is none of %s, and no layout of a whole date like 02.01.2006 15:04:05", layout, strings.Join(TimeLayouts, ", "))
		}
	}
	return Clock{Layout: layout, Zone: zone}, nil
}

// parse reads a time; fractions are read to the nanosecond.
func (c *Clock) parse(s string) (time.Time, error) {
	t, ok := c.read(strings.TrimSpace(s))
	if !ok {
		return t, fmt.Errorf("no time in layout %s", c.layout())
	}
	if !inRange(t) {
		return t, errDate
	}
	return t, nil
}

func (c *Clock) layout() string {
	if c.Layout == "" {
		return "auto"
	}
	return c.Layout
}

func (c *Clock) read(s string) (time.Time, bool) {
	switch layout := c.layout(); layout {
	case "auto":
		if whole, _, _ := strings.Cut(s, "."); whole != "" && strings.Trim(whole, "0123456789") == "" {
			return readUnix(s, unitOf(whole))
		}
		return c.guess(s)
	case "rfc3339":
		t, err := time.Parse(time.RFC3339, s)
		return t, err == nil
	default:
		if unit, ok := unixNanos[layout]; ok {
			return readUnix(s, unit)
		}
		t, err := time.ParseInLocation(layout, s, c.Zone)
		return t, err == nil
	}
}

func (c *Clock) guess(s string) (time.Time, bool) {
	for i := range guesses {
		at := (c.last + i) % len(guesses)
		if t, err := time.ParseInLocation(guesses[at], s, c.Zone); err == nil {
			c.last = at
			return t, true
		}
	}
	return time.Time{}, false
}

// unitOf tells seconds from finer units by size: 11 digits of seconds last
// until the year 5138, and as milliseconds they end in 1973.
func unitOf(whole string) int64 {
	switch n := len(strings.TrimLeft(whole, "0")); {
	case n <= 11:
		return 1e9
	case n <= 14:
		return 1e6
	case n <= 17:
		return 1e3
	}
	return 1
}

// readUnix reads a number of units of so many nanoseconds, exactly.
func readUnix(s string, unit int64) (time.Time, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || strings.Trim(frac, "0123456789") != "" {
		return time.Time{}, false
	}
	per := 1_000_000_000 / uint64(unit)
	sec, rest := n/per, n%per*uint64(unit)
	for scale := unit / 10; scale > 0 && frac != ""; scale /= 10 {
		rest += uint64(frac[0]-'0') * uint64(scale)
		frac = frac[1:]
	}
	if sec > 1<<33 { // the year 2242; keeps what follows in range
		return time.Time{}, false
	}
	return time.Unix(int64(sec), int64(rest)), true
}

// event makes an event of the texts of its fields, in the order of Fields.
func event(text *[7]string, clock *Clock, words Words) (Event, error) {
	word := words[strings.ToLower(strings.TrimSpace(text[3]))]
	switch word {
	case 0:
		return Event{}, fmt.Errorf("unknown outcome word (name it with --outcomes)")
	case WordSkip:
		return Event{}, ErrSkip
	}
	at, err := clock.parse(text[0])
	return Event{
		Time: at, Account: text[1], IP: text[2], Outcome: Outcome(word), Times: 1,
		Realm: text[4], Flow: text[5], UserAgent: text[6],
	}, err
}
