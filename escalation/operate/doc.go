// Package operate is what operators ask and do: explain an attempt, clear
// counters, list addresses, pin a posture, read the configuration again, and
// look up who did what.
//
// # One mechanism
//
// A change is made in the shared store, and then written to a journal there.
// Every instance reads the journal a few times a second and does what is left
// to do in itself: its twin, its flood guard, its lists, its configuration. The
// journal is also the audit: what is in it has been done, by whom, and why.
//
// Whoever repeats a change whose reply was lost finds nothing to change, and the
// journal says so. Names travel in requests only: what is written and answered
// has keyed hashes.
package operate
