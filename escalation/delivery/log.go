package delivery

import (
	"context"
	"log/slog"

	"github.com/guardd/guardd/escalation"
)

// logDriver prints messages, for development: whoever reads the log is every
// account's owner.
type logDriver struct{ log *slog.Logger }

// Deliver prints what a developer needs to go on, and the account's hash, never
// its name.
func (d logDriver) Deliver(ctx context.Context, m *escalation.Message) error {
	to := []any{"realm", m.Realm, "flow", m.Flow, "account_hash", m.AccountHash}
	if m.Kind == escalation.MessageCode {
		d.log.InfoContext(ctx, "verification code",
			append(to, "code", m.Code, "token_begins", m.Hint, "expires_at", m.ExpiresAt.UTC())...)
		return nil
	}
	d.log.InfoContext(ctx, "notice",
		append(to, "notice", m.Notice, "at", m.At.UTC(), "suppressed", m.Suppressed)...)
	return nil
}
