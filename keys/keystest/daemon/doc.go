// Package daemon is what tests that start a server of any kind have in common:
// a free port, certificates for loopback, and that nothing outlives its test.
package daemon
