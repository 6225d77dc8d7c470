// Package otlp sends requests' traces to an OpenTelemetry collector, as OTLP over
// HTTP. No request waits for it: what it has no room for is dropped, and counted.
package otlp
