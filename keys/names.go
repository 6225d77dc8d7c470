package keys

import (
	"net/netip"
	"strconv"
)

// Space names the keys of one shard of one realm. All of them carry one hash
// tag, so that an attempt's script call stays on one slot of a Redis Cluster.
type Space struct{ prefix string }

// NewSpace returns the key space of a realm's shard. Realm names hold no
// braces (policy validation sees to it).
func NewSpace(realm string, shard int) Space {
	return Space{"gd:{" + realm + "/" + strconv.Itoa(shard) + "}:"}
}

// State is the realm's posture and baseline.
func (s Space) State() string { return s.prefix + "state" }

// Account, IP, ... are bucket keys, per flow.
func (s Space) Account(flow string, a Account) string { return s.Visitor(a, Address{}).Account(flow) }

// Pair is the bucket of an account at an address.
func (s Space) Pair(flow string, a Account, ip Address) string { return s.Visitor(a, ip).Pair(flow) }

// IP is the bucket of an address (IPv6 /64).
func (s Space) IP(flow string, ip Address) string { return s.Visitor(Account{}, ip).IP(flow) }

// Network is the bucket of an IPv6 /48.
func (s Space) Network(flow string, ip Address) string { return s.Visitor(Account{}, ip).Network(flow) }

// Devices is the bucket that all known devices of an account share.
func (s Space) Devices(flow string, a Account) string { return s.Visitor(a, Address{}).Devices(flow) }

// Lists is what operators have listed, a document of the realm's first shard.
func (s Space) Lists() string { return s.prefix + "lists" }

// Suspect is the mark of a suspect network: Address.Counted or Address.Wide.
func (s Space) Suspect(p netip.Prefix) string { return s.prefix + "suspect:" + prefixText(p) }

// SuspectTag is the mark of a password that is tried on many accounts: its tag
// under the key of the day, as events have it.
func (s Space) SuspectTag(tag string) string { return s.prefix + "suspect:tag:" + tag }

// K is the learned size of a shared address or network.
func (s Space) K(p netip.Prefix) string { return s.prefix + "k:" + prefixText(p) }

// Revoked is the account's revocation stamp.
func (s Space) Revoked(a Account) string { return s.Visitor(a, Address{}).Revoked() }

// Place marks that the account signed in from the address.
func (s Space) Place(a Account, ip Address) string { return s.Visitor(a, ip).Place() }

// Global is the bucket of everything in the flow.
func (s Space) Global(flow string) string { return s.prefix + flow + ":global" }

// Device is the bucket of one known device of one account.
func (s Space) Device(flow string, id string) string { return s.prefix + flow + ":device:" + id }

// Proof counts the uses of one proof.
func (s Space) Proof(id string) string { return s.prefix + "proof:" + id }

// Request holds the first answer to a request id (already hashed by the caller).
func (s Space) Request(flow, id string) string { return s.prefix + flow + ":request:" + id }

// Outcome makes an attempt's outcome count once.
func (s Space) Outcome(id string) string { return s.prefix + "outcome:" + id }

// Failures holds the times of the account's last failures.
func (s Space) Failures(a Account) string { return s.prefix + "failures:" + a.String() }

// Wrong holds the account's wrong passwords, of logins alone: what is guessed at
// in other flows changes by itself, so that what was wrong may soon be right.
func (s Space) Wrong(a Account) string { return s.Visitor(a, Address{}).Wrong() }

// Code is the account's live verification code, over all flows.
func (s Space) Code(a Account) string { return s.prefix + "code:" + a.String() }

// Sender holds for which accounts codes were sent from the address. In a realm
// of several shards each shard has its own.
func (s Space) Sender(ip Address) string { return s.prefix + "sender:" + prefixText(ip.Counted()) }

// Tally counts events of one kind ("answer", "image", ...) about id.
func (s Space) Tally(kind, id string) string { return s.prefix + "tally:" + kind + ":" + id }

// Visitor names what bears on an account and an address, in Space's words. Their
// texts, which a dozen names are made of, are made once.
type Visitor struct {
	Space
	account, counted, wide string
}

