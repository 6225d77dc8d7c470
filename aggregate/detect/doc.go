// Package detect is the mathematics of seeing an attack in many logins: pure,
// without clocks, goroutines or I/O. Time is an argument, in microseconds of
// the store's clock, as in package keys.
//
// It is fed in two ways. Every attempt that has been classed is a Sight; what
// looks at accounts, networks and passwords sees each one (spraying, slow
// guessing, heavy hitters). And every ten seconds of a realm are one Bin of
// counts; what looks at how much there is of everything (volume, structure,
// posture) sees bins only, so that half a year of them can be run in seconds.
//
// Nothing here is safe for concurrent use: a realm has one detector, which one
// goroutine feeds.
package detect
