// Package limits is plan limits over HTTP: the headers that tell a caller where
// it stands, the problem document of a refusal, and a middleware for net/http
// and chi that needs no guardd beside it, only a plans.Taker.
//
// Headers, Retry-After and body of an answer all come from one plans.Decision,
// so they never disagree.
package limits
