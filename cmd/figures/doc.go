// Command figures writes what "guardd simulate" found into the README, as
// tables, and draws it: "make simulate" runs both. Everything comes from the
// lines of JSON in docs/simulate, so that a test can tell whether a figure that
// stands somewhere is one that was measured.
package main
