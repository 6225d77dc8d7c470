// Package aggregatetest is what every aggregate.Bus has in common, as tests: one
// suite for the bus in the process and for Kafka.
package aggregatetest
