// Package moments publishes, as findings, what nobody has to look for: what
// operators do, and each change of the posture in force, whoever made it (the
// aggregator, an operator's pin, the end of either).
//
// Every instance has a Teller. What was told is in one document that they share,
// and what is to be told is written there before it is published, with the name
// of who does: so each moment is told by one instance of a fleet, under one id,
// and by another where that one died on the way.
package moments
