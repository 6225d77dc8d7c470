package soc

import (
	"net/netip"
	"time"

	"github.com/guardd/guardd/aggregate"
)

// ocsfVersion is of the schema that every record is checked against by the tests.
const ocsfVersion = "1.8.0"

// The classes that are used.
const (
	detectionFinding = 2004
	authentication   = 3002
)

// ocsfRecord is a Detection Finding (2004) or an Authentication (3002) with the
// profile security_control. Of the schema's attributes it has those that guardd
// has something to say about.
type ocsfRecord struct {
	ActivityID   int          `json:"activity_id"`
	Activity     string       `json:"activity_name"`
	CategoryUID  int          `json:"category_uid"`
	Category     string       `json:"category_name"`
	ClassUID     int          `json:"class_uid"`
	Class        string       `json:"class_name"`
	TypeUID      int          `json:"type_uid"`
	Type         string       `json:"type_name"`
	Time         int64        `json:"time"` // ms
	StartTime    int64        `json:"start_time,omitzero"`
	EndTime      int64        `json:"end_time,omitzero"`
	SeverityID   Severity     `json:"severity_id"`
	Severity     string       `json:"severity"`
	StatusID     int          `json:"status_id"`
	Status       string       `json:"status"`
	StatusDetail string       `json:"status_detail,omitzero"`
	Message      string       `json:"message"`
	Count        int          `json:"count,omitzero"`
	Metadata     ocsfMetadata `json:"metadata"`

	// Of decisions.
	ActionID      int           `json:"action_id,omitzero"`
	Action        string        `json:"action,omitzero"`
	DispositionID int           `json:"disposition_id,omitzero"`
	Disposition   string        `json:"disposition,omitzero"`
	IsAlert       bool          `json:"is_alert"`
	AuthProtoID   int           `json:"auth_protocol_id,omitzero"`
	AuthProto     string        `json:"auth_protocol,omitzero"`
	LogonTypeID   int           `json:"logon_type_id,omitzero"`
	LogonType     string        `json:"logon_type,omitzero"`
	IsRemote      bool          `json:"is_remote,omitzero"`
	User          *ocsfUser     `json:"user,omitzero"`
	Source        *ocsfEndpoint `json:"src_endpoint,omitzero"`
	Service       *ocsfNamed    `json:"service,omitzero"`
	Policy        *ocsfNamed    `json:"policy,omitzero"`

	// Of findings.
	Info         *ocsfFinding   `json:"finding_info,omitzero"`
	Evidences    []ocsfEvidence `json:"evidences,omitempty"`
	ConfidenceID int            `json:"confidence_id,omitzero"`
	Confidence   string         `json:"confidence,omitzero"`

	Observables []ocsfObservable `json:"observables,omitempty"`
	// Unmapped is what the schema has no attribute for, as the topic has it.
	Unmapped any `json:"unmapped,omitzero"`
}

type ocsfMetadata struct {
	Version     string      `json:"version"`
	Product     ocsfProduct `json:"product"`
	UID         string      `json:"uid"`
	Correlation string      `json:"correlation_uid,omitzero"`
	Profiles    []string    `json:"profiles,omitempty"`
	LogName     string      `json:"log_name"`
	TenantUID   string      `json:"tenant_uid,omitzero"`
	EventCode   string      `json:"event_code"`
	Modified    int64       `json:"modified_time,omitzero"`
}

type ocsfProduct struct {
	Name    string `json:"name"`
	Vendor  string `json:"vendor_name"`
	Version string `json:"version,omitzero"`
}

type ocsfUser struct {
	UID  string `json:"uid"`  // keyed hash
	Name string `json:"name"` // the same, unless the realm wants names told
}

type ocsfEndpoint struct {
	IP string `json:"ip"`
}

type ocsfNamed struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitzero"`
}

