// Package redistest runs a real redis-server for one test: on a free loopback
// port, without persistence, ended when the test ends.
package redistest
