package plandb

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/guardd/guardd/keys/plans"
)

// DB is a database of plan limits. It is safe for concurrent use.
type DB struct {
	sql *sql.DB
	dialect
	listen  *pgx.ConnConfig // nil where nobody can be woken
	prepare func() error    // what is to be done before the first look; may be nil
}

// dialect is where the two differ.
type dialect struct {
	name string
	// mark stands before the number of a value in a long statement. SQLite takes $1,
	// too, but as a name that it looks for in a list.
	mark string
	// lock is the first statement of a transaction that changes rows, and that of
	// one that changes the schema: whoever comes second waits.
	lock, lockSchema string
	// forUpdate ends a statement that locks the row it reads.
	forUpdate string
	// snapshot begins a transaction that sees one state of everything.
	snapshot *sql.TxOptions
	// noTable reports whether an error says that a table does not exist.
	noTable func(error) bool
}

// ErrURL is what Open returns for what is neither form.
var ErrURL = errors.New("must be postgres://USER@HOST/DATABASE or the path of an SQLite file, as sqlite:limits.db")

// Open prepares the database that url names, without connecting to it:
// postgres://... in the forms that libpq knows, sqlite:PATH, or a bare path.
func Open(url string) (*DB, error) {
	scheme, path, has := strings.Cut(url, ":")
	switch {
	case url == "" || strings.Contains(url, "\x00"):
		return nil, ErrURL
	case has && (scheme == "postgres" || scheme == "postgresql"):
		return openPostgres(url)
	case has && scheme == "sqlite" && !strings.HasPrefix(path, "//") && path != "":
		return openSQLite(path)
	case strings.Contains(url, "://") || has && scheme == "sqlite":
		return nil, ErrURL // a typing error is not to become a file of that name
	}
	return openSQLite(url)
}

// IsFile returns the path of the SQLite file that a URL names, and what stands
// before it.
func IsFile(url string) (prefix, path string, ok bool) {
	if strings.Contains(url, "://") || strings.HasPrefix(url, "postgres:") || strings.HasPrefix(url, "postgresql:") {
		return "", "", false
	}
	path, has := strings.CutPrefix(url, "sqlite:")
	if has {
		prefix = "sqlite:"
	}
	return prefix, path, path != ""
}

// Name says which kind of database it is: sqlite or postgres.
func (db *DB) Name() string { return db.name }

// Close ends its connections.
func (db *DB) Close() error { return db.sql.Close() }

// failed makes an error of the database one that every reader of limits knows.
func failed(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, plans.ErrStore, err)
}
