// Package redisstore counts in Redis (6.2 or later), so that a fleet shares one
// count: a keys.Store and keys.Records whose every decision is one call of one
// script, atomic on a single server, under Sentinel and on Cluster.
//
// The scripts are take.lua and give.lua, each behind bucket.lua, the arithmetic
// they share. What they mean is Go: keys/judge.go.
package redisstore
