package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/guardd/guardd/escalation"
)

// inbox stands for the mail of the shop's customers. It is guardd's deliverer;
// in earnest that is a mail server or a webhook.
type inbox struct {
	mu    sync.Mutex
	mails []mail // newest first
}

// mail is one message as its owner sees it.
type mail struct {
	To, Text, Code, At string
}

// inboxSize is how many mails are kept.
const inboxSize = 20

func newInbox() *inbox { return new(inbox) }

// Deliver puts m into the inbox of whom it is for. Nobody has the mail of a
// name that is no customer's, and guardd never learns which those are.
func (b *inbox) Deliver(_ context.Context, m *escalation.Message) error {
	if passwords[m.Account] == "" {
		return nil
	}
	got := mail{To: m.Account, Code: m.Code, At: m.At.Local().Format("15:04:05")}
	switch {
	case m.Kind == escalation.MessageNotice:
		got.Text = map[string]string{
			"success_after_failures": "Somebody signed in to your account after many wrong passwords.",
			"new_device":             "Somebody signed in to your account from a new browser.",
			"devices_revoked":        "No browser is known for your account any more.",
		}[m.Notice]
		if got.Text == "" {
			got.Text = m.Notice
		}
	case m.Only:
		got.Text = fmt.Sprintf("Keep this: no other code is sent before %s.", m.ExpiresAt.Local().Format("15:04"))
	default:
		got.Text = fmt.Sprintf("Good until %s.", m.ExpiresAt.Local().Format("15:04"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails = slices.Insert(b.mails, 0, got)
	b.mails = b.mails[:min(len(b.mails), inboxSize)]
	return nil
}

func (b *inbox) all() []mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mails)
}
