package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

const clearUsage = `clear WHO --reason WHY [flags]

Gives back what was spent: the counters of WHO are full again on every instance
within a second. Revocations, used proofs and codes stay as they are.

  guardd clear --account alice@example.com --reason "ticket 4711"
  guardd clear --ip 203.0.113.7 --reason "an office behind one address" --dry-run`

func (o *operator) clear(args []string) error {
	o.ofRealm()
	who, c := o.who(), o.changing()
	if err := o.parse(args); err != nil {
		return err
	}
	if err := who.ready(o); err != nil {
		return err
	}
	if err := c.ready(o); err != nil {
		return err
	}
	var a operate.Cleared
	show, err := o.ask(http.MethodPost, api.RouteClear, nil, struct {
		*whom
		*change
	}{who, c}, &a)
	if !show {
		return err
	}
	if a.Counters == 0 {
		return o.say(a.DryRun, a.Seq, "nothing was spent: nothing changes")
	}
	return o.say(a.DryRun, a.Seq, "%s cleared: %s", plural(a.Counters, "counter"), targetText(&a.Target))
}

// say tells of a change. seq is its number in the audit.
func (o *operator) say(dry bool, seq int64, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if dry {
		text = "would be: " + text
	} else if seq > 0 {
		text += fmt.Sprintf(" (audit %d)", seq)
	}
	_, err := fmt.Fprintln(o.out, text)
	return err
}

// targetText is whom a change is about.
func targetText(t *escalation.Target) string {
	var parts []string
	if t.Account != "" {
		parts = append(parts, "account "+t.Account)
	}
	if t.IP != "" {
		parts = append(parts, t.IP)
	}
	if t.Network != "" {
		parts = append(parts, t.Network)
	}
	for _, d := range t.Devices {
		parts = append(parts, "device "+d.Hash)
	}
	if n := len(t.At); n > 0 {
		parts = append(parts, fmt.Sprintf("with its counters at the %d addresses of late", n))
	}
	return strings.Join(parts, ", ")
}

const listUsage = `list allow|deny [add|remove CIDR...] [flags]

Shows, or changes, the networks that are let past the counters of addresses
(allow) or refused (deny). The most specific entry wins, deny on a tie. A CIDR of
- reads them from standard input, one a line.

  guardd list deny
  guardd list deny add 203.0.113.0/24 --for 24h --reason "a scan"
  guardd list allow remove 198.51.100.7 --reason "moved"
  guardd list deny add - --reason "a feed" < networks.txt`

func (o *operator) list(args []string) error {
	o.ofRealm()
	c := o.changing()
	force := o.flags.Bool("force", false, "add: a network that holds nearly everybody is meant")
	lasts := o.flags.Duration("for", 0, "add: `time` that the entry lasts, as 24h; none: it stays")
	until := o.flags.String("until", "", "add: `time` when the entry ends, as 2030-01-31T12:00:00Z")
	if err := o.parse(args); err != nil {
		return err
	}
	if len(o.rest) == 0 {
		return usagef("which list: allow or deny?")
	}
	if !slices.Contains([]string{"allow", "deny"}, o.rest[0]) {
		return usagef("which list: allow or deny, not %q", o.rest[0])
	}
	path := strings.Replace(api.RouteLists, "{list}", url.PathEscape(o.rest[0]), 1)
	if len(o.rest) == 1 {
		return o.showList(path)
	}
	verb, networks := o.rest[1], o.rest[2:]
	if !slices.Contains([]string{"add", "remove"}, verb) {
		return usagef("add or remove, not %q", verb)
	}
	if len(networks) == 0 {
		return usagef("%s what? CIDR is missing", verb)
	}
	if err := c.ready(o); err != nil {
		return err
	}
	networks, err := o.networks(networks)
	if err != nil {
		return err
	}
	body := struct {
		*change
		CIDRs     []string   `json:"cidrs"`
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
		Force     bool       `json:"force,omitempty"`
	}{c, networks, nil, *force}
	method := http.MethodPut
	if verb == "remove" {
		method = http.MethodDelete
	}
	if body.ExpiresAt, err = ending(*lasts, *until, time.Now()); err != nil {
		return err
	}
	if method == http.MethodDelete && (*force || body.ExpiresAt != nil) {
		return usagef("--force, --for and --until mean nothing to remove")
	}
	var a operate.Listed
	if show, err := o.ask(method, path, nil, body, &a); !show {
		return err
	}
	if !a.Changed {
		return o.say(a.DryRun, a.Seq, "it is so already: %s on the list", entries(a.Entries))
	}
	return o.say(a.DryRun, a.Seq, "%s on the list now", entries(a.Entries))
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// ending is when an entry ends; nil: never.
func ending(lasts time.Duration, until string, now time.Time) (*time.Time, error) {
	switch {
	case lasts != 0 && until != "":
		return nil, usagef("--for or --until, not both")
	case lasts < 0:
		return nil, usagef("--for: must be more than nothing, not %s", lasts)
	case lasts > 0:
		at := now.Add(lasts).UTC().Truncate(time.Second)
		return &at, nil
	case until != "":
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return nil, usagef("--until: must be like 2030-01-31T12:00:00Z, not %q", until)
		}
		return &at, nil
	}
	return nil, nil
}

