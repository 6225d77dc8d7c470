package plandb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/guardd/guardd/keys/plans"
)

// Change makes a change, whole or not at all, and says what it did to which rows.
// Other changes wait meanwhile. Errors: plans.Faults (of the author, or, by row,
// of what the change would leave wrong), Edit's own, plans.ErrNewer, and
// plans.ErrStore where the database failed: then it may or may not have happened,
// and can be repeated.
func (db *DB) Change(ctx context.Context, o plans.Order) ([]plans.Record, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	tx, err := db.sql.BeginTx(ctx, nil)
	if err != nil {
		return nil, failed("changing limits", err)
	}
	defer tx.Rollback()
	records, err := db.edit(ctx, tx, &o)
	if err != nil || o.DryRun || len(records) == 0 {
		return records, err
	}
	if err := db.write(ctx, tx, records); err != nil {
		return nil, failed("changing limits", err)
	}
	if err := db.sign(ctx, tx, &o, records); err != nil {
		return nil, failed("changing limits", err)
	}
	if err := tx.Commit(); err != nil {
		return nil, failed("changing limits", err)
	}
	return records, nil
}

// edit takes the lock, and judges the edit of what is there then.
func (db *DB) edit(ctx context.Context, tx *sql.Tx, o *plans.Order) ([]plans.Record, error) {
	if db.lock != "" {
		if _, err := tx.ExecContext(ctx, db.lock); err != nil {
			return nil, failed("changing limits", err)
		}
	}
	switch have, err := db.schema(ctx, tx); {
	case err != nil:
		return nil, err
	case have > schemaVersion:
		return nil, plans.ErrNewer
	}
	_, before, err := load(ctx, tx)
	if err != nil {
		return nil, failed("reading limits", err)
	}
	after := *before
	if err := o.Edit(&after); err != nil {
		return nil, err
	}
	records := plans.Diff(before, &after)
	if bad := plans.Judge(before, &after, records); len(bad) > 0 {
		return nil, bad
	}
	return records, nil
}

// batch is how many rows one statement writes: the drivers look for the place of
// each value.
const batch = 100

func (db *DB) write(ctx context.Context, tx *sql.Tx, records []plans.Record) error {
	for _, t := range tables {
		var put []any
		var gone []string
		for _, r := range records {
			switch {
			case r.Kind != t.kind:
			case r.Action == plans.Delete:
				gone = append(gone, r.Name)
			default:
				values, err := t.values(r.After)
				if err != nil {
					return err
				}
				put = append(put, values...)
			}
		}
		if err := inBatches(ctx, tx, put, len(t.columns), func(rows int) string { return t.put(rows, db.mark) }); err != nil {
			return err
		}
		for _, name := range gone {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+t.name+" WHERE "+t.columns[0]+" = $1", name); err != nil {
				return err
			}
		}
	}
	return nil
}

func inBatches(ctx context.Context, tx *sql.Tx, values []any, columns int, statement func(rows int) string) error {
	for len(values) > 0 {
		n := min(batch, len(values)/columns)
		if _, err := tx.ExecContext(ctx, statement(n), values[:n*columns]...); err != nil {
			return err
		}
		values = values[n*columns:]
	}
	return nil
}

var auditColumns = []string{"version", "line", "at_us", "who", "reason", "action", "kind", "name", "before", "after"}

// sign writes the audit, under the version that the triggers have made.
func (db *DB) sign(ctx context.Context, tx *sql.Tx, o *plans.Order, records []plans.Record) error {
	version, err := readVersion(ctx, tx)
	if err != nil {
		return err
	}
	var lines []any
	for i := range records {
		r := &records[i]
		r.Version, r.At, r.Author = version, o.At.UTC().Truncate(time.Microsecond), o.Author
		lines = append(lines, version, int64(i), o.At.UnixMicro(), o.Who, o.Why, string(r.Action), string(r.Kind), r.Name, string(r.Before), string(r.After))
	}
	return inBatches(ctx, tx, lines, len(auditColumns), func(rows int) string {
		return fmt.Sprintf("INSERT INTO guardd_limits_audit (%s) VALUES %s", strings.Join(auditColumns, ", "), places(rows, len(auditColumns), db.mark))
	})
}
