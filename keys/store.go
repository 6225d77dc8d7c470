package keys

import "context"

// Store counts. Both verbs are atomic: concurrent calls, from any number of
// instances, act as if one after the other. Implementations are safe for
// concurrent use. A returned error means "we do not know whether it happened";
// a refusal is a value in the Answer.
type Store interface {
	// Take decides one attempt over all its tiers at once and fills ans
	// (whose slices are reused). It takes from every limit that has enough,
	// or, when the attempt is refused, from none.
	Take(ctx context.Context, ask *Ask, ans *Answer) error
	// Give books the outcome of an attempt once, and gives back what the
	// attempt still costs when its outcome says so.
	Give(ctx context.Context, ret *Return, rcp *Receipt) error
}

// Records are the marks that others set and a Take reads: posture, suspects,
// learned k, revocations. Values are made by the Encode functions.
type Records interface {
	// Put stores value under key for ttl microseconds.
	Put(ctx context.Context, key string, value []byte, ttl int64) error
	// Revoke stamps key with the store's clock (now, unless now is 0), so that
	// devices, places and proofs from before it count for nothing, and
	// returns the stamp. Each is later than the one before, whatever the clock
	// says. The mark lives for ttl microseconds.
	Revoke(ctx context.Context, key string, now, ttl int64) (int64, error)
}

// Lifetimes in microseconds.
const (
	Second          int64 = 1_000_000
	Day                   = 24 * 3600 * Second
	PlaceLifetime         = 30 * Day
	DeviceLifetime        = 90 * Day
	RequestLifetime       = 60 * Second
	AttemptLifetime       = 15 * 60 * Second
	Slack                 = 60 * Second // added to every bucket's time to full
	FailureWindow         = Day
	// ProofMemory is how long the mark of a used proof outlives it. A challenge
	// is one proof, but can be solved again while it lives (at most 20 minutes,
	// of which 10 are a wait), for a proof that lives 10 more: the mark of the
	// first must still be there then.
	ProofMemory = 20 * 60 * Second
	MaxFailures = 10 // times kept per account
)

// Ask is one attempt: every bucket and every mark that bears on it. Times are
// microseconds since the Unix epoch by the store's clock. An empty key means
// that the mark does not apply.
type Ask struct {
	// Now is the time; 0 means the store's own clock.
	Now int64
	// Deadline: a store that comes to decide after it writes nothing and
	// answers Late, because its caller has given up and answered by itself.
	// 0 means none (a networked store derives one from ctx).
	Deadline int64
	// Rules are the limits; Keys are the buckets, one per tier, in order.
	Rules *Rules
	Keys  []string
	// Cost in tokens. 0 looks without taking. Negative is an error. Tiers with
	// a device role go with a cost of 0 or 1 only.
	Cost int64
	// Costs, when given, is what each tier's limits are to give instead, from 1 to
	// Cost; not with device tiers.
	Costs []int64
	// Floor is the least rung, known before the store was asked (flood). It
	// does not bind a known device.
	Floor Rung
	// StoreGone is the least rung while the shared store is gone: a Fallback asks
	// its twin for it, beside Floor. It does not bind a known device.
	StoreGone Rung
	// Shadow takes from every limit that has a token whatever the answer, and
	// spends no proof.
	Shadow bool
	// AttemptID is the identity of the attempt that this ask makes if it is
	// let through: fresh random bytes.
	AttemptID [16]byte

	StateKey    string    // realm's posture and baseline (State)
	SuspectKeys [3]string // narrow and wide network, password (EncodeUntil)
	KKeys       [2]string // learned k of address and network (EncodeK)
	RevokedKey  string    // account's revocation stamp
	PlaceKey    string    // account at this address (familiar place)
	// WrongKey holds the account's wrong passwords (wrong.go), "" where Tags, of
	// the password under the keys of today and yesterday, are none.
	WrongKey string
	Tags     [2]Tag

	Device  Device
	Proof   Proof
	Request Request

	// Alone: the shared store has just failed, so a Fallback does not ask it.
	Alone bool

	gone Rung // StoreGone, once the store is
}

// Device is an authentic device token's claim. Zero when none was shown; then
// tiers with a device role must be absent from the rules.
type Device struct {
	Issued  int64 // time of the attempt that minted it; 0 = no device
	Expires int64
}

