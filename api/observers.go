package api

import (
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/trace"
)

// Observers tells each of several observers, in order.
type Observers []Observer

// Attempt is Observer's.
func (o Observers) Attempt(v *escalation.Verdict, took time.Duration) {
	for _, x := range o {
		x.Attempt(v, took)
	}
}

// Outcome is Observer's.
func (o Observers) Outcome(r *escalation.Recorded, took time.Duration) {
	for _, x := range o {
		x.Outcome(r, took)
	}
}

// Answered is Observer's.
func (o Observers) Answered(route string, status int, took time.Duration, by trace.ID) {
	for _, x := range o {
		x.Answered(route, status, took, by)
	}
}
