package plandb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/guardd/guardd/keys/plans"
)

// Ledger keeps the use of quotas in the database, where the loss of Redis does not
// touch it. It is safe for concurrent use.
func (db *DB) Ledger() plans.Ledger { return ledger{db} }

type ledger struct{ db *DB }

// Change is plans.Ledger's: the row is locked while change is called.
func (l ledger) Change(ctx context.Context, id plans.UsageID, until int64, change func(plans.Usage) (plans.Usage, bool)) error {
	tx, err := l.db.sql.BeginTx(ctx, nil)
	if err != nil {
		return failed("counting a quota", err)
	}
	defer tx.Rollback()
	who := []any{id.Key.String(), id.Rule, id.Start}
	u, err := l.read(ctx, tx, who)
	if errors.Is(err, sql.ErrNoRows) { // made first, so that there is what to lock
		if _, err = tx.ExecContext(ctx, `INSERT INTO guardd_limits_usage (account, rule, start, until, drawn, quota, told)
			VALUES ($1, $2, $3, $4, 0, 0, 0) ON CONFLICT DO NOTHING`, append(who, until)...); err == nil {
			u, err = l.read(ctx, tx, who)
		}
	}
	if err != nil {
		return failed("counting a quota", err)
	}
	u, ok := change(u)
	if !ok {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `UPDATE guardd_limits_usage SET drawn = $4, quota = $5, told = $6, until = $7
		WHERE account = $1 AND rule = $2 AND start = $3`, append(who, u.Drawn, u.Limit, u.Told, until)...); err != nil {
		return failed("counting a quota", err)
	}
	if err := tx.Commit(); err != nil {
		return failed("counting a quota", err)
	}
	return nil
}

func (l ledger) read(ctx context.Context, tx *sql.Tx, who []any) (u plans.Usage, err error) {
	err = tx.QueryRowContext(ctx, `SELECT drawn, quota, told FROM guardd_limits_usage WHERE account = $1 AND rule = $2 AND start = $3`+l.db.forUpdate, who...).
		Scan(&u.Drawn, &u.Limit, &u.Told)
	return u, err
}

// ForgetUsage deletes what was drawn in periods that are long over, as of now, Unix
// microseconds.
func (db *DB) ForgetUsage(ctx context.Context, now int64) error {
	if _, err := db.sql.ExecContext(ctx, `DELETE FROM guardd_limits_usage WHERE until < $1`, now); err != nil {
		return failed("forgetting quotas", err)
	}
	return nil
}
