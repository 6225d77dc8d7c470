package plandb

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/guardd/guardd/keys/plans"
)

// Records returns what was changed at or after since, the newest first, at most
// so many.
func (db *DB) Records(ctx context.Context, since time.Time, most int) (all []plans.Record, err error) {
	rows, err := db.sql.QueryContext(ctx, "SELECT "+strings.Join(auditColumns, ", ")+
		" FROM guardd_limits_audit WHERE at_us >= $1 ORDER BY version DESC, line DESC LIMIT $2", since.UnixMicro(), most)
	if err == nil {
		err = each(rows, func(c *cells) { all = append(all, record(c)) })
	}
	if err != nil {
		return nil, failed("reading the audit", err)
	}
	return all, nil
}

func record(c *cells) plans.Record {
	return plans.Record{Version: c.number("version"), At: time.UnixMicro(c.number("at_us")).UTC(),
		Author: plans.Author{Who: c.text("who"), Why: c.text("reason")},
		Action: plans.Action(c.text("action")), Kind: plans.Kind(c.text("kind")), Name: c.text("name"),
		Before: rowText(c.text("before")), After: rowText(c.text("after"))}
}

func rowText(s string) json.RawMessage {
	if s == "" || !json.Valid([]byte(s)) { // somebody has been here by hand
		return nil
	}
	return json.RawMessage(s)
}
