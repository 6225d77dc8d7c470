package plandb

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/guardd/guardd/keys/plans"
)

// cells are one row as text, whatever types its columns hold: SQLite takes a
// word where a number belongs, and one such row must not keep the others from
// being read.
type cells struct {
	names  []string
	values []sql.NullString
	fault  *plans.Fault // the first
}

func (c *cells) bad(column, reason string) {
	if c.fault == nil {
		c.fault = &plans.Fault{Field: column, Reason: reason}
	}
}

func (c *cells) text(column string) string {
	for i, name := range c.names {
		if name == column {
			if !c.values[i].Valid {
				c.bad(column, "is null")
			}
			return c.values[i].String
		}
	}
	panic("no column " + column) // of ours
}

func (c *cells) number(column string) int64 {
	text := c.text(column)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		c.bad(column, "is no whole number: "+strconv.Quote(text))
	}
	return n
}

// decode reads a column of JSON that holds what out can hold, and nothing else.
// empty is what most rows have there, and out as it is.
func (c *cells) decode(column, empty string, out any) {
	text := c.text(column)
	if text == empty {
		return
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(out)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		c.bad(column, "is not the JSON that belongs here: "+err.Error())
	}
}

// each calls row for every row of a query.
func each(rows *sql.Rows, row func(*cells)) error {
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row(&cells{names: names, values: values})
	}
	return rows.Err()
}
