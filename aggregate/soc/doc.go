// Package soc says what guardd has found, and on demand all that it has decided,
// in the words of those who watch many systems at once: OCSF, ECS, CEF, and
// guardd's own JSON.
//
// A Record is one thing to tell: a change of a finding, or one decision or
// outcome. A Tracker makes records of what is read from the bus: one of each
// change of a campaign and none of its repeats, no more than a cap allows. An
// Outlet brings them to a Sink, which is a file, a syslog server and the like
// (folder sink), from a bounded queue, again and again until they are taken.
//
// Whoever receives them sees each at least once, and drops repeats by Record.ID.
// Account names are in them as keyed hashes, but for realms that want to be told.
package soc
