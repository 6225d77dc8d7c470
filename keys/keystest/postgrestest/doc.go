// Package postgrestest runs a real PostgreSQL for one test, which can be killed,
// frozen and started again with what it holds.
package postgrestest
