// Package delivery brings codes and notices to the owners of accounts: to the
// log (development), to the application by a signed webhook, or by mail. Each
// driver is an escalation.Deliverer; New makes one from a policy's data.
//
// The account's name leaves guardd here and only here: in the webhook's body
// and in the mail, never in a log line or an error.
//
// guardd does not know which accounts exist. A receiver that refuses for good
// what it does not know (404) tells the visitor: the code then counts as not
// sent, and the next press says that one is sent, where it says of others that
// theirs is on its way. So it answers 2xx for accounts that it does not have.
package delivery
