// Package redisstore counts in Redis (6.2 or later), so that a fleet shares one
// count: a keys.Store, and all that goes with one, whose every decision is one
// call of one script, atomic on a single server, under Sentinel and on Cluster.
//
// A script is parts joined in order (newScript): bucket.lua is the
// arithmetic, settle.lua brings every bucket to now, judge.lua decides, back.lua
// gives back, store.lua writes what changed. What they mean is Go: keys/judge.go,
// and the oracle's walk holds them to it.
package redisstore
