// Package sim makes logins: those of honest people and those of named attacks,
// from a seed, so that whatever is claimed of detection can be run again.
//
// Two levels have one set of parameters (params.go, each with its source). Bins
// makes counts of ten seconds, half a year in seconds, for baselines and false
// alarms. Events makes every single attempt, with accounts, addresses and
// passwords, for the guard itself.
package sim
