package escalation

import (
	"time"

	"github.com/guardd/guardd/keys"
)

// Policy is everything that is decided by configuration, as data. Make one
// with DefaultPolicy or by decoding the `realms:` part of the configuration
// (strictly: unknown keys are the decoder's to refuse), then Validate it. A
// validated policy must not be changed; a Guard swaps it whole.
type Policy struct {
	Realms map[string]*Realm `yaml:"realms"`

	compiled map[string]*realmRules
}

// Realm is one tenant's part of the policy.
type Realm struct {
	// Normalise says which spellings of a name are one account. Default fold.
	Normalise keys.Normalisation `yaml:"normalise,omitempty"`
	// FamiliarPlaces lets an account skip the address and global tiers where
	// it has signed in within 30 days. Default true.
	FamiliarPlaces *bool `yaml:"familiar_places,omitempty"`
	// Events says whether attempts and outcomes are published, and so watched
	// all together. Default true.
	Events *bool `yaml:"events,omitempty"`
	// ClearNames has account names told, beside their hashes, to those who are told
	// what was found (a SOC). Until then they travel sealed. Default false.
	ClearNames bool `yaml:"clear_names,omitempty"`
	// PepperFile names the file with the key for hashing names, so that it
	// outlives the sealing secrets. Whoever reads files fills Pepper from it.
	PepperFile string `yaml:"pepper_file,omitempty"`
	Pepper     []byte `yaml:"-" json:"-"`
	// Lists are the operator's addresses.
	Lists Lists `yaml:"lists,omitempty"`
	// ReturnOrigins are the origins (https://app.example.com) that a
	// return_url may have.
	ReturnOrigins []string `yaml:"return_origins,omitempty"`
	// Delivery brings codes and notices to the accounts' owners. It is needed:
	// the default policy has {driver: log}.
	Delivery Delivery `yaml:"delivery,omitempty"`
	// Pow is the proof of work that can stand in place of a wait.
	Pow Pow `yaml:"pow,omitempty"`
	// Providers are third parties that can stand in place of a picture.
	Providers []ThirdParty `yaml:"providers,omitempty"`
	// Notices say what an account's owner is told of: some of Notices. Default
	// all.
	Notices []string `yaml:"notices,omitempty"`
	// Shards spreads a realm that is too large for one slot of a Redis Cluster
	// over so many, by account. Counters of accounts and pairs stay exact; ip,
	// network and global become as many sub-buckets, each a Shards-th of the
	// capacity and of the refill. A request_id is known in its account's shard
	// only, and so is for whom an address has had codes sent. Changing it moves
	// accounts to shards where nothing is known of them: counts begin anew, and
	// revocations have to be repeated. Default 1.
	Shards int `yaml:"shards,omitempty"`
	// StoreGone is login's (Flow.StoreGone) where it does not say otherwise. Default
	// local.
	StoreGone string `yaml:"store_gone,omitempty"`
	// Breached is login's (Flow.Breached) where it does not say otherwise.
	Breached Breached `yaml:"breached,omitempty"`
	// Postures say what elevated, high and critical do.
	Postures map[string]*Effect `yaml:"postures,omitempty"`
	// Flows holds login and, where they differ from it, otp, reset, signup.
	Flows map[string]*Flow `yaml:"flows,omitempty"`
}

// Lists are addresses treated apart. The most specific entry wins; on a tie
// deny wins.
type Lists struct {
	// Allow exempts from tiers ip and network and from the flood guard.
	Allow []ListEntry `yaml:"allow,omitempty"`
	// Deny answers deny.
	Deny []ListEntry `yaml:"deny,omitempty"`
}

// ListEntry is one address or network and why it is listed.
type ListEntry struct {
	CIDR   string `yaml:"cidr"`
	Reason string `yaml:"reason,omitempty"`
	// ExpiresAt is when it ends, as 2026-01-31T12:00:00Z; without one it stays.
	ExpiresAt time.Time `yaml:"expires_at,omitempty"`
	// Force says that an entry for half of the Internet, or all of it, is meant.
	Force bool `yaml:"force,omitempty"`
}

// Effect is what a posture does.
type Effect struct {
	// Floor is the least rung of unknown devices in unfamiliar places: delay,
	// captcha or verify; "" is none.
	Floor string `yaml:"floor,omitempty"`
	// Divisor tightens tier global; 0 and 1 leave it alone.
	Divisor int64 `yaml:"divisor,omitempty"`
	// Uncounted leaves tier global out altogether.
	Uncounted bool `yaml:"uncounted,omitempty"`
}

// Flow is the policy of one kind of guessing.
type Flow struct {
	// Delay is the wait of the delay rung: base x 2^n up to max.
	Delay Delay `yaml:"delay,omitempty"`
	// StoreGone says what unknown devices meet at least while the shared store is
	// gone: local (the ladder, at this instance's share), challenge (a captcha) or
	// closed (a code). Known devices keep passing. Default: login's, and the realm's for that.
	StoreGone string `yaml:"store_gone,omitempty"`
	// Breached says what a success with a breached password leads to. Default:
	// login's, and the realm's for that.
	Breached Breached `yaml:"breached,omitempty"`
	// Limits are laid over the default table row by row, by tier and name:
	// what a row leaves out stays as it was.
	Limits []Limit `yaml:"limits,omitempty"`
}

// Delay is the shortest and the longest wait.
type Delay struct {
	Base Duration `yaml:"base,omitempty"`
	Max  Duration `yaml:"max,omitempty"`
}

// Limit is one row of the table.
type Limit struct {
	Tier string `yaml:"tier"`
	Name string `yaml:"name"`
	// Capacity in tokens. Tier global without one is only observed until a
	// baseline is learned; tier network without one is 8 x tier ip. Those of
	// ip, network and flood are per k, the learned size of the address.
	Capacity *int64 `yaml:"capacity,omitempty"`
	Refill   Refill `yaml:"refill,omitempty"`
	// The shares left at which the rungs begin.
	Delay   Percent `yaml:"delay,omitempty"`
	Captcha Percent `yaml:"captcha,omitempty"`
	Verify  Percent `yaml:"verify,omitempty"`
	// Off removes the row.
	Off bool `yaml:"off,omitempty"`
}
