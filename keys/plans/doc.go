// Package plans is the limits of a general API, by API key: what a key's plan
// allows, in the same buckets that count guesses at passwords.
//
// A Definition is what an operator writes: rules, plans and keys, as YAML or as
// rows of a database. Compile checks it row by row and makes a Book, which is
// immutable, complete and all that the hot path reads. A Taker holds the Book
// in force and a keys.Store, and decides each Take in one atomic step over all
// rules that apply: either every one of them has the cost, or none is charged.
//
// Every rule of a key is a bucket of its own, and all buckets of a key are in
// one Redis slot. A rule that changes while buckets live keeps their spent
// fraction (keys.Limit.Spent): an upgrade counts at once, a downgrade is no
// fresh burst, and changing a rule back and forth gains nothing.
//
// "No" is a value in the Decision. An error means that we do not know, or that
// the request could never be decided (ErrUnknownRule, Faults).
package plans
