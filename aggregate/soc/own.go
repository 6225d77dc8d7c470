package soc

import "github.com/guardd/guardd/aggregate"

// ownRecord is a record in guardd's own form: what is on the topic, and what the
// record adds to it.
type ownRecord struct {
	Record ownHead `json:"record"`
	// One of them.
	Finding *aggregate.Finding `json:"finding,omitzero"`
	Event   *aggregate.Event   `json:"event,omitzero"`
}

type ownHead struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Change   string `json:"change,omitzero"` // opened, updated, closed, once
	Message  string `json:"message"`
	// Names are those of the accounts by their hashes, where the realm wants them told.
	Names map[string]string `json:"names,omitempty"`
}

func own(r *Record) *ownRecord {
	h := ownHead{ID: r.ID, Severity: r.Severity.String(), Message: r.Message(), Names: r.Names}
	if r.Change != 0 {
		h.Change = r.Change.String()
	}
	return &ownRecord{Record: h, Finding: r.Finding, Event: r.Event}
}
