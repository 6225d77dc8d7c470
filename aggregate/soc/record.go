package soc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/aggregate"
)

// Change is what has become of a finding.
type Change uint8

// The changes.
const (
	Opened  Change = iota + 1 // told for the first time
	Updated                   // it grew, or something was done about it
	Closed                    // it is over
	Once                      // it is of a moment: nothing will follow
)

// String is its name.
func (c Change) String() string {
	return [...]string{"", "opened", "updated", "closed", "once"}[c]
}

// Record is one thing to tell: a change of a finding, or an attempt or outcome
// (then Finding is nil). It is not changed once it is made.
type Record struct {
	// ID is unique, 32 hex digits; whoever is told again is told the same.
	ID       string
	Time     time.Time // of the last sign of it, UTC
	Realm    string    // "" is all of them
	Severity Severity

	Change  Change
	Finding *aggregate.Finding
	Event   *aggregate.Event
	// Names are account names by their keyed hash, of realms that want them told.
	Names map[string]string
}

// OfFinding is the record of a finding. Its ID is of what matters of it: of
// the same change there is one ID, whoever tells of it.
func OfFinding(f *aggregate.Finding, c Change) *Record {
	return &Record{ID: idOf("finding", f.Realm, f.ID, digest(f)), Time: last(f), Realm: f.Realm, Severity: severityOf(f), Change: c, Finding: f}
}

// OfEvent is the record of an attempt or an outcome.
func OfEvent(e *aggregate.Event) *Record {
	return &Record{ID: idOf("event", e.Realm, e.ID), Time: e.Time.UTC(), Realm: e.Realm, Severity: severityOfEvent(e), Event: e}
}

func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func last(f *aggregate.Finding) time.Time {
	switch {
	case !f.End.IsZero():
		return f.End.UTC()
	case !f.Last.IsZero():
		return f.Last.UTC()
	}
	return f.Start.UTC()
}

// digest is what of a finding is worth another record when it changes: its state,
// the posture that it led to, what was done and what most of it has in common, and
// by what power of ten it has grown. Each guess changes the rest.
func digest(f *aggregate.Finding) string {
	b := append([]byte(f.State), ' ')
	b = append(append(b, f.Posture...), ' ')
	b = strconv.AppendInt(b, int64(len(f.Done)), 10)
	for _, n := range []int{f.Guesses, f.Accounts, f.Sources} {
		b = append(strconv.AppendInt(append(b, ' '), int64(powers(n)), 10), ' ')
	}
	for _, g := range f.Groups {
		b = append(append(append(b, g.Kind...), '='), g.Key...)
		b = append(b, ' ')
	}
	return string(b)
}

// powers is how many times ten goes in n.
func powers(n int) (p int) {
	for ; n >= 10; n /= 10 {
		p++
	}
	return p
}

// severityOf is its kind's, raised to what the posture says that it led to, and a
// step less while too little was known of the realm to do anything about it.
func severityOf(f *aggregate.Finding) Severity {
	s := kindOf(f.What).severity
	switch f.Posture {
	case "elevated":
		s = max(s, Medium)
	case "high":
		s = max(s, High)
	case "critical":
		s = max(s, Critical)
	}
	if f.Learning {
		s = s.less(1)
	}
	return s
}

// severityOfEvent is that of one login among many: what it needed, and no more.
func severityOfEvent(e *aggregate.Event) Severity {
	switch {
	case e.Kind == aggregate.KindOutcome && (e.Outcome == "failure" || e.Outcome == "unknown_account"):
		return Low
	case e.Kind == aggregate.KindOutcome:
		return Informational
	}
	switch answered(e) {
	case "delay", "captcha":
		return Low
	case "verify", "deny":
		return Medium
	}
	return Informational
}

// answered is what an attempt was answered, without shadow mode.
func answered(e *aggregate.Event) string {
	if e.Shadow && e.Would != "" {
		return e.Would
	}
	return e.Action
}

