package redisstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"

	"github.com/guardd/guardd/keys"
)

// What goes to a script and comes back is one packed string each: Lua unpacks
// it in one call, and go-redis reads it without a slice of interfaces. Numbers
// are little-endian doubles, small ones bytes.

// call collects the keys of one script call. A mark that does not apply is left
// out and pointed at by 0: an empty key would move the call to another slot of a
// cluster.
type call struct {
	keys []string
	head []byte
}

func (c *call) number(n ...int64) {
	for _, v := range n {
		c.head = binary.LittleEndian.AppendUint64(c.head, math.Float64bits(float64(v)))
	}
}

func (c *call) small(n ...uint8) { c.head = append(c.head, n...) }

// key passes a key and tells the script where it is.
func (c *call) key(keys ...string) {
	for _, k := range keys {
		if k == "" {
			c.small(0)
			continue
		}
		c.keys = append(c.keys, k)
		c.small(uint8(len(c.keys)))
	}
}

func (c *call) tags(t *[2]keys.Tag) { c.head = append(append(c.head, t[0][:]...), t[1][:]...) }

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// packAsk makes the call of take.lua.
func packAsk(a *keys.Ask, deadline int64) call {
	c := call{keys: make([]string, 0, len(a.Keys)+11), head: make([]byte, 0, 144)}
	p := &a.Proof
	c.number(a.Now, deadline, a.Cost, a.Device.Issued, a.Device.Expires,
		p.Wait, p.Issued, p.NotBefore, p.Expires, p.Uses)
	c.small(uint8(a.Floor), flag(a.Shadow), uint8(p.Rung))
	c.key(a.StateKey, a.SuspectKeys[0], a.SuspectKeys[1], a.SuspectKeys[2], a.KKeys[0], a.KKeys[1],
		a.RevokedKey, a.PlaceKey, p.Key, a.Request.Key, a.WrongKey)
	var extra call
	if a.Costs != nil || a.Request.Life != 0 {
		extra.number(cmp.Or(a.Request.Life, keys.RequestLifetime))
		extra.number(a.Costs...)
	}
	c.small(uint8(len(c.keys)+1), uint8(len(extra.head)/8))
	c.keys = append(c.keys, a.Keys...)
	c.head = append(append(c.head, a.AttemptID[:]...), extra.head...)
	if a.WrongKey != "" {
		c.tags(&a.Tags)
	}
	c.head = append(c.head, a.Request.Body[:]...)
	return c
}

// Slots of the table of rules, as settle.lua lists them.
const (
	slotNormal = 5  // in Go, from 0: the effect of the posture normal
	slotHead   = 10 // the first tier
	slotTier   = 7
	slotLimit  = 7
)

// packReturn makes the call of give.lua, and what it gives back.
func packReturn(r *keys.Return, deadline int64) (c call, took []byte) {
	c = call{keys: make([]string, 0, len(r.Keys)+7), head: make([]byte, 0, 64)}
	c.number(r.Now, deadline, r.Stamp, r.Expires)
	c.small(uint8(r.Outcome))
	place, wrong := r.PlaceKey, r.WrongKey
	if r.Outcome != keys.Success {
		place = ""
	}
	if !r.Outcome.JudgesTag() {
		wrong = ""
	}
	c.key(r.OutcomeKey, r.FailuresKey, place, wrong)
	if r.Outcome.GivesBack() && len(r.Took) > 0 {
		took = packTook(r)
	}
	if len(took) == 0 {
		c.small(0, 0, 0, 0)
	} else {
		c.key(r.StateKey, r.KKeys[0], r.KKeys[1])
		c.small(uint8(len(c.keys) + 1))
		c.keys = append(c.keys, r.Keys...)
	}
	if wrong != "" {
		c.tags(&r.Tags)
	}
	return c, took
}

// packTook finds the taken limits that the rules still have.
func packTook(r *keys.Return) []byte {
	tiers := r.Rules.Tiers()
	var c call
	slot, result := slotHead, slotHead+slotTier*len(tiers)+slotLimit*r.Rules.LimitCount()
	for t := range tiers {
		for i := range tiers[t].Limits {
			for _, k := range r.Took {
				if k.Tier == tiers[t].Tier && k.Limit == tiers[t].Limits[i].ID() {
					c.number(int64(slot), int64(slot+slotTier+slotLimit*i), int64(result),
						k.In.Capacity, k.In.Count, k.In.Period)
				}
			}
			result += 2
		}
		slot += slotTier + slotLimit*len(tiers[t].Limits)
	}
	return c.head
}

