package aggregate

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
)

// Finding is a campaign as it was at a moment: one message of TopicFindings when
// it is opened, each time that something changed (at most once in FindingEvery),
// and when it is closed; or something of a moment (Moments), which is told once.
// Names and passwords are in it as hashes only.
// docs/findings.md describes every field; a test holds the two equal.
type Finding struct {
	V     int       `json:"v"`
	ID    string    `json:"id"`    // of the campaign, within its realm
	Realm string    `json:"realm"` // "" is all, of an operator's action
	What  string    `json:"what"`
	State string    `json:"state"` // FindingOpen, FindingClosed or FindingOnce
	Start time.Time `json:"start"`
	Last  time.Time `json:"last"`
	End   time.Time `json:"end,omitzero"`

	Posture  string  `json:"posture,omitzero"` // the highest that it led to
	Reason   string  `json:"reason,omitzero"`
	Guesses  int     `json:"guesses"`
	Peak     float64 `json:"peak_per_minute,omitzero"`
	Accounts int     `json:"accounts,omitzero"`
	Sources  int     `json:"sources,omitzero"`

	Groups  []FindingGroup `json:"groups,omitempty"`
	Samples []string       `json:"samples,omitempty"`
	// Names are the sealed names of Samples, by hash, as far as they are known; only of
	// realms that have names told.
	Names map[string]string `json:"names,omitempty"`
	Done  []FindingAction   `json:"done,omitempty"`

	// Of an operator's action: the name of the key, and one of operate.Actions.
	By     string `json:"by,omitzero"`
	Action string `json:"action,omitzero"`
	// Of an operator's action and of a change of posture: what was before, and what
	// is now. Who was cleared or listed is in Samples and Groups.
	Was string `json:"was,omitzero"`
	Is  string `json:"is,omitzero"`

	// Learning: too little was known of the realm to do anything.
	Learning bool `json:"learning,omitzero"`
	// DryRun: what is in Done was not done.
	DryRun bool `json:"dry_run,omitzero"`
}

// FindingGroup is what most of a campaign has in common.
type FindingGroup struct {
	Kind      string  `json:"kind"`
	Key       string  `json:"key"`
	PerMinute float64 `json:"per_minute,omitzero"`
}

// FindingAction is what was done about a campaign.
type FindingAction struct {
	Time time.Time `json:"time"`
	What string    `json:"what"`
}

// FindingVersion is the form of a Finding.
const FindingVersion = 1

// The states of a Finding. Only a campaign is open or closed.
const (
	FindingOpen   = "open"
	FindingClosed = "closed"
	FindingOnce   = "once" // of a moment: nothing more will be told under its id
)

// What a Finding of a moment can be, beside the campaigns of detect.Kinds.
const (
	OperatorAction = "operator_action" // an operator changed something, or tried to
	PostureChange  = "posture_change"  // another posture is in force
	QuotaReached   = "quota_reached"   // a key has used so much of a quota
	TokenForgery   = "token_forgery"   // somebody shows sealed tokens that are not his
)

// Moments lists all of them, for metrics and documents.
var Moments = []string{OperatorAction, PostureChange, QuotaReached, TokenForgery}

// findingOf is what c is to its readers.
func findingOf(realm string, c *detect.Campaign) Finding {
	f := Finding{V: FindingVersion, ID: c.ID, Realm: realm, What: c.What, State: FindingOpen, Start: micro(c.Start), Last: micro(c.Last),
		Reason: c.Reason, Guesses: c.Guesses, Peak: c.Peak, Accounts: c.Accounts, Sources: c.Sources, Samples: c.Sample}
	if c.End != 0 {
		f.State, f.End = FindingClosed, micro(c.End)
	}
	if c.Level > detect.Calm {
		f.Posture = c.Level.String()
	}
	for _, g := range c.Groups {
		f.Groups = append(f.Groups, FindingGroup{string(g.Kind), groupKey(g), g.Minute})
	}
	for _, a := range c.Done {
		f.Done = append(f.Done, FindingAction{micro(a.At), a.What})
	}
	return f
}

func groupKey(g detect.Group) string {
	switch {
	case g.Prefix.IsValid():
		return g.Prefix.String()
	case g.Kind == detect.GroupUA && len(g.Key) > 0:
		for i, c := range escalation.UAClasses {
			if g.Key == strconv.Itoa(i) {
				return c
			}
		}
	}
	return g.Key
}

// AppendTo appends f as JSON.
func (f *Finding) AppendTo(b []byte) ([]byte, error) {
	out, err := json.Marshal(f)
	return append(b, out...), err
}

func micro(at int64) time.Time { return time.UnixMicro(at).UTC() }