// networks reads - from standard input.
func (o *operator) networks(given []string) (all []string, err error) {
	for _, n := range given {
		if n != "-" {
			all = append(all, n)
			continue
		}
		lines := bufio.NewScanner(o.stdin)
		for lines.Scan() {
			line, _, _ := strings.Cut(lines.Text(), "#")
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, line)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		if len(all) == 0 {
			return nil, usagef("standard input has no networks")
		}
	}
	return all, nil
}

func (o *operator) realmQuery() url.Values {
	q := url.Values{}
	if o.realm != "" {
		q.Set("realm", o.realm)
	}
	return q
}

func (o *operator) showList(path string) error {
	var a operate.List
	if show, err := o.ask(http.MethodGet, path, o.realmQuery(), nil, &a); !show {
		return err
	}
	all := append(slices.Clone(a.Policy), a.Entries...)
	if len(all) == 0 {
		_, err := fmt.Fprintf(o.out, "nothing is on the list %s of realm %s\n", a.List, a.Realm)
		return err
	}
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "network\tuntil\tby\tsince\treason")
	for _, e := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.CIDR, timeText(e.ExpiresAt), e.By, timeText(e.At), printable(e.Reason, 60))
	}
	return w.Flush()
}

// timeText is a time for people; - for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

const postureUsage = `posture [pin POSTURE --for TIME | release] [--reason WHY] [flags]

Shows a realm's posture, sets it for some time whatever is found meanwhile, or
ends that. POSTURE is normal, elevated, high or critical.

  guardd posture
  guardd posture pin high --for 2h --reason "a leak is in the news"
  guardd posture release --reason "over"`

