package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/cmd/guardd/loginlog"
	"github.com/guardd/guardd/escalation"
)

// replayFigures is what --json prints. Account names stand in it in clear, as
// guardd writes them nowhere else: they are the log's own, and the report is
// for whoever has the log.
type replayFigures struct {
	Lines    int64 `json:"lines"` // = Parsed + Skipped + Unparsed
	Parsed   int64 `json:"parsed"`
	Skipped  int64 `json:"skipped"`
	Unparsed int64 `json:"unparsed"`
	// RefusedInput counts logins that guardd answers with 400, such as those
	// with an empty name. They are in Failed (or Accepted), not in Attempts.
	RefusedInput       int64        `json:"refused_input"`
	Attempts           int64        `json:"attempts"` // = Accepted + Failed - RefusedInput
	Accepted           int64        `json:"accepted"`
	Failed             int64        `json:"failed"`
	ByAction           byAction     `json:"by_action"` // first answers; their sum is Attempts
	GuessesLetThrough  int64        `json:"guesses_let_through"`
	HonestLogins       int64        `json:"honest_logins"`
	HonestWithFriction int64        `json:"honest_with_friction"`
	TopSources         []topSource  `json:"top_sources"`
	TopAccounts        []topAccount `json:"top_accounts"`
	// Campaigns are what --detect found, the largest of CampaignsFound; not there
	// without it.
	Campaigns      []replayCampaign `json:"campaigns,omitzero"`
	CampaignsFound int              `json:"campaigns_found,omitzero"`
}

type byAction struct {
	Allow   int64 `json:"allow"`
	Delay   int64 `json:"delay"`
	Captcha int64 `json:"captcha"`
	Verify  int64 `json:"verify"`
	Deny    int64 `json:"deny"`
}

type topSource struct {
	IP       string `json:"ip"`
	Attempts int64  `json:"attempts"`
	Asked    int64  `json:"asked"` // attempts answered above allow
}

type topAccount struct {
	Account  string `json:"account"`
	Attempts int64  `json:"attempts"`
	Asked    int64  `json:"asked"`
}

func (b *byAction) of(a escalation.Action) *int64 {
	switch a {
	case escalation.ActionAllow:
		return &b.Allow
	case escalation.ActionDelay:
		return &b.Delay
	case escalation.ActionCaptcha:
		return &b.Captcha
	case escalation.ActionVerify:
		return &b.Verify
	}
	return &b.Deny
}

func (b *byAction) add(a escalation.Action) { *b.of(a)++ }

// replayReport is what a replay found.
type replayReport struct {
	replayFigures
	policy      string // where the policy is from
	name        string // the log's
	format      string
	realm, flow string

	first, last time.Time
	late        int64         // logins that the log has out of order
	latest      time.Duration // the most that one was too late
	friction    byAction      // what honest logins were asked
	reasons     map[string]int64
	refusals    map[string]int64 // why input was refused
	unread      []loginlog.Unread
	exact       bool
	short       uint64 // how often the twin had no room
	stuck       int64  // honest logins refused in spite of their proof
	firstStuck  int64  // and the first one's line
}

// finish takes over what the scanner and the lists have counted.
func (p *replayReport) finish(f *replayFlags, s *loginlog.Scanner, zone *time.Location, r *replay) {
	p.Lines, p.Parsed, p.Skipped, p.Unparsed = s.Lines, s.Parsed, s.Skipped, s.Unparsed
	p.unread = s.First
	p.name, p.format, p.realm, p.flow = f.file, f.format, f.realm, f.flow
	if f.file == "-" {
		p.name = "standard input"
	}
	p.first, p.last = p.first.In(zone), p.last.In(zone)
	p.exact = r.sources.exact() && r.accounts.exact()
	stats := r.store.Stats()
	p.short = stats.Overflowed + stats.Unkept
	p.TopSources, p.TopAccounts = []topSource{}, []topAccount{}
	for _, e := range r.sources.first(f.top) {
		p.TopSources = append(p.TopSources, topSource{e.key, e.attempts, e.asked})
	}
	for _, e := range r.accounts.first(f.top) {
		p.TopAccounts = append(p.TopAccounts, topAccount{e.key, e.attempts, e.asked})
	}
}