// Visitor returns the names of a and ip in this space.
func (s Space) Visitor(a Account, ip Address) Visitor {
	return Visitor{s, a.String(), prefixText(ip.Counted()), prefixText(ip.Wide())}
}

// In is the same visitor in another space.
func (v Visitor) In(s Space) Visitor {
	v.Space = s
	return v
}

// Account is Space.Account.
func (v Visitor) Account(flow string) string { return v.prefix + flow + ":account:" + v.account }

// Pair is Space.Pair.
func (v Visitor) Pair(flow string) string {
	return v.prefix + flow + ":pair:" + v.account + ":" + v.counted
}

// IP is Space.IP.
func (v Visitor) IP(flow string) string { return v.prefix + flow + ":ip:" + v.counted }

// Network is Space.Network.
func (v Visitor) Network(flow string) string { return v.prefix + flow + ":network:" + v.wide }

// Devices is Space.Devices.
func (v Visitor) Devices(flow string) string { return v.prefix + flow + ":devices:" + v.account }

// Suspects are Space.Suspect of the address and its neighbourhood, and
// Space.SuspectTag of the password's tag, "" for none.
func (v Visitor) Suspects(tag string) (names [3]string) {
	names[0], names[1] = v.prefix+"suspect:"+v.counted, v.prefix+"suspect:"+v.wide
	if tag != "" {
		names[2] = v.SuspectTag(tag)
	}
	return names
}

// K is Space.K of the address.
func (v Visitor) K() string { return v.prefix + "k:" + v.counted }

// WideK is Space.K of the address's neighbourhood.
func (v Visitor) WideK() string { return v.prefix + "k:" + v.wide }

// Revoked is Space.Revoked.
func (v Visitor) Revoked() string { return v.prefix + "revoked:" + v.account }

// Place is Space.Place.
func (v Visitor) Place() string { return v.prefix + "place:" + v.account + ":" + v.counted }

// Wrong is Space.Wrong.
func (v Visitor) Wrong() string { return v.prefix + "wrong:" + v.account }

// prefixText is the address alone where the length is the family's usual one.
func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// Recents is the stream of what a realm decided of late. It is large, so it has a
// slot of its own in a Redis Cluster.
func Recents(realm string) string { return "gd:{" + realm + "/recents}:stream" }

// Learned is a document of what was learned of a realm over days, so that it
// outlives whoever learned it.
func Learned(realm, what string) string { return "gd:{" + realm + "/learned}:" + what }

// PlanKeys names the keys of one caller of a general API: all in one slot of a
// Redis Cluster, so that a take of several rules is one step.
type PlanKeys struct{ prefix string }

// PlanSpace returns the keys of the caller whose hash is a.
func PlanSpace(a Account) PlanKeys { return PlanKeys{"gd:{plan/" + a.String() + "}:"} }

// PlanShard returns the keys of the caller's sub-buckets in another slot; shard 0
// is PlanSpace.
func PlanShard(a Account, shard int) PlanKeys {
	if shard == 0 {
		return PlanSpace(a)
	}
	return PlanKeys{"gd:{plan/" + a.String() + "/" + strconv.Itoa(shard) + "}:"}
}

// Rule is the bucket of one rule.
func (p PlanKeys) Rule(name string) string { return p.prefix + "rule:" + name }

// Request holds the first answer to a request id (already hashed by the caller).
func (p PlanKeys) Request(id string) string { return p.prefix + "request:" + id }

// Slots is the set of occupied places of one rule.
func (p PlanKeys) Slots(name string) string { return p.prefix + "slots:" + name }

// Usage is what was drawn of a quota in the period that begins at start, Unix
// microseconds.
func (p PlanKeys) Usage(name string, start int64) string {
	return p.prefix + "usage:" + name + ":" + strconv.FormatInt(start, 10)
}

// Settled makes a settlement count once.
func (p PlanKeys) Settled(id string) string { return p.prefix + "settled:" + id }

// Refusals holds the caller's last refusals (TrailRow).
func (p PlanKeys) Refusals() string { return p.prefix + "refusals" }

// Sums holds a segment of the caller's sums (TrailRow).
func (p PlanKeys) Sums(segment int64) string {
	return p.prefix + "sums:" + strconv.FormatInt(segment, 10)
}
