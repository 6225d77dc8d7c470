// Package keystest is the suite that every keys.Store must pass: a score sheet
// that people can read (vectors.txt), behaviours that need more than one caller,
// and a random walk in which any number of stores are held, step by step, equal
// to one another and to an oracle in big rationals (package oracle).
package keystest
