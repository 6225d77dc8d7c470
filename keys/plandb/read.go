package plandb

import (
	"context"
	"errors"
	"strings"

	"github.com/guardd/guardd/keys/plans"
)

// Load reads all that is there, of one moment, and its version. Rows that cannot
// be read are in Unread.
func (db *DB) Load(ctx context.Context) (version int64, d *plans.Definition, err error) {
	tx, err := db.sql.BeginTx(ctx, db.snapshot)
	if err != nil {
		return 0, nil, failed("reading limits", err)
	}
	defer tx.Rollback()
	if version, d, err = load(ctx, tx); err != nil {
		return 0, nil, failed("reading limits", err)
	}
	return version, d, nil
}

func load(ctx context.Context, q querier) (version int64, d *plans.Definition, err error) {
	if version, err = readVersion(ctx, q); err != nil {
		return 0, nil, err
	}
	d = &plans.Definition{}
	for _, t := range tables {
		rows, err := q.QueryContext(ctx, "SELECT "+strings.Join(t.columns, ", ")+" FROM "+t.name+" ORDER BY "+t.columns[0])
		if err != nil {
			return 0, nil, err
		}
		err = each(rows, func(c *cells) {
			if name := t.read(c, d); c.fault != nil {
				d.Unread = append(d.Unread, plans.Unread{Kind: t.kind, Name: name, Fault: *c.fault})
			}
		})
		if err != nil {
			return 0, nil, err
		}
	}
	return version, d, nil
}

var errNoState = errors.New("guardd_limits_state has no row 1: no change can be seen without it")

func readVersion(ctx context.Context, q querier) (version int64, err error) {
	rows, err := q.QueryContext(ctx, `SELECT version FROM guardd_limits_state WHERE id = 1`)
	if err != nil {
		return 0, err
	}
	found := false
	err = each(rows, func(c *cells) {
		found = true
		version = c.number("version")
	})
	if err == nil && !found {
		err = errNoState
	}
	return version, err
}
