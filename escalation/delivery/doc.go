// Package delivery brings codes and notices to the owners of accounts: to the
// log (development), to the application by a signed webhook, or by mail. Each
// driver is an escalation.Deliverer; New makes one from a policy's data.
//
// The account's name leaves guardd here and only here: in the webhook's body
// and in the mail, never in a log line or an error.
package delivery
