package plandb

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the last of the migrations: N.sql, and N.sqlite.sql or
// N.postgres.sql after it. They only ever add, so that instances of two versions
// can share a database.
const schemaVersion = 2

// Migrate makes the schema, or brings an older one up to date. Where there is
// nothing to do it only reads, so that serve can do with less than an owner's
// rights. Whoever comes second finds it done.
func (db *DB) Migrate(ctx context.Context) error {
	if db.prepare != nil {
		if err := db.prepare(); err != nil {
			return err
		}
	}
	have, err := db.schema(ctx, db.sql)
	if err != nil || have >= schemaVersion {
		return err
	}
	tx, err := db.sql.BeginTx(ctx, nil)
	if err != nil {
		return failed("migrating", err)
	}
	defer tx.Rollback()
	if err := db.migrate(ctx, tx); err != nil {
		return failed("migrating", err)
	}
	return tx.Commit()
}

func (db *DB) migrate(ctx context.Context, tx *sql.Tx) error {
	for _, q := range []string{db.lockSchema, `CREATE TABLE IF NOT EXISTS guardd_limits_schema (version BIGINT PRIMARY KEY)`} {
		if q == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	have, err := db.schema(ctx, tx)
	if err != nil {
		return err
	}
	for n := have + 1; n <= schemaVersion; n++ {
		for _, file := range []string{fmt.Sprintf("migrations/%d.sql", n), fmt.Sprintf("migrations/%d.%s.sql", n, db.name)} {
			text, err := migrations.ReadFile(file)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO guardd_limits_schema (version) VALUES ($1)`, n); err != nil {
			return err
		}
	}
	return nil
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// schema is the version of the schema that is there; 0: none.
func (db *DB) schema(ctx context.Context, q querier) (have int, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM guardd_limits_schema`).Scan(&have)
	if err != nil && db.noTable(err) {
		return 0, nil
	}
	if err != nil {
		return 0, failed("reading the schema's version", err)
	}
	return have, nil
}
