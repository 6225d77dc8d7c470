// Package loginlog reads old login logs, line by line, as a stream of login
// events: what sshd wrote through syslog, JSON lines, or CSV.
//
// A log is evidence that attackers helped to write: account names are theirs
// to choose, lines may be cut, long, or not text at all. So every line is
// counted as exactly one of three, and Lines = Parsed + Skipped + Unparsed
// always holds:
//
//   - parsed: a login, which is one event. A line that stands for several
//     guesses ("message repeated 5 times") is one parsed line and one event
//     whose Times is 5.
//   - skipped: understood, and not a login: other messages, sign-ins by public
//     key (nothing was guessed), blank lines, a CSV header.
//   - unparsed: what could not be read, with the reason.
package loginlog