// refused: the attempt was not let through.
func refused(e *aggregate.Event) bool { return e.Kind == aggregate.KindAttempt && e.Action != "allow" }

// signature names the kind of record: of a finding what it is.
func (r *Record) signature() string {
	switch {
	case r.Finding != nil:
		return r.Finding.What
	case r.Event.Kind == aggregate.KindOutcome:
		return "outcome_" + r.Event.Outcome
	}
	return "attempt_" + answered(r.Event)
}

// Title says what it is, in a few words.
func (r *Record) Title() string {
	switch {
	case r.Finding != nil:
		return kindOf(r.Finding.What).title
	case r.Event.Kind == aggregate.KindOutcome:
		return "A login was reported: " + r.Event.Outcome
	}
	return "A login was answered: " + answered(r.Event)
}

// Message says it to whoever reads one line.
func (r *Record) Message() string {
	if f := r.Finding; f != nil {
		s := r.Title()
		if f.By != "" {
			s += ": " + f.Action + " by " + f.By
		}
		if f.Was != "" || f.Is != "" {
			s += ", from " + quoted(f.Was) + " to " + quoted(f.Is)
		}
		switch r.Change {
		case Updated:
			s += ", goes on"
		case Closed:
			s += ", is over"
		}
		if f.Reason != "" {
			s += ": " + f.Reason
		}
		if f.Learning {
			s += " (nothing is done: too little is known of the realm yet)"
		} else if f.DryRun {
			s += " (dry run: nothing is done)"
		}
		return s
	}
	e := r.Event
	s := r.Title()
	if len(e.Reasons) > 0 {
		s += " (" + strings.Join(e.Reasons, ", ") + ")"
	}
	if e.Shadow && e.Would != e.Action {
		s += ", but let through: shadow mode"
	}
	return s
}

func quoted(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// name is how an account is shown: by its name where the realm wants it told,
// else by its hash.
func (r *Record) name(hash string) string {
	if n := r.Names[hash]; n != "" {
		return n
	}
	return hash
}

// accounts are the hashes of the accounts that it is about.
func (r *Record) accounts() []string {
	if r.Finding != nil {
		return r.Finding.Samples
	}
	if r.Event.Account == "" {
		return nil
	}
	return []string{r.Event.Account}
}

// sources are the addresses and networks that it is about. An address that is
// alone in its network is one; of IPv6, where people have a /64, that /64.
func (r *Record) sources() (ips []netip.Addr, nets []netip.Prefix) {
	if r.Finding == nil {
		if a, err := netip.ParseAddr(r.Event.IP); err == nil {
			ips = append(ips, a)
		}
		return ips, nil
	}
	for _, g := range r.Finding.Groups {
		if g.Kind != "source" && g.Kind != "network" {
			continue
		}
		if p, err := netip.ParsePrefix(g.Key); err == nil && p.IsSingleIP() {
			ips = append(ips, p.Addr())
		} else if err == nil {
			nets = append(nets, p)
		} else if a, err := netip.ParseAddr(g.Key); err == nil {
			ips = append(ips, a)
		}
	}
	return ips, nets
}

// DecodeFinding reads a message of the topic of findings. The error is
// aggregate.ErrPoison.
func DecodeFinding(b []byte) (*aggregate.Finding, error) {
	f := &aggregate.Finding{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%w: %w", aggregate.ErrPoison, err)
	}
	switch {
	case f.V < 1 || f.V > aggregate.FindingVersion:
		return nil, fmt.Errorf("%w: v is %d, and this reader knows up to %d", aggregate.ErrPoison, f.V, aggregate.FindingVersion)
	case f.ID == "" || f.What == "" || f.Start.IsZero():
		return nil, fmt.Errorf("%w: id, what and start are needed", aggregate.ErrPoison)
	case f.State != aggregate.FindingOpen && f.State != aggregate.FindingClosed && f.State != aggregate.FindingOnce:
		return nil, fmt.Errorf("%w: state is %.20q", aggregate.ErrPoison, f.State)
	}
	return f, nil
}
