package escalation

import (
	"context"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// noticeWindow is how long an account's owner is left in peace after a notice:
// what is told every minute is not read, and strangers could make it a mail
// bomb.
const noticeWindow = 3600 * keys.Second

// notify tells the owner what happened, unless the realm does not want it or
// one was told within the hour. It is done off the request's path, and lost
// when deliveries lag behind.
func (g *Guard) notify(ctx context.Context, realm *liveRealm, flow string, a keys.Account, name, what string, at int64) {
	if g.c.Shadow || g.live.Load().deliver == nil || g.c.Tallies == nil || !realm.notices[what] {
		return
	}
	traced := trace.From(ctx).Sent()
	g.queue.put(realm.name, &letter{deliver: func(ctx context.Context) {
		n, before, err := g.c.Tallies.Tally(ctx, realm.at(a).Tally("notice", a.String()), g.storeNow(), noticeWindow)
		if err != nil || n > 1 {
			return
		}
		id, err := g.newID()
		if err != nil {
			return
		}
		_ = g.deliver(ctx, &Message{ // Delivered is told what became of it
			ID: idText(id), Kind: MessageNotice, Account: name, AccountHash: a.String(), Realm: realm.name, Flow: flow,
			Notice: what, Suppressed: max(before-1, 0), At: micros(at), Trace: traced,
		})
	}})
}

// notifySuccess tells the owner of a success that may not be hers. The name has
// been found to be the attempt's.
func (g *Guard) notifySuccess(ctx context.Context, realm *liveRealm, t *attemptToken, account string, known bool, rcp *keys.Receipt) {
	_, name, err := realm.account(account)
	flow := Flows[t.flow]
	switch {
	case err != nil:
	case rcp.Failures >= keys.MaxFailures:
		g.notify(ctx, realm, flow, t.account, name, NoticeFailures, rcp.Now)
	case !known && flow != "signup": // whoever signs up has no earlier device
		g.notify(ctx, realm, flow, t.account, name, NoticeDevice, rcp.Now)
	}
}