type ocsfFinding struct {
	UID       string       `json:"uid"`
	Title     string       `json:"title"`
	Desc      string       `json:"desc,omitzero"`
	Types     []string     `json:"types"`
	Analytic  ocsfAnalytic `json:"analytic"`
	Attacks   []ocsfAttack `json:"attacks,omitempty"`
	FirstSeen int64        `json:"first_seen_time"`
	LastSeen  int64        `json:"last_seen_time"`
	Created   int64        `json:"created_time"`
	Modified  int64        `json:"modified_time"`
}

type ocsfAnalytic struct {
	UID    string   `json:"uid"`
	Name   string   `json:"name"`
	TypeID analytic `json:"type_id"`
	Type   string   `json:"type"`
}

type ocsfAttack struct {
	Tactic    *ocsfNamed `json:"tactic,omitzero"`
	Technique *ocsfNamed `json:"technique,omitzero"`
	Sub       *ocsfNamed `json:"sub_technique,omitzero"`
}

type ocsfEvidence struct {
	Source *ocsfEndpoint           `json:"src_endpoint,omitzero"`
	User   *ocsfUser               `json:"user,omitzero"`
	Data   *aggregate.FindingGroup `json:"data,omitzero"`
}

type ocsfObservable struct {
	Name   string `json:"name"`
	TypeID int    `json:"type_id"`
	Type   string `json:"type"`
	Value  string `json:"value"`
}

// The types of observables that are used.
const (
	observedIP     = 2
	observedUser   = 4
	observedSubnet = 12
	observedUserID = 31
)

func ocsf(r *Record, p Producer) *ocsfRecord {
	o := &ocsfRecord{
		SeverityID: r.Severity, Severity: r.Severity.caption(), Message: r.Message(),
		Metadata: ocsfMetadata{Version: ocsfVersion, Product: ocsfProduct{"guardd", "guardd", p.Version}, UID: r.ID,
			TenantUID: r.Realm, EventCode: r.signature()},
	}
	o.observe(r)
	if r.Finding != nil {
		o.finding(r)
	} else {
		o.decision(r.Event)
	}
	o.TypeUID, o.Type = o.ClassUID*100+o.ActivityID, o.Class+": "+o.Activity
	return o
}

// observe lists what analysts search by, and makes it evidence of a finding.
func (o *ocsfRecord) observe(r *Record) {
	see := func(path string, id int, kind, value string) {
		o.Observables = append(o.Observables, ocsfObservable{path, id, kind, value})
	}
	of := ""
	if r.Finding != nil {
		of = "evidences[]."
	}
	ips, nets := r.sources()
	for _, a := range ips {
		o.Source = &ocsfEndpoint{plain(a)}
		see(of+"src_endpoint.ip", observedIP, "IP Address", plain(a))
		o.Evidences = append(o.Evidences, ocsfEvidence{Source: o.Source})
	}
	for _, n := range nets {
		see("evidences[].data.key", observedSubnet, "Subnet", n.String())
	}
	for _, a := range r.accounts() {
		o.User = &ocsfUser{UID: a, Name: r.name(a)}
		see(of+"user.uid", observedUserID, "User Object: uid", a)
		if o.User.Name != a {
			see(of+"user.name", observedUser, "User Name", o.User.Name)
		}
		o.Evidences = append(o.Evidences, ocsfEvidence{User: o.User})
	}
	if r.Finding == nil {
		o.Evidences = nil
		return
	}
	o.Source, o.User = nil, nil
	for i, g := range r.Finding.Groups {
		if _, err := netip.ParseAddr(g.Key); err == nil {
			continue
		} else if p, err := netip.ParsePrefix(g.Key); err == nil && p.IsSingleIP() {
			continue // above
		}
		o.Evidences = append(o.Evidences, ocsfEvidence{Data: &r.Finding.Groups[i]})
	}
}

func plain(a netip.Addr) string { return a.Unmap().WithZone("").String() }

func ms(t time.Time) int64 { return t.UnixMilli() }
