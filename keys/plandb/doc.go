// Package plandb keeps the rules, plans and keys of package plans in a database:
// a file of SQLite, or PostgreSQL for many instances.
//
// Both have one schema, made and moved on by the migrations beside this file.
// Triggers count a version whenever a row changes, by guardd or by hand; a
// Follower looks at the version twice a second and is woken by PostgreSQL's
// NOTIFY sooner, so that a lost notice costs half a second and no change is ever
// missed. It reads the whole in one snapshot, compiles it row by row over the
// book in force and swaps it in: what is wrong is skipped and told, what is
// deleted goes, and while the database is gone the last book stays. Nothing else
// reads the database: takes look into memory only.
//
// Change is the only way that guardd writes: under a lock, judged as a whole
// (plans.Judge), and with a line in the audit for each row, in one transaction.
package plandb
