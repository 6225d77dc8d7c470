package aggregate

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// From how many on sealed tokens that are not somebody's own are no accident, in
// forgerySpan to twice that of event time:
//
//   - forgedMost from one address, less the accounts that sign in from there. What
//     honest people bring is the device token of a browser whose secret is gone: one
//     of each browser, before its owner signs in. A house of 1,000 people after a
//     lost secret, of whom one in twenty mistypes and one in five of those gives up,
//     has 10 left over.
//   - replayedMost accounts that one proof was sealed for none of. A form carries
//     the proof along while its owner tries her name, her address and her old one;
//     a program that has one picture solved, and then goes through a list, does not
//     stop there.
//
// What expired, was spent or moved to another network honest people show every day.
const (
	forgedMost   = 20
	replayedMost = 10
	forgerySpan  = 10 * 60 * keys.Second
	// forgerQuiet is for how long the same address or proof is not told of again.
	forgerQuiet = 3600 * keys.Second
	// forgersKept bounds the addresses and the pairs of them and accounts that are
	// remembered, in each of two generations: with more of them at work it is a
	// campaign of many addresses, which is for the detectors.
	forgersKept = 1 << 13
)

// forgeries tell who shows sealed tokens that nobody here has sealed, or that were
// sealed for others. They see the events of one realm, each once, roughly in order
// of time.
type forgeries struct {
	shown  aging // addresses: tokens that were not theirs
	signed aging // addresses: accounts that signed in
	pairs  aging // address or proof, and account
	counts aging // address or proof: accounts
	told   aging
}

func newForgeries() *forgeries {
	of := func(span int64) aging { return newAging(span, forgersKept) }
	return &forgeries{of(forgerySpan), of(forgerySpan), of(forgerySpan), of(forgerySpan), of(forgerQuiet)}
}

// see returns what is to be told; nil for nothing.
func (f *forgeries) see(e *Event, at int64, account uint64, ip keys.Address) *Finding {
	source := networkOf(ip.Counted())
	if e.Kind == KindOutcome {
		if e.Outcome == successName && !e.Duplicate && !e.Expired && f.shown.tally(at, source) > 0 && f.pairs.add(at, fingerprint(source, account, 1)) == 0 {
			f.signed.count(at, source)
		}
		return nil
	}
	replayed := e.ProofError == string(escalation.ProofWrongAccount)
	if !replayed && e.ProofError != string(escalation.ProofInvalid) && !slices.Contains(e.Reasons, escalation.ReasonDeviceInvalid) {
		return nil
	}
	n := f.shown.count(at, source) - f.signed.tally(at, source)
	accounts := f.accounts(at, source, account)
	if replayed && e.Shown != "" {
		proof := hashOf(e.Shown)
		if n := f.accounts(at, proof, account); n >= replayedMost && f.told.add(at, proof) == 0 {
			return forgery(e, at, e.Shown, n, n, FindingGroup{Kind: "proof", Key: e.Shown},
				fmt.Sprintf("one proof was shown for %d accounts that it was not sealed for", n))
		}
	}
	if n >= forgedMost && f.told.add(at, source) == 0 {
		return forgery(e, at, ip.Counted().String(), n, accounts, FindingGroup{Kind: "source", Key: ip.Counted().String()},
			fmt.Sprintf("from one address came %d sealed tokens that nobody here has sealed or that were others', beyond one for each account that signed in", n))
	}
	return nil
}

// accounts counts those of whom, a source or a proof, with this one.
func (f *forgeries) accounts(at int64, whom, account uint64) int {
	if f.pairs.add(at, fingerprint(whom, account)) == 0 {
		f.counts.count(at, whom)
	}
	return f.counts.tally(at, whom)
}

// forgery has the same id when a successor that reads the hour again finds it again.
func forgery(e *Event, at int64, whom string, tokens, accounts int, g FindingGroup, reason string) *Finding {
	id := fingerprint(hashOf(whom), uint64(at/forgerQuiet))
	return &Finding{V: FindingVersion, ID: TokenForgery + "-" + strconv.FormatUint(id, 36), Realm: e.Realm, What: TokenForgery, State: FindingOnce,
		Start: micro(at), Last: micro(at), Reason: reason, Guesses: tokens, Accounts: accounts, Sources: 1,
		Groups: []FindingGroup{g}, Samples: []string{e.Account}}
}
