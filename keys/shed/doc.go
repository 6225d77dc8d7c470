// Package shed works out how many requests a backend can have under way, from how
// long they take, and says which to turn away beyond that. It is about a backend
// that all callers share; what one caller may do is package plans'.
//
// A Limiter keeps a baseline for each class of requests: how long one takes while
// none waits for another. In each window it compares what requests took with it.
// As long as that is within Tolerance and Slack the limit grows by its square root, if the
// window came near it: without load nobody knows what more would do. Beyond, it
// shrinks in proportion (the gradient of Netflix' concurrency-limits). At the least
// limit there is no queue of ours, so what requests take there is the new baseline:
// a backend that has become slower for good is not starved.
//
// The three priorities have shares of the limit of which each lower one leaves some
// to those above it, so that critical traffic is turned away last.
//
// Time is an argument in microseconds. A Limiter is one process's: processes that
// share a backend find their parts of it by the same latency.
package shed
