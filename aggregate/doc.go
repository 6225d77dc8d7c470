// Package aggregate is what many attempts mean together: every attempt and
// outcome becomes an Event, which a Publisher brings to a Bus without the
// caller waiting for it, and which an Aggregator reads there.
//
// Events are JSON, described in docs/events.md. A realm's events have one
// order, that of its partition. A reader sees each event at least once, and
// drops repeats by instance and number, which is what Event.ID is made of.
//
// An Aggregator reads the realms that fall to it, each event once: it keeps them
// as Recents, learns how many people share an address, and says of each login
// what it counts as. A Watch is told of that, and of the bins of ten seconds that
// it adds up to; what the Watch finds, the Aggregator sets and publishes. All of
// it goes by the time of the events, so that whoever reads them again comes to the
// same.
package aggregate
