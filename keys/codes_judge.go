package keys

import "slices"

// This file is what SendCode means, as a pure function; redisstore's send.lua
// is the same in Lua.

// codeRecord is what is stored about an account's codes.
type codeRecord struct {
	Code // the newest; Until 0: spent, or not delivered
	// tried is when the code was given to be delivered, the latest time, until that
	// is confirmed: then it is delivered. It is 0 without a store: a twin dies with
	// the deliveries of its instance.
	tried int64
	again [MaxResends]int64 // when confirmed codes were sent again, oldest first; 0: never
	sends []int64           // serials of the latest, oldest first: they are the times too
}

const delivered = -1

// sendsKept is how many sends are remembered: enough that what an owner uses up
// on a busy day does not shorten the lives to come (from the 7th they are all
// MaxCodeLife).
const sendsKept = 16

// recent reports whether t was within CodeWindow before now. A time ahead by
// more than that comes from a broken clock, and would keep an owner out.
func recent(t, now int64) bool { return now-t < CodeWindow && t-now <= CodeWindow }

// live is the code that lives at now; zero when none does.
func (r *codeRecord) live(now int64) Code {
	if now >= r.Until || !recent(r.Sent, now) {
		return Code{}
	}
	return r.Code
}

// overdue reports whether a delivery tried at t should have been confirmed by
// now. One ahead by more than MinCodeLife comes from a broken clock.
func overdue(t, now int64) bool { return now-t >= MinCodeLife || t-now > MinCodeLife }

// senderRecord is for which accounts codes were sent from an address, and when
// the latest was.
type senderRecord [MaxSenderAccounts]struct {
	account Account
	at      int64 // 0: free
}

// slot is where the account is or could be noted, -1 when others fill it.
func (r *senderRecord) slot(a Account, now int64) int {
	free := -1
	for i := range r {
		switch {
		case r[i].at == 0 || !recent(r[i].at, now):
			free = i
		case r[i].account == a:
			return i
		}
	}
	return free
}

// codeFacts are what was stored when a SendCode was decided.
type codeFacts struct {
	code    codeRecord // of an account never heard of: zero
	sender  senderRecord
	used    int64 // uses of the proof
	revoked int64
	// quarters: codes are those of the quarter of an hour, because the shared
	// store is gone. noCode, noSender: there is no room for a new record, so an
	// image is asked for instead, which needs none.
	quarters, noCode, noSender bool
}

// sendCode decides, and changes f.code and f.sender to what is to be stored:
// wroteCode, wroteSender say which.
func sendCode(a *CodeAsk, f *codeFacts, now int64, ans *CodeAnswer) (wroteCode, wroteSender bool) {
	r := &f.code
	*ans = CodeAnswer{Now: now, Code: r.live(now), Degraded: f.quarters || f.noCode}
	if ans.Degraded && Quarter(r.Sent) > Quarter(now) {
		ans.Code = Code{} // the clock has stepped back: nobody accepts that quarter's code now
	}
	lives := ans.Code.Serial != 0
	r.sends = slices.DeleteFunc(r.sends, func(t int64) bool { return !recent(t, now) })
	slot := f.sender.slot(a.Account, now)
	priced := slot < 0 || f.noSender || f.noCode ||
		f.quarters && !lives && len(r.sends) >= MaxQuarterMails
	unsure := lives && r.tried > 0
	again := unsure || lives && (r.again[0] == 0 || !recent(r.again[0], now))

	ans.Proof = codeProof(&a.Proof, f, now)
	paid := ans.Proof == ProofUsed
	switch {
	case again && paid:
		ans.State = CodeAgain
		if unsure {
			r.tried = now
		} else {
			copy(r.again[:], r.again[1:])
			r.again[MaxResends-1] = now
		}
		return true, false
	case unsure && !priced && overdue(r.tried, now):
		ans.State = CodeAgain
		r.tried = now
		f.sender[slot].account, f.sender[slot].at = a.Account, now
		return true, true
	case lives && (!priced || paid):
		ans.State = CodeLives
	case priced && !paid:
		ans.State, ans.Code = CodePriced, Code{}
	default:
		ans.State = CodeSent
		r.send(f, now)
		ans.Code = r.Code
		if priced {
			return !f.noCode, false
		}
		f.sender[slot].account, f.sender[slot].at = a.Account, now
		wroteCode, wroteSender = true, true
	}
	if paid {
		ans.Proof = ProofNone // it was not needed
	}
	return wroteCode, wroteSender
}

// send makes the newest code.
func (r *codeRecord) send(f *codeFacts, now int64) {
	if r.Serial-now > CodeWindow {
		r.Serial = 0 // of a broken clock
	}
	r.Serial, r.Sent = max(now, r.Serial+1), now
	if len(r.sends) == sendsKept {
		r.sends = append(r.sends[:0], r.sends[1:]...)
	}
	r.sends = append(r.sends, r.Serial)
	r.Nth = len(r.sends)
	r.Until, r.tried = now+CodeLife(r.Nth), now
	if f.quarters || f.noCode {
		r.Until, r.tried = (Quarter(now)+2)*quarter, 0
	}
}

// unsend forgets a code that was not delivered; false when there is nothing to
// forget.
func (r *codeRecord) unsend(serial int64) bool {
	i := slices.Index(r.sends, serial)
	if i < 0 || serial == r.Serial && (r.Until == 0 || r.tried == delivered) {
		return false // a spent code was delivered, too
	}
	r.sends = slices.Delete(r.sends, i, i+1)
	if serial == r.Serial {
		r.Until = 0
	}
	return true
}

// confirm remembers that the code was delivered; false when there is nothing to
// remember.
func (r *codeRecord) confirm(serial int64) bool {
	if serial != r.Serial || r.Until == 0 || r.tried <= 0 {
		return false
	}
	r.tried = delivered
	return true
}

// spend ends the life of the live code if it is this one.
func (r *codeRecord) spend(serial, now int64) bool {
	if live := r.live(now); live.Serial == 0 || live.Serial != serial {
		return false
	}
	r.Until = 0
	return true
}

// codeProof is what the proof is worth to a sender who needs it: ProofUsed if
// it counts.
func codeProof(p *Proof, f *codeFacts, now int64) ProofState {
	state := p.good(now, f.revoked, f.used)
	if state == ProofUsed && p.Rung < Captcha {
		return ProofInsufficient
	}
	return state
}