// print writes the report for people.
func (p *replayReport) print(out io.Writer) error {
	w := &table{bufio.NewWriter(out)}
	fmt.Fprintf(w, "%s (%s), %s to %s (%s)\n", filepath.Base(p.name), p.format,
		p.first.Format("2 Jan 2006 15:04"), p.last.Format("2 Jan 2006 15:04 MST"), span(p.last.Sub(p.first)))
	fmt.Fprintf(w, "policy: %s, realm %s, flow %s\n", p.policy, p.realm, p.flow)

	w.head("Lines", p.Lines)
	w.row("parsed", p.Parsed, p.Lines, "a login each")
	w.row("skipped", p.Skipped, p.Lines, "no login")
	w.row("unparsed", p.Unparsed, p.Lines, p.unreadable())
	if p.late > 0 {
		hint := ""
		if p.latest >= 12*time.Hour { // more than daemons, zones or daylight saving make
			hint = " (several files: is the oldest file first?)"
		}
		w.note("%s out of order, by up to %s: judged at the latest time before%s", plural64(p.late, "login"), p.latest.Round(time.Second), hint)
	}

	w.head("Logins", p.Accepted+p.Failed)
	w.row("accepted", p.Accepted, p.Accepted+p.Failed, "")
	w.row("failed", p.Failed, p.Accepted+p.Failed, "")
	w.row("refused as input", p.RefusedInput, p.Accepted+p.Failed, counted(p.refusals))

	w.head("Attempts judged", p.Attempts)
	for _, a := range escalation.Actions {
		w.row(string(a), *p.ByAction.of(a), p.Attempts, "")
	}
	if len(p.reasons) > 0 {
		w.note("above allow because of %s", counted(p.reasons))
	}

	judged := p.Attempts - p.HonestLogins
	w.head("Wrong guesses", judged)
	w.row("let through", p.GuessesLetThrough, judged, "")
	w.row("asked for more", judged-p.GuessesLetThrough, judged, "and taken as not made")

	w.head("Honest logins", p.HonestLogins)
	w.row("let through at once", p.HonestLogins-p.HonestWithFriction, p.HonestLogins, "")
	w.row("asked for more", p.HonestWithFriction, p.HonestLogins, p.howHonest())

	writeList(w, "Most attempts by address", p.TopSources, func(s topSource) (string, int64, int64) { return s.IP, s.Attempts, s.Asked })
	writeList(w, "Most attempts on account", p.TopAccounts, func(s topAccount) (string, int64, int64) { return s.Account, s.Attempts, s.Asked })
	if !p.exact {
		w.note("more than %s addresses or accounts: attempts here may be up to %s too high", thousands(topKeys), thousands(p.Attempts/topKeys+1))
	}
	if p.Campaigns != nil {
		w.head("Attacks found", int64(p.CampaignsFound))
		if p.CampaignsFound == 0 {
			w.note("none. What is beyond the usual is found once a week of the log has said what is usual; what one address or one account shows, at once")
		}
		for _, c := range p.Campaigns {
			w.note("%s %s: %s", c.Start.In(p.first.Location()).Format("2 Jan 15:04"), c.What, printable(c.Text+c.from(), 240))
		}
		if more := p.CampaignsFound - len(p.Campaigns); more > 0 {
			w.note("and %s with fewer guesses (--top lists more)", plural(more, "other"))
		}
	}
	if p.short > 0 {
		fmt.Fprintf(w, "\nMemory was full %s: newcomers shared counters, and some places were not remembered.\n", plural64(int64(p.short), "time"))
	}
	return w.Flush()
}

func (p *replayReport) unreadable() string {
	var s []string
	for _, u := range p.unread {
		s = append(s, fmt.Sprintf("line %d: %v", u.Line, u.Why))
	}
	if int64(len(s)) < p.Unparsed {
		s = append(s, "...")
	}
	return strings.Join(s, "; ")
}

func (p *replayReport) howHonest() string {
	var s []string
	for _, a := range escalation.Actions {
		if n := *p.friction.of(a); n > 0 {
			s = append(s, fmt.Sprintf("%s %s", a, thousands(n)))
		}
	}
	switch denied := p.friction.Deny; {
	case len(s) == 0:
		return ""
	case p.stuck > 0:
		s = append(s, fmt.Sprintf("%s NOT LET IN in spite of their proof", thousands(p.stuck)))
	case denied > 0:
		s = append(s, "the denied kept out by your list, all others let in")
	default:
		s = append(s, "and then let in")
	}
	return strings.Join(s, ", ")
}

// counted lists counts by word, the largest first.
func counted(m map[string]int64) string {
	words := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return int(max(min(m[b]-m[a], 1), -1))
		}
		return strings.Compare(a, b)
	})
	for i, word := range words {
		words[i] = fmt.Sprintf("%s %s", word, thousands(m[word]))
	}
	return strings.Join(words, ", ")
}

// table writes rows of a name, a number, a share and a remark.
type table struct{ *bufio.Writer }

func (w *table) head(name string, n int64) { fmt.Fprintf(w, "\n%-24s %11s\n", name, thousands(n)) }

func (w *table) row(name string, n, of int64, remark string) {
	line := fmt.Sprintf("  %-22s %11s %7s", name, thousands(n), share(n, of))
	if remark != "" && n > 0 {
		line += "   " + remark
	}
	fmt.Fprintln(w, line)
}

func (w *table) note(format string, args ...any) { fmt.Fprintf(w, "  "+format+"\n", args...) }

func writeList[T any](w *table, title string, rows []T, of func(T) (string, int64, int64)) {
	if len(rows) == 0 {
		return
	}
	const wide = 36
	fmt.Fprintf(w, "\n%-*s %11s %11s\n", wide+2, title, "attempts", "asked")
	for _, r := range rows {
		name, attempts, asked := of(r)
		fmt.Fprintf(w, "  %-*s %11s %11s\n", wide, printable(name, wide), thousands(attempts), thousands(asked))
	}
}

// printable is a name that cannot harm a terminal: attackers chose it.
func printable(s string, wide int) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) || s != strings.ToValidUTF8(s, "?") {
		s = strconv.Quote(s)
	}
	if r := []rune(s); len(r) > wide {
		s = string(r[:wide-3]) + "..."
	}
	return s
}

func share(n, of int64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural64(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// span is a duration in the unit that says it best.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return plural64(int64(d/(24*time.Hour)), "day")
	case d >= 2*time.Hour:
		return plural64(int64(d/time.Hour), "hour")
	case d >= 2*time.Minute:
		return plural64(int64(d/time.Minute), "minute")
	}
	return plural64(int64(d/time.Second), "second")
}