// Proof is an authentic proof, already found to be for this realm, flow,
// account and network. Zero when none was shown.
type Proof struct {
	Key       string // mark that counts its uses
	Rung      Rung   // what it lifts over
	Wait      int64  // for Delay: the wait it stands for
	Issued    int64
	NotBefore int64
	Expires   int64
	Uses      int64 // how many guesses it lets through
}

// Request makes a repeat of an ask that took something harmless: within
// its life a repeat with the same Body gets the first answer again, and
// one with another Body gets Conflict. What took nothing is judged anew. The
// mark is written with the first answer that has Taken (in shadow whatever Let
// says), and is looked at after the deadline and before anything is judged. A
// replay is the first answer whole, its Now included, with Replayed set; its
// Limits are empty when Rules.Shape is not the first's.
type Request struct {
	Key  string
	Body [16]byte // fingerprint of everything the caller sent
	Life int64    // how long it is remembered, in microseconds; 0 is RequestLifetime
}

// life is Life, or RequestLifetime.
func (r *Request) life() int64 {
	if r.Life == 0 {
		return RequestLifetime
	}
	return r.Life
}

// Status is the kind of an Answer.
type Status uint8

const (
	// Decided: Let, Needed and the rest say how.
	Decided Status = iota
	// Late: the deadline had passed; nothing was written or decided.
	Late
	// Conflict: the request id was used by another body; nothing was written.
	Conflict
	// Impossible: the cost is above a limit's whole capacity. Waiting never
	// helps. Nothing was written; Limits shows what is left.
	Impossible
)

// DeviceState is what became of the device claim.
type DeviceState uint8

const (
	DeviceNone    DeviceState = iota // no claim
	DeviceKnown                      // its buckets decided
	DeviceSpent                      // its own or the shared limit has run out: counts for nothing
	DeviceInvalid                    // expired, or from before a revocation
)

// ProofState is what became of the proof.
type ProofState uint8

const (
	ProofNone         ProofState = iota // no proof, or a good one that was not needed
	ProofUsed                           // it let the attempt through (in shadow: it would have)
	ProofExpired                        // past its time
	ProofSpent                          // all its guesses are used
	ProofTooEarly                       // before NotBefore, or its wait is shorter than the one needed now
	ProofInsufficient                   // a higher rung is needed
	ProofInvalid                        // issued before a revocation
	ProofRefused                        // an overfull twin could not have remembered its use
)

// Cause says which floors, beside the limits, ask for the needed rung.
type Cause uint8

// The causes.
const (
	ByPosture Cause = 1 << iota
	BySuspect
	ByFlood
	ByStoreGone
)

// Answer is what a Take decided. Times are by the store's clock.
type Answer struct {
	Status Status
	Now    int64
	// Let: the attempt is let through (in shadow: would be).
	Let bool
	// Taken: the attempt is made, so it must be sealed: tokens were taken, but of
	// a Repeat. In shadow this is true whatever Let says.
	Taken bool
	// Repeat: the password is one that was wrong for the account of late, so no
	// limit gives anything for it.
	Repeat bool
	// Replayed: this is the first answer to the same request, again.
	Replayed bool
	// Needed is the highest rung over all limits and floors, judged before
	// taking; Wait is the wait needed when it is Delay, else 0.
	Needed Rung
	Wait   int64
	Causes Cause
	InForce
	// Revoked is the account's revocation stamp, 0 for none. It can be ahead of
	// Now, where the clock has stepped back.
	Revoked  int64
	Device   DeviceState
	Familiar bool
	Proof    ProofState
	// ID is the attempt's identity: AttemptID of the ask, or the first's on a
	// replay.
	ID [16]byte
	// Limits has one entry per limit of the rules, tier by tier.
	Limits []LimitAnswer
	// Degraded: answered by the twin at this instance's share. NextProbe is then
	// the time in microseconds until the shared store is asked again, 0: at once.
	Degraded  bool
	NextProbe int64

	tiers [MaxTiers]tierWrite
}

// LimitAnswer is one limit after the decision.
type LimitAnswer struct {
	Tier   int  // index into Rules.Tiers
	Index  int  // index into its Limits
	Looked bool // false: the tier did not take part
	Took   bool
	Rung   Rung // judged before taking
	Limit  Limit
	Left   int64 // units, after

	counted bool // in force at all: a written bucket keeps a cell for it
}

