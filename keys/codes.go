package keys

import "context"

// Codes keep one live verification code per account, so that verification is
// neither a mail bomb nor a lockout. What a code says is the caller's: derived
// from a secret, the account and the serial. Implementations are safe for
// concurrent use, and every call is atomic.
//
// # How many mails
//
// Only when no code lives is a fresh one sent, and the n-th within 24 hours
// lives for CodeLife(n). n counts what was sent in the 24 hours before, which
// slide: were the count begun anew 24 hours after a first mail, as few as one
// patient press would buy a stranger 11 mails in one day, the end of one count
// and the beginning of the next. Of the mails of any 24 hours the j-th unused
// one lives for CodeLife(j) at least, and the lives of seven add up to 27 h
// 45 min: so at most 7 are never used (the contract says 8), whoever presses
// and whenever. Each code that the owner uses makes room for one more mail, or
// she could be kept out. A solved image has the live code sent again, at most
// MaxResends times in any 24 hours: 10 mails in all, 3 of them at the price of
// a picture.
//
// The newest mail holds a live code until that is used or its time is over,
// and as soon as none lives the next press sends one: nobody is kept out.
//
// # A mail that nobody saw go out
//
// Between the booking of a code and its mail the answer may be lost or the
// instance killed: a code of 12 hours lives, of which its owner never hears, and
// strangers may have used up the resends. So until ConfirmCode says that it was
// delivered, a solved image has it sent again however often, and MinCodeLife
// after the latest try so does any press. It is the same code, for its first mail
// may be late and not lost. A confirmation that is lost costs the owner a mail
// more, and strangers gain nothing by it that they can bring about.
//
// # Without a store
//
// When an error wraps ErrNoStore the caller goes on with the code of the
// quarter of an hour (Quarter), which any instance can verify: SendCode has
// filled its answer all the same, marked Degraded, and its State says what to
// do. Such a code is good in its own quarter and the next, as Code.Until says,
// and must be accepted whether or not a store is there by then; one use is for
// a Tally to enforce.
type Codes interface {
	// SendCode decides whether a code is to be sent, and which, and fills ans.
	// What it answers is booked: whoever asks must deliver and tell ConfirmCode, or
	// tell UnsendCode. If it fails, a code may live that was never delivered; a
	// solved image has it sent, or a press MinCodeLife later.
	SendCode(ctx context.Context, ask *CodeAsk, ans *CodeAnswer) error
	// LiveCode returns the account's live code; the zero Code when none lives.
	// key is Space.Code. now 0 is the store's clock, here and below.
	LiveCode(ctx context.Context, key string, now int64) (Code, error)
	// SpendCode ends the life of the live code, once: it reports whether serial
	// was live until now. The caller has compared what the visitor typed.
	SpendCode(ctx context.Context, key string, serial, now int64) (bool, error)
	// ConfirmCode says that the code of a CodeSent or CodeAgain, not Degraded, was
	// delivered. One that lives no more, or is not the newest, is left alone.
	ConfirmCode(ctx context.Context, key string, serial, now int64) error
	// UnsendCode says that the delivery of a CodeSent failed for good: it lives
	// no more and counts as not sent. It is nothing for a CodeAgain, whose first
	// mail may have arrived. A code already spent or confirmed, or unknown, is left
	// alone.
	UnsendCode(ctx context.Context, key string, serial, now int64) error
}

// Code is one verification code, without what it says.
type Code struct {
	// Serial names it: never used twice for an account, later ones are higher.
	Serial int64
	// Sent is when; Until is when its life ends. Microseconds.
	Sent, Until int64
	// Nth is its number among those sent within 24 hours, from 1; 16 is the
	// sixteenth or a later one.
	Nth int
}

