// Command guardd answers one question for a login handler before the password
// is checked: may this guess be made now, and if not, what would make it
// acceptable?
//
// This package is wiring: it reads flags, environment and one YAML file
// (config.go), builds each part from them (wire.go), runs the listeners
// until told to stop (serve.go), and exports what happens (metrics.go).
package main
