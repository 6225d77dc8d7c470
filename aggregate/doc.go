// Package aggregate is what many attempts mean together: every attempt and
// outcome becomes an Event, which a Publisher brings to a Bus without the
// caller waiting for it, and which whoever watches all logins reads there.
//
// Events are JSON, described in docs/events.md. A realm's events have one
// order, that of its partition. A reader sees each event at least once, and
// drops repeats by Event.ID.
package aggregate