// CodeAsk asks for a code to be sent to one account.
type CodeAsk struct {
	Now      int64 // 0: the store's clock
	Deadline int64 // as in Ask; a store that comes to it later returns ErrLate
	// Key is Space.Code of the account, SenderKey is Space.Sender of the address
	// that asks.
	Key, SenderKey string
	Account        Account
	// Proof is a solved image, zero when there is none. It is spent when it
	// changes the answer.
	Proof Proof
	// RevokedKey is the account's revocation: a proof from before counts for
	// nothing. "" for none.
	RevokedKey string
}

// CodeState is what is to be done.
type CodeState uint8

const (
	// CodePriced: nothing. From this address mail was sent for MaxSenderAccounts
	// other accounts within 24 hours (or a twin is too full to know): the sender
	// must solve an image first.
	CodePriced CodeState = iota
	// CodeLives: nothing. The code already delivered is still good.
	CodeLives
	// CodeSent: deliver this fresh code.
	CodeSent
	// CodeAgain: deliver the live code again, because an image was solved or its
	// delivery has not been confirmed.
	CodeAgain
)

var codeStateNames = [...]string{"priced", "lives", "sent", "again"}

// String returns one word.
func (s CodeState) String() string {
	if int(s) < len(codeStateNames) {
		return codeStateNames[s]
	}
	return "state"
}

// CodeAnswer is what SendCode decided. Times are by the store's clock.
type CodeAnswer struct {
	Now   int64
	State CodeState
	// Code is the account's live code; zero when State is CodePriced.
	Code Code
	// Proof is what became of the proof: ProofUsed when it changed the answer,
	// ProofNone also when it was not needed.
	Proof ProofState
	// Degraded: the code is that of the quarter of an hour Quarter(Code.Sent),
	// and its Serial only serves UnsendCode.
	Degraded bool
}

// The numbers of the contract.
const (
	CodeWindow        = Day
	MinCodeLife       = 15 * 60 * Second
	MaxCodeLife       = 12 * 3600 * Second
	MaxResends        = 3 // times an image has a live code sent again, in any CodeWindow
	MaxSenderAccounts = 3 // accounts an address may send for, in any CodeWindow, without an image
	// MaxQuarterMails is how many quarter-hour codes an instance sends to one
	// account in any CodeWindow before each further one costs an image: they live
	// too short for lengthening lives to bound their number.
	MaxQuarterMails = 8
	quarter         = 15 * 60 * Second
)

// Quarter is the number of the quarter of an hour that now is in, for codes
// without a store.
func Quarter(now int64) int64 { return now / quarter }

// CodeLife is how long the n-th code sent within 24 hours lives, in
// microseconds: 15 minutes, doubling up to 12 hours.
func CodeLife(n int) int64 {
	life := int64(MinCodeLife)
	for ; n > 1 && life < MaxCodeLife; n-- {
		life *= 2
	}
	return min(life, MaxCodeLife)
}

// Validate refuses what no store should be asked. Every store calls it first.
func (a *CodeAsk) Validate() error {
	switch {
	case a.Key == "" || a.SenderKey == "":
		return badAsk("a code needs the keys of its account and sender")
	case a.Now < 0 || a.Now > MaxExact/2 || a.Deadline < 0:
		return badAsk("the time is out of range")
	case a.Proof.Key == "" && a.Proof != Proof{}:
		return badAsk("a proof needs a key")
	case a.Proof.Key != "" && (a.Proof.Issued < 0 || a.Proof.Expires < 0 || a.Proof.Expires > MaxExact/2 || a.Proof.NotBefore < 0 || a.Proof.Uses < 1):
		return badAsk("the proof's numbers are out of range")
	}
	return nil
}

// ValidCode refuses what no store should be asked about a code. Every store
// calls it first.
func ValidCode(key string, serial, now int64) error {
	switch {
	case key == "":
		return badAsk("a code needs a key")
	case serial < 0 || serial > MaxExact:
		return badAsk("the serial is out of range")
	case now < 0 || now > MaxExact/2:
		return badAsk("the time is out of range")
	}
	return nil
}
