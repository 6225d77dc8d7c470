// Command gen writes guardd's Grafana dashboards, one JSON file each, into a
// folder (default "..", where the committed ones are).
//
//	go run .
//
// A dashboard is a table: rows of panels, each with a title, what it means to
// whoever looks at it, a unit and its queries. Everything that must be the same
// everywhere (variables, data source, layout, annotations, links) is made of it
// in one place.
//
// It is a module of its own, so that neither Grafana's types nor Prometheus'
// parser, which its tests use, are anything that guardd needs.
package main
