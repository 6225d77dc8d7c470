package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
)

// whom an operator asks about or clears.
type whom struct {
	Account     string `json:"account,omitempty"`
	AccountHash string `json:"account_hash,omitempty"`
	IP          string `json:"ip,omitempty"`
	Network     string `json:"network,omitempty"`
	Device      string `json:"device,omitempty"`
	DeviceHash  string `json:"device_hash,omitempty"`
	Decision    string `json:"decision,omitempty"`
}

// who adds the flags for them.
func (o *operator) who() *whom {
	w := &whom{}
	o.flags.StringVar(&w.Account, "account", "", "`name` as typed at the login; -: from standard input, so that no shell keeps it")
	o.flags.StringVar(&w.AccountHash, "account-hash", "", "`hash` that guardd shows in place of the name")
	o.flags.StringVar(&w.IP, "ip", "", "`address`")
	o.flags.StringVar(&w.Network, "network", "", "IPv4 /24 or IPv6 /48, or an `address` in it")
	o.flags.StringVar(&w.Device, "device", "", "device `token`, as a browser carries it; -: from standard input")
	o.flags.StringVar(&w.DeviceHash, "device-hash", "", "`hash` that guardd shows in its place; with its account")
	o.flags.StringVar(&w.Decision, "decision", "", "`id` of an event, or hash of an attempt")
	return w
}

// ready takes over what is no flag, and reads what is to be read.
func (w *whom) ready(o *operator) error {
	for _, text := range o.rest {
		into := w.meant(text)
		if *into != "" {
			return usagef("%q and %q: one of them", *into, text)
		}
		*into = text
	}
	for _, secret := range []*string{&w.Account, &w.Device} {
		if *secret == "-" {
			line, err := bufio.NewReader(o.stdin).ReadString('\n')
			if err != nil && err != io.EOF {
				return fmt.Errorf("standard input: %w", err)
			}
			if *secret = strings.TrimRight(line, "\r\n"); *secret == "" {
				return usagef("standard input is empty")
			}
		}
	}
	if *w == (whom{}) {
		return usagef("about whom? --account, --ip, --network, --device or --decision")
	}
	return nil
}

// meant is what a WHO without a flag is: an address, a network, else an account.
func (w *whom) meant(text string) *string {
	if _, err := netip.ParseAddr(text); err == nil {
		return &w.IP
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return &w.Network
	}
	return &w.Account
}

const explainUsage = `explain WHO [flags]

Says what an attempt of WHO would be answered now and was answered of late, why,
and what would change it. WHO is an account's name, an address or a network, or
said by a flag; an account and an address are one visitor.

  guardd explain alice@example.com
  guardd explain alice@example.com 203.0.113.7
  guardd explain --decision 0f3c5a7b9d1e2f46-4711`

func (o *operator) explain(args []string) error {
	o.ofRealm()
	who := o.who()
	flow := o.flags.String("flow", "", "`flow`; none: login, or that of the decision")
	if err := o.parse(args); err != nil {
		return err
	}
	if err := who.ready(o); err != nil {
		return err
	}
	var a operate.Explained
	show, err := o.ask(http.MethodPost, api.RouteExplain, nil, struct {
		*whom
		Realm string `json:"realm,omitempty"`
		Flow  string `json:"flow,omitempty"`
	}{who, o.realm, *flow}, &a)
	if !show {
		return err
	}
	return printExplained(o.out, &a)
}

// printExplained is an explanation for people: the answer first, then why, then
// what would change it, then what it rests on.
func printExplained(out io.Writer, a *operate.Explained) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\n", answerText(a))
	fmt.Fprintf(w, "%s, flow %s, realm %s, %s\n", subjectText(a), a.Flow, a.Realm, timeText(a.Now))
	if d := a.Decision; d != nil {
		fmt.Fprintf(w, "\nThen, %s: %s\n", timeText(d.Time), decisionText(d))
		limitsThen(w, d)
	}
	if len(a.Changes) > 0 {
		fmt.Fprintf(w, "\nWhat would bring allow now:\n")
		for i := range a.Changes {
			fmt.Fprintf(w, "  %s\n", changeText(a, &a.Changes[i]))
		}
	}
	fmt.Fprintf(w, "\nNow:\n")
	facts(w, a)
	limitsNow(w, a.Limits)
	if len(a.Recent) > 0 {
		fmt.Fprintf(w, "\nOf late:\n")
		recentRows(w, a.Recent)
	} else if !a.Kept {
		fmt.Fprintf(w, "\nNothing is known of what was decided of late.\n")
	}
	return w.Flush()
}

func answerText(a *operate.Explained) string {
	text := "An attempt now would be allowed"
	if a.Action != escalation.ActionAllow {
		text = fmt.Sprintf("An attempt now would be answered %s", a.Action)
	}
	if len(a.Reasons) > 0 {
		text += ", because of " + strings.Join(a.Reasons, ", ")
	}
	switch {
	case a.Shadow && a.Action != escalation.ActionAllow:
		text += "; but nothing is enforced (shadow)"
	case a.Degraded:
		text += "; as this instance alone knows, for the store cannot be reached"
	}
	return text + "."
}

func subjectText(a *operate.Explained) string {
	var parts []string
	if a.Account != "" {
		parts = append(parts, "account "+a.Account)
	}
	switch {
	case a.IP != "":
		parts = append(parts, a.IP+" in "+a.Network)
	case a.Network != "":
		parts = append(parts, a.Network)
	}
	if a.Device != "" {
		parts = append(parts, "device "+a.Device)
	}
	return strings.Join(parts, ", ")
}

