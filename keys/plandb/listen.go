package plandb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// hearAgain is how long to wait before listening again: looking at the version
// goes on meanwhile.
const hearAgain = time.Second

// hear wakes the follower at every notice, until ctx ends. Nothing depends on it
// but how soon a change is seen.
func (f *Follower) hear(ctx context.Context) {
	for {
		if err := f.listen(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			f.failed(1, failed("listening for changes", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hearAgain):
		}
	}
}

func (f *Follower) listen(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, f.db.listen)
	if err != nil {
		return err
	}
	defer func() {
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		c.Close(brief)
	}()
	if _, err := c.Exec(ctx, "LISTEN guardd_limits"); err != nil {
		return err
	}
	f.Refresh() // something may have changed while nobody listened
	for {
		if _, err := c.WaitForNotification(ctx); err != nil {
			return err
		}
		f.Refresh()
	}
}
