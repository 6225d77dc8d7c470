// Package api is everything of guardd that speaks HTTP: it decodes a request
// strictly, asks the guard, and writes the answer or a problem document
// (RFC 9457). It decides nothing itself.
//
// Service is for login handlers, with Bearer keys; Admin is for operators and
// belongs on a listener of its own; NewServer bounds what a slow or greedy
// peer can hold. The JSON types and a ready-made Go client are in api/client,
// the contract in other words is openapi.yaml (served at /v1/openapi.yaml),
// and problems.md says what each problem means and what to do about it.
package api