// decisionText is a decision, or an outcome, on one line.
func decisionText(d *operate.Decision) string {
	text := "outcome " + d.Outcome
	if d.Outcome == "" {
		text = d.Action
		if d.Would != d.Action {
			text += " (shadow; else " + d.Would + ")"
		}
	}
	if len(d.Reasons) > 0 {
		text += " because of " + strings.Join(d.Reasons, ", ")
	}
	for _, mark := range []struct {
		holds bool
		text  string
	}{
		{d.Proof != "", "with a proof of " + d.Proof}, {d.ProofError != "", "proof " + d.ProofError},
		{d.KnownDevice, "known device"}, {d.Familiar, "familiar place"}, {d.Breached, "password known from a leak"}, {d.Repeat, "a password that had been wrong before"},
		{d.Posture != "" && d.Posture != "normal", "posture " + d.Posture}, {d.Degraded, "decided alone"},
		{d.Duplicate, "a repeat"}, {d.Expired, "too late"},
	} {
		if mark.holds {
			text += ", " + mark.text
		}
	}
	return text
}

func limitsThen(w io.Writer, d *operate.Decision) {
	if len(d.Limits) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  limit\tleft\tof\tasked for")
	for _, l := range d.Limits {
		fmt.Fprintf(t, "  %s %s\t%d\t%d\t%s\n", l.Tier, l.Limit, l.Left, l.Capacity, l.Rung)
	}
	t.Flush() // w keeps its errors
}

func limitsNow(w io.Writer, all []escalation.LimitNow) {
	if len(all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  limit\tleft\tof\trefill\tasks for\tfor nothing in\tfull in")
	for _, l := range all {
		rung := l.Rung
		if !l.Counted {
			rung = "(not counted here)"
		}
		fmt.Fprintf(t, "  %s %s\t%d\t%d\t%s\t%s\t%s\t%s\n", l.Tier, l.Limit, l.Left, l.Capacity, l.Refill, rung, waitText(l.FreeIn), waitText(l.FullIn))
	}
	t.Flush() // w keeps its errors
}

// waitText is a time to wait, in whole seconds, rounded up; - for none.
func waitText(ms escalation.Millis) string {
	if ms <= 0 {
		return "-"
	}
	return short((time.Duration(ms)*time.Millisecond + time.Second - 1).Truncate(time.Second))
}

// short is a duration without the units that are zero at its end: 1h, not 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// facts are what bears on an attempt beside its limits.
func facts(w io.Writer, a *operate.Explained) {
	fmt.Fprintf(w, "  posture %s\n", postureText(&a.Posture))
	if l := a.List; l != nil {
		fmt.Fprintf(w, "  %s is on the list %s%s, until %s: %s\n", l.CIDR, l.List, map[bool]string{true: " of the policy"}[l.Policy], timeText(l.ExpiresAt), printable(l.Reason, 60))
	}
	for _, s := range a.Suspect {
		fmt.Fprintf(w, "  %s is suspect until %s\n", s.Network, timeText(s.Until))
	}
	if a.Account != "" && a.IP != "" {
		fmt.Fprintf(w, "  %s\n", map[bool]string{true: "a familiar place of the account", false: "no familiar place of the account"}[a.Familiar])
	}
	if a.K > 1 {
		fmt.Fprintf(w, "  the address is shared: its limits are times %d\n", a.K)
	}
	if a.KWide > 1 {
		fmt.Fprintf(w, "  the /48 is shared: its limits are times %d\n", a.KWide)
	}
	if c := a.Code; c != nil {
		fmt.Fprintf(w, "  a code was sent %s and lives until %s (number %d in 24 hours)\n", timeText(c.Sent), timeText(c.Until), c.Nth)
	}
	if !a.RevokedAt.IsZero() {
		fmt.Fprintf(w, "  devices, places and proofs from before %s count for nothing\n", timeText(a.RevokedAt))
	}
}

// changeText is what would bring allow, as what to do.
func changeText(a *operate.Explained, c *escalation.Change) string {
	realm := ""
	if a.Realm != escalation.DefaultRealm {
		realm = " --realm " + a.Realm
	}
	switch c.Kind {
	case escalation.ChangeProof:
		return "the visitor passes one of: " + strings.Join(c.Ways, ", ")
	case escalation.ChangeWait:
		return waitText(c.After) + " pass, with no guess meanwhile"
	case escalation.ChangeDevice:
		return "the visitor comes with a known device of the account"
	case escalation.ChangePosture:
		return "guardd posture pin normal --for 1h" + realm + " --reason ..."
	case escalation.ChangeUnlist:
		return fmt.Sprintf("guardd list %s remove %s%s --reason ...", a.List.List, strings.Join(c.By, " "), realm)
	case escalation.ChangeClear:
		var all []string
		for _, by := range c.By {
			if by == "account" && slices.Contains(c.By, "account+ip") {
				continue // that clears it, too
			}
			all = append(all, "guardd clear "+clearing(a, by)+realm+" --reason ...")
		}
		return strings.Join(all, "; and ")
	}
	return c.Kind
}

// clearing is the flags that clear what a Change names.
func clearing(a *operate.Explained, by string) string {
	switch by {
	case "account":
		return "--account-hash " + a.Account
	case "account+ip":
		return "--account-hash " + a.Account + " --ip " + a.IP
	case "ip":
		return "--ip " + a.IP
	case "network":
		return "--network " + a.Network
	}
	return "--device ..."
}

func recentRows(w io.Writer, all []operate.Decision) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range all {
		d := &all[i]
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", timeText(d.Time), d.IP, d.Flow, decisionText(d), d.ID)
	}
	t.Flush() // w keeps its errors
}
