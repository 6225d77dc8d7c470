package plandb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

var postgres = dialect{
	name:       "postgres",
	mark:       "$",
	lock:       `SELECT version FROM guardd_limits_state WHERE id = 1 FOR UPDATE`,
	lockSchema: `SELECT pg_advisory_xact_lock(7381220951)`, // any number that nobody else uses
	forUpdate:  ` FOR UPDATE`,
	snapshot:   &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	noTable: func(err error) bool {
		var e *pgconn.PgError
		return errors.As(err, &e) && e.Code == "42P01" // undefined_table
	},
}

func openPostgres(url string) (*DB, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrURL, err)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		// A pooler in between (PgBouncer) may give each transaction another connection.
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "guardd"
	}
	// Each use asks first whether the server is still the one it was: the first change
	// after a restart is not to fail for what is long over.
	ask := stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true })
	db := &DB{sql: stdlib.OpenDB(*c, ask), dialect: postgres, listen: c}
	db.sql.SetMaxOpenConns(4)
	db.sql.SetConnMaxIdleTime(time.Minute)
	return db, nil
}
