// Package redistest runs real Redis for one test: a server, a Cluster or a
// primary with its replica and Sentinels, with TLS and ACL users where asked
// for, on free loopback ports, without persistence, ended when the test ends.
// Proxy stands between and breaks what passes; Fake says what a real server
// cannot be made to say.
package redistest
