// Package trace says which request of somebody's trace this is (W3C Trace
// Context), and where its time goes: the stops of a request, from decoding to the
// answer.
//
// A request that names no trace, where nothing is exported, has none: its *Request
// is nil, every method of which does nothing, so that tracing costs nothing where it
// is off. Sending traces away is otlp's.
package trace
