package plandb

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// In SQLite a transaction that is not read-only takes the lock when it begins.
var sqliteDialect = dialect{
	name:     "sqlite",
	mark:     "?",
	snapshot: &sql.TxOptions{ReadOnly: true},
	noTable:  func(err error) bool { return strings.Contains(err.Error(), "no such table") },
}

func openSQLite(path string) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// The write-ahead log lets serve read while a command writes.
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)"}, "_txlock": {"immediate"}, "_dqs": {"false"}}.Encode()}
	c, err := sqlite.NewConnector(u.String())
	if err != nil {
		return nil, err
	}
	db := &DB{sql: sql.OpenDB(c), dialect: sqliteDialect, prepare: func() error { return private(abs) }}
	db.sql.SetMaxOpenConns(4)
	return db, nil
}

// private makes a new file that only its owner can read: it holds who is a
// customer, and the audit.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}
