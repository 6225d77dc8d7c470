package soc

import (
	"time"

	"github.com/guardd/guardd/aggregate"
)

// ecsVersion is of the schema that every record is checked against by the tests.
const ecsVersion = "9.4.0"

// ecsRecord is a document of the Elastic Common Schema. What it has no field for
// is under guardd, a namespace of its own.
type ecsRecord struct {
	Timestamp time.Time    `json:"@timestamp"`
	Message   string       `json:"message"`
	ECS       ecsVersioned `json:"ecs"`
	Event     ecsEvent     `json:"event"`
	Observer  ecsObserver  `json:"observer"`
	Service   *ecsService  `json:"service,omitzero"`
	Labels    *ecsLabels   `json:"labels,omitzero"`
	Source    *ecsSource   `json:"source,omitzero"`
	User      *ecsUser     `json:"user,omitzero"`
	Related   *ecsRelated  `json:"related,omitzero"`
	Rule      *ecsRule     `json:"rule,omitzero"`
	Threat    *ecsThreat   `json:"threat,omitzero"`
	Guardd    *ownRecord   `json:"guardd"`
}

type ecsVersioned struct {
	Version string `json:"version"`
}

type ecsEvent struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	Category []string  `json:"category"`
	Type     []string  `json:"type"`
	Outcome  string    `json:"outcome,omitzero"`
	Action   string    `json:"action"`
	Reason   string    `json:"reason,omitzero"`
	Dataset  string    `json:"dataset"`
	Module   string    `json:"module"`
	Provider string    `json:"provider"`
	Severity Severity  `json:"severity"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
}

type ecsObserver struct {
	Vendor   string `json:"vendor"`
	Product  string `json:"product"`
	Type     string `json:"type"`
	Version  string `json:"version,omitzero"`
	Hostname string `json:"hostname,omitzero"`
}

type ecsService struct {
	Name string `json:"name"`
}

type ecsLabels struct {
	Realm string `json:"realm"`
	Flow  string `json:"flow,omitzero"`
}

type ecsSource struct {
	IP string `json:"ip"`
}

type ecsUser struct {
	Hash string `json:"hash,omitzero"`
	Name string `json:"name,omitzero"` // only where the realm wants names told
}

type ecsRelated struct {
	IP   []string `json:"ip,omitempty"`
	User []string `json:"user,omitempty"`
	Hash []string `json:"hash,omitempty"`
}

type ecsRule struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Category string `json:"category"`
}

type ecsThreat struct {
	Framework string       `json:"framework"`
	Tactic    ecsTechnique `json:"tactic"`
	Technique ecsTechnique `json:"technique"`
}

type ecsTechnique struct {
	ID   []string      `json:"id"`
	Name []string      `json:"name"`
	Sub  *ecsTechnique `json:"subtechnique,omitzero"`
}

func ecs(r *Record, p Producer) *ecsRecord {
	d := &ecsRecord{
		Timestamp: r.Time, Message: r.Message(), ECS: ecsVersioned{ecsVersion},
		Event:    ecsEvent{ID: r.ID, Action: r.signature(), Module: "guardd", Provider: "guardd", Severity: r.Severity},
		Observer: ecsObserver{Vendor: "guardd", Product: "guardd", Type: "authentication-guard", Version: p.Version, Hostname: p.Host},
		Guardd:   own(r),
	}
	if r.Realm != "" {
		d.Service, d.Labels = &ecsService{r.Realm}, &ecsLabels{Realm: r.Realm}
		if r.Event != nil {
			d.Labels.Flow = r.Event.Flow
		}
	}
	d.relate(r)
	if r.Finding != nil {
		d.finding(r)
	} else {
		d.decision(r.Event)
	}
	return d
}

// relate fills in addresses and accounts. The one that there is, is the source's
// or the user's, too.
func (d *ecsRecord) relate(r *Record) {
	rel := &ecsRelated{}
	ips, _ := r.sources()
	for _, a := range ips {
		rel.IP = append(rel.IP, plain(a))
	}
	for _, a := range r.accounts() {
		rel.Hash = append(rel.Hash, a)
		rel.User = append(rel.User, r.name(a))
	}
	if len(rel.IP) == 1 {
		d.Source = &ecsSource{rel.IP[0]}
	}
	if len(rel.Hash) == 1 {
		d.User = &ecsUser{Hash: rel.Hash[0], Name: r.Names[rel.Hash[0]]}
	}
	if len(rel.IP)+len(rel.User) > 0 {
		d.Related = rel
	}
}

func (d *ecsRecord) finding(r *Record) {
	f, k := r.Finding, kindOf(r.Finding.What)
	e := &d.Event
	e.Kind, e.Dataset, e.Reason, e.Start = "alert", "guardd.finding", f.Reason, f.Start.UTC()
	e.Category, e.Type = []string{"intrusion_detection"}, []string{"info"}
	if k.configuration {
		e.Kind, e.Category, e.Type = "event", []string{"configuration"}, []string{"change"}
	}
	if r.Change == Closed {
		e.End = r.Time
	}
	d.Rule = &ecsRule{ID: f.What, Name: k.title, Category: k.analytic.caption()}
	if k.attack[0] == "" {
		return
	}
	t := &ecsThreat{Framework: "MITRE ATT&CK", Tactic: technique(k.tactic), Technique: technique(k.attack)}
	if k.sub[0] != "" {
		sub := technique(k.sub)
		t.Technique.Sub = &sub
	}
	d.Threat = t
}

func technique(v [2]string) ecsTechnique { return ecsTechnique{ID: v[:1], Name: v[1:]} }

// decision: an attempt begins a login and its outcome ends it. A refused one was
// also denied.
func (d *ecsRecord) decision(v *aggregate.Event) {
	e := &d.Event
	e.Kind, e.Dataset, e.Outcome = "event", "guardd.decision", "unknown"
	e.Category, e.Type = []string{"authentication"}, []string{"start"}
	switch {
	case v.Kind == aggregate.KindOutcome:
		e.Type = []string{"end"}
		if v.Duplicate || v.Expired {
			break
		}
		switch ocsfOutcome[v.Outcome].status {
		case 1:
			e.Outcome = "success"
		case 2:
			e.Outcome, e.Reason = "failure", v.Outcome
		}
	case refused(v):
		e.Category, e.Type = append(e.Category, "intrusion_detection"), append(e.Type, "denied")
		e.Outcome = "failure"
		if len(v.Reasons) > 0 {
			e.Reason = v.Reasons[0]
		}
	}
}