// Born is the time that devices and proofs which come of this answer bear: Now,
// or just after the last revocation where the clock has stepped back over it. By
// their times alone they would be from before it, until it is there again.
func (ans *Answer) Born() int64 { return max(ans.Now, ans.Revoked+1) }

// Tokens is what is left in whole tokens.
func (l *LimitAnswer) Tokens() int64 {
	if l.Limit.Period == 0 {
		return 0
	}
	return l.Left / l.Limit.Period
}

type tierWrite struct {
	write    bool
	distrust bool
	rescaled bool
	stamp    int64
}

// Outcome is what the handler reports.
type Outcome uint8

// The outcomes; api's documents say when each is reported.
const (
	Success Outcome = iota + 1
	Failure
	UnknownAccount
	SecondFactorPending
	DeniedByPolicy
	NotChecked
	Abandoned
)

var outcomeNames = [...]string{"", "success", "failure", "unknown_account", "second_factor_pending", "denied_by_policy", "not_checked", "abandoned"}

// String returns the outcome's JSON name.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "outcome"
}

// ParseOutcome is the inverse of String; ok is false for any other word.
func ParseOutcome(s string) (o Outcome, ok bool) {
	for i, n := range outcomeNames {
		if i > 0 && n == s {
			return Outcome(i), true
		}
	}
	return 0, false
}

// GivesBack reports whether the outcome returns what its attempt still costs.
func (o Outcome) GivesBack() bool {
	switch o {
	case Success, SecondFactorPending, DeniedByPolicy, NotChecked:
		return true
	}
	return false
}

// Fails reports whether the outcome counts as a failed guess on the account.
func (o Outcome) Fails() bool { return o == Failure || o == UnknownAccount }

// Follows reports whether o may be recorded after prior: as the first, or once
// after SecondFactorPending as Success or Failure.
func (o Outcome) Follows(prior Outcome) bool {
	return prior == 0 || prior == SecondFactorPending && (o == Success || o == Failure)
}

// Return is the outcome of one attempt.
type Return struct {
	Now      int64
	Deadline int64
	// Rules and Keys are those in force now for the attempt's kind.
	Rules    *Rules
	Keys     []string
	StateKey string
	KKeys    [2]string

	Outcome Outcome
	// Stamp and Expires are the attempt's; from Expires on nothing is recorded.
	Stamp   int64
	Expires int64
	// Took is what the attempt took; empty when nothing is to be given back
	// (then Rules and Keys are not needed).
	Took []Took
	// Local: the attempt was answered by this instance's twin while the shared
	// store was gone, so it is the twin's buckets that get something back.
	Local bool
	// OutcomeKey is the attempt's mark, which makes an outcome count once.
	OutcomeKey string
	// PlaceKey is where Success (the first outcome or the second) writes the
	// familiar place, "" for none. It bears Stamp, and never goes back.
	PlaceKey string
	// FailuresKey holds the times of the account's last MaxFailures failures in
	// the order they came, "" for none.
	FailuresKey string
	// WrongKey and Tags are the Ask's: what Fails, as the first outcome, is known
	// as wrong from Stamp on; what proves the password right is so no more.
	WrongKey string
	Tags     [2]Tag
}

// Took is one limit that an attempt took one token from, as it was in force.
type Took struct {
	Tier  Tier
	Limit uint32 // LimitSpec.ID
	In    Limit
}

// Receipt is what a Give booked.
type Receipt struct {
	Status Status // Decided or Late
	Now    int64
	// Expired: the attempt's time had passed; nothing was recorded.
	Expired bool
	// Recorded: this outcome is now the attempt's. Duplicate: another one, or
	// the same, was already; nothing was changed.
	Recorded, Duplicate bool
	// Prior is the outcome that stood before, 0 for none.
	Prior Outcome
	// Failures is how many outcomes failed on the account within
	// FailureWindow, this one included, at most MaxFailures. 0 when nothing was
	// recorded.
	Failures int
	// Gave is the number of limits that got something back.
	Gave int
	// Degraded: booked by this instance alone.
	Degraded bool
}