var errReply = errors.New("the script's reply is not understood")

// reply reads what a script packed.
type reply struct {
	s   string
	bad bool
}

func (r *reply) small() uint8 {
	if len(r.s) < 1 {
		r.bad = true
		return 0
	}
	b := r.s[0]
	r.s = r.s[1:]
	return b
}

func (r *reply) number() int64 {
	if len(r.s) < 8 {
		r.bad = true
		return 0
	}
	var u uint64
	for i := 7; i >= 0; i-- {
		u = u<<8 | uint64(r.s[i])
	}
	r.s = r.s[8:]
	f := math.Float64frombits(u)
	if !(f >= 0 && f <= float64(keys.MaxExact) && f == math.Trunc(f)) {
		r.bad = true
		return 0
	}
	return int64(f)
}

// from reads a small number of at least least and at most most.
func (r *reply) from(least, most uint8) uint8 {
	n := r.small()
	if n < least || n > most {
		r.bad = true
		return least
	}
	return n
}

// replayed marks the first answer to a request, given again.
const replayed = 16

// readAnswer fills ans from a reply of take.lua. What no script says is an
// error, as is the answer to another attempt: replies that crossed would let
// one visitor through on another's account.
func readAnswer(a *keys.Ask, s string, ans *keys.Answer) error {
	limits := ans.Limits[:0]
	r := reply{s: s}
	status := r.small()
	r.bad = status > uint8(keys.Impossible) && status != replayed
	*ans = keys.Answer{Status: keys.Status(status), Now: r.number(), ID: a.AttemptID, Limits: limits}
	if ans.Status == keys.Late || ans.Status == keys.Conflict {
		return r.end()
	}
	if status == replayed {
		ans.Status, ans.Replayed = keys.Decided, true
	}
	shape := r.number()
	ans.Wait = r.number()
	ans.Baseline = keys.Limit{Capacity: r.number(), Count: r.number(), Period: r.number()}
	ans.Revoked = r.number()
	ans.Let = r.small() == 1
	made := r.from(0, 3)
	ans.Taken, ans.Repeat = made&1 != 0, made&2 != 0
	ans.Needed, ans.Causes = keys.Rung(r.from(0, uint8(keys.Verify))), keys.Cause(r.small())
	ans.Posture = keys.Posture(r.from(0, uint8(keys.Critical)))
	ans.K = [2]int64{int64(r.from(1, keys.MaxK)), int64(r.from(1, keys.MaxK))}
	ans.Device, ans.Familiar = keys.DeviceState(r.from(0, uint8(keys.DeviceInvalid))), r.small() == 1
	ans.Proof = keys.ProofState(r.from(0, uint8(keys.ProofInvalid)))
	if len(r.s) < len(ans.ID) {
		return errReply
	}
	r.s = r.s[copy(ans.ID[:], r.s):]
	same := shape == int64(a.Rules.Shape())
	switch {
	case r.bad, !ans.Replayed && (!same || ans.ID != a.AttemptID):
		return errReply
	case !same:
		return nil // a repeat under other rules
	}
	for t := range a.Rules.Tiers() {
		for i := range a.Rules.Tiers()[t].Limits {
			l := keys.LimitAnswer{Tier: t, Index: i}
			l.Limit, _ = a.Rules.Limit(t, i, &ans.InForce)
			code := r.from(0, uint8(keys.Verify)<<2|3)
			l.Looked, l.Took, l.Rung = code&1 != 0, code&2 != 0, keys.Rung(code>>2)
			l.Left = r.number()
			ans.Limits = append(ans.Limits, l)
		}
	}
	if ans.Replayed { // the rules' numbers may have changed since
		for i := range ans.Limits {
			ans.Limits[i].Limit = keys.Limit{Capacity: r.number(), Count: r.number(), Period: r.number()}
		}
	}
	return r.end()
}

// readReceipt fills rcp from a reply of give.lua.
func readReceipt(s string, rcp *keys.Receipt) error {
	r := reply{s: s}
	*rcp = keys.Receipt{Status: keys.Status(r.from(0, uint8(keys.Late))), Now: r.number(), Expired: r.small() == 1}
	rcp.Recorded, rcp.Prior = r.small() == 1, keys.Outcome(r.from(0, uint8(keys.Abandoned)))
	rcp.Failures, rcp.Gave = int(r.small()), int(r.small())
	rcp.Duplicate = rcp.Status == keys.Decided && !rcp.Expired && !rcp.Recorded
	return r.end()
}

func (r *reply) end() error {
	if r.bad || r.s != "" {
		return errReply
	}
	return nil
}