func (o *operator) posture(args []string) error {
	o.ofRealm()
	c := o.changing()
	lasts := o.flags.Duration("for", 0, "pin: `time` that it lasts, as 90m or 24h, at most 720h")
	if err := o.parse(args); err != nil {
		return err
	}
	body := struct {
		*change
		Posture   string `json:"posture,omitempty"`
		ExpiresIn string `json:"expires_in,omitempty"`
	}{c, "", ""}
	method, query := http.MethodGet, o.realmQuery()
	switch words := strings.Join(o.rest, " "); {
	case len(o.rest) == 2 && o.rest[0] == "pin":
		if _, err := keys.ParsePosture(o.rest[1]); err != nil {
			return usagef("pin: %v", err)
		}
		if *lasts <= 0 {
			return usagef("--for: how long the pin lasts must be said, as 90m or 24h, at most 720h")
		}
		method, body.Posture, body.ExpiresIn = http.MethodPut, o.rest[1], lasts.String()
	case words == "pin":
		return usagef("pin which posture? normal, elevated, high or critical")
	case *lasts != 0:
		return usagef("--for: means something with pin POSTURE only")
	case words == "release":
		method = http.MethodDelete
	case words != "":
		return usagef("there are pin POSTURE and release, not %q", words)
	}
	var a operate.Posture
	var send any
	if method != http.MethodGet {
		if err := c.ready(o); err != nil {
			return err
		}
		send, query = body, nil
	}
	if show, err := o.ask(method, api.RoutePosture, query, send, &a); !show {
		return err
	}
	text := postureText(&a.PostureNow)
	switch {
	case method == http.MethodGet:
		_, err := fmt.Fprintln(o.out, text)
		return err
	case !a.Changed:
		return o.say(a.DryRun, a.Seq, "it is so already: %s", text)
	}
	return o.say(a.DryRun, a.Seq, "%s", text)
}

// postureText is a realm's posture, for people.
func postureText(p *escalation.PostureNow) string {
	text := p.Posture
	if p.Pin != "" {
		text += ", pinned until " + timeText(p.PinUntil)
	}
	if p.Aggregator != "" {
		text += fmt.Sprintf(" (found: %s, until %s unless confirmed)", p.Aggregator, timeText(p.Until))
	}
	return text
}

const reloadUsage = `reload --reason WHY [flags]

Has every instance read its configuration again: policy and plan limits are swapped
whole. What is wrong is refused, and the old stays.`

func (o *operator) reload(args []string) error {
	c := o.changing()
	if err := o.parse(args); err != nil {
		return err
	}
	if len(o.rest) > 0 {
		return usagef("takes flags only, not %q", o.rest[0])
	}
	if err := c.ready(o); err != nil {
		return err
	}
	var a operate.Reloaded
	if show, err := o.ask(http.MethodPost, api.RouteReload, nil, c, &a); !show {
		return err
	}
	return o.say(a.DryRun, a.Seq, "reloaded; the other instances are within a second, each from its own files")
}

const auditUsage = `audit [flags]

Shows what operators did, newest first.`

func (o *operator) audit(args []string) error {
	o.ofRealm()
	limit := o.flags.Int("limit", 50, "`number` of entries, at most 1000")
	before := o.flags.Int64("before", 0, "only entries with a smaller `number`; 0: all")
	if err := o.parse(args); err != nil {
		return err
	}
	if len(o.rest) > 0 {
		return usagef("takes flags only, not %q", o.rest[0])
	}
	q := o.realmQuery()
	q.Set("limit", strconv.Itoa(*limit))
	q.Set("before", strconv.FormatInt(*before, 10))
	var a struct{ Entries []operate.Record }
	if show, err := o.ask(http.MethodGet, api.RouteAudit, q, nil, &a); !show {
		return err
	}
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "number\twhen\twho\twhat\trealm\tchange\treason")
	for _, r := range a.Entries {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Seq, timeText(r.At), printable(r.By, 30), r.Action, r.Realm, recordText(&r), printable(r.Reason, 60))
	}
	return w.Flush()
}

// recordText is what a record changed.
func recordText(r *operate.Record) string {
	var parts []string
	if r.Target != nil {
		parts = append(parts, targetText(r.Target))
	}
	if n := r.Networks; n > 0 {
		what := r.List + " " + r.CIDRs[0]
		if n > 1 {
			what += fmt.Sprintf(" and %d more", n-1)
		}
		parts = append(parts, what)
	}
	switch {
	case r.Was != "":
		parts = append(parts, r.Was+" -> "+r.Is)
	case r.Is != "":
		parts = append(parts, r.Is)
	}
	if !r.Changed {
		parts = append(parts, "(was so already)")
	}
	return strings.Join(parts, ", ")
}
