package keystest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

// Walk is the random walk: for each seed, steps of everything that can happen
// to a store, in an order and with numbers that nobody would think of, asked
// of every subject and of the oracle. All must say the same after every step.
// Time is owned; it also steps back, and far ahead. Limits are drawn up to the
// bound that loading allows.
func Walk(t *testing.T, seeds, steps int, subjects ...Named) {
	seen := map[string]int{}
	for seed := range seeds * soak(t) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newWalker(t, uint64(seed), subjects)
			w.seen = seen
			w.run(steps)
		})
	}
	if seeds*steps < 50_000 || t.Failed() {
		return
	}
	for _, what := range everything {
		if seen[what] < 20 {
			t.Errorf("the walk met %q %d times: it no longer goes there", what, seen[what])
		}
	}
}

// everything is what a walk must have met to mean anything.
var everything = []string{
	"status decided", "status late", "status conflict", "status impossible", "replayed", "familiar", "shadow, not let",
	"needed 0", "needed 1", "needed 2", "needed 3", "posture", "suspect", "flood",
	"device none", "device known", "device spent", "device invalid",
	"proof none", "proof used", "proof expired", "proof spent", "proof too_early", "proof insufficient", "proof invalid",
	"k", "baseline", "took some only", "gave", "gave some only", "expired", "duplicate", "second outcome", "failures",
	"repeat", "repeat, refused", "repeat that succeeded", "repeat pushed out", "repeat undone by a revocation",
	"clock back", "rules changed", "kept for others", "wrong type", "limit at the bound of loading",
}

func (w *walker) met(what string, when bool) {
	if when {
		w.seen[what]++
	}
}

func (w *walker) metAnswer(q *oracle.Ask, a *oracle.Answer) {
	took, passed := false, false
	for _, l := range a.Limits {
		took = took || l.Took
		passed = passed || l.Looked && !l.Took
	}
	w.met("status "+a.Status, true)
	if a.Status != "decided" {
		return
	}
	w.met(fmt.Sprintf("needed %d", a.Needed), true)
	w.met("device "+a.Device, true)
	w.met("proof "+a.Proof, true)
	w.met("replayed", a.Replayed)
	w.met("repeat", a.Repeat && a.Taken)
	w.met("repeat, refused", a.Repeat && !a.Let)
	w.met("familiar", a.Familiar)
	w.met("shadow, not let", q.Shadow && !a.Let)
	w.met("posture", a.ByPosture)
	w.met("suspect", a.BySuspect)
	w.met("flood", a.ByFlood)
	w.met("k", a.K[0] > 1)
	w.met("baseline", a.Baseline.Capacity > 0)
	w.met("took some only", took && passed)
}

func (w *walker) metReceipt(r *oracle.Return, a *oracle.Receipt) {
	w.met("gave", a.Gave > 0)
	w.met("gave some only", a.Gave > 0 && a.Gave < len(r.Took))
	w.met("expired", a.Expired)
	w.met("duplicate", a.Duplicate)
	w.met("second outcome", a.Recorded && a.Prior != "")
	w.met("failures", a.Failures > 1)
}

const (
	clockLow  = int64(1) << 40
	clockHigh = int64(1) << 52
	walkTTL   = 30 * keys.Day // records outlive the walk
)

type walker struct {
	draw
	t        *testing.T
	subjects []Named
	world    *oracle.World
	ctx      context.Context
	now      int64

	space    keys.Space
	rules    [2]*oracle.Rules // without and with device tiers
	compiled [2]*keys.Rules
	proofs   []oracle.Proof
	made     []made
	seen     map[string]int
	done     []string // the last steps, for the failure message
}

// made is an attempt that was let through.
type made struct {
	ask  oracle.Ask
	ret  oracle.Return
	kind int
	// again: it was a repeat.
	again bool
}

type request struct {
	key  string
	body [16]byte
}

func newWalker(t *testing.T, seed uint64, subjects []Named) *walker {
	w := &walker{draw: draw{rand.New(rand.NewPCG(seed, 7))}, t: t, subjects: subjects, world: oracle.New(), ctx: t.Context(),
		now: time.Now().UnixMicro(), space: keys.NewSpace(fmt.Sprintf("walk-%d-%s", seed, unique()), 0)}
	w.newRules()
	return w
}

// realLife is less than the shortest TTL that a key is given. Redis ends keys by
// the machine's clock, whatever time the walk owns: on a machine so busy that a seed
// took three minutes it had forgotten a request that the oracle knew.
const realLife = 50 * time.Second

func (w *walker) run(steps int) {
	began := time.Now()
	for i := range steps {
		if time.Since(began) > realLife {
			w.t.Logf("ended after %d of %d steps, before the keys do", i, steps)
			return // what all seeds have met is counted
		}
		w.tick()
		switch n := w.IntN(100); {
		case n < 78:
			w.take()
		case n < 88:
			w.give()
		case n < 93:
			w.record()
		case n < 94:
			switch w.IntN(9) {
			case 0, 1, 2:
				w.revoke()
			case 3:
				w.mistakes()
			}
		case n < 97:
			w.changeRules()
		case n < 98:
			w.wrongType()
		default:
			w.newProof()
		}
		if w.t.Failed() {
			w.t.Fatalf("at step %d, after:\n%s", i, strings.Join(w.done, "\n"))
		}
	}
}

func (w *walker) note(format string, args ...any) {
	if len(w.done) == 8 {
		w.done = w.done[1:]
	}
	w.done = append(w.done, fmt.Sprintf("%d ", w.now)+fmt.Sprintf(format, args...))
}

// tick moves the clock: mostly by what matters to some limit in force.
func (w *walker) tick() {
	r := w.rules[1]
	t := pick(w.draw, r.Tiers)
	l := pick(w.draw, t.Limits).Limit
	token, full := int64(1), int64(1)
	if l.Count > 0 {
		token, full = l.Period/l.Count, l.Capacity*l.Period/l.Count
	}
	var by int64
	switch n := w.IntN(100); {
	case n < 30:
	case n < 45:
		by = int64(w.IntN(3))
	case n < 65:
		by = token + int64(w.IntN(3)) - 1
	case n < 80:
		by = w.Int64N(token*3 + 1)
	case n < 84:
		by = w.Int64N(full + 1)
	case n < 86:
		by = full + int64(w.IntN(3)) - 1
	case n < 90:
		by = -w.Int64N(token + 2)
	case n < 92:
		by = -w.Int64N(full + 2)
	case n < 93:
		by = full*2 + w.Int64N(100*keys.Second)
	case n < 94:
		by = -full*2 - w.Int64N(100*keys.Second)
	case n < 97:
		by = w.Int64N(600 * keys.Second)
	case n < 98:
		by = w.Int64N(40 * keys.Day)
	default:
		by = w.Int64N(20 * keys.Second)
	}
	w.met("clock back", by < 0)
	if to := w.now + by; to > clockLow && to < clockHigh {
		w.now = to
	} else {
		w.now = clockLow + w.Int64N(clockHigh/2)
	}
}

func (w *walker) account() keys.Account { return keys.Account{byte(w.IntN(2))} }

var addresses = []string{"203.0.113.7", "2001:db8::1", "2001:db8:0:1::1"}

func (w *walker) address() keys.Address {
	a, err := keys.ParseAddress(pick(w.draw, addresses))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *walker) bucketKeys(kind int, a keys.Account, ip keys.Address) (names []string) {
	for _, t := range w.rules[kind].Tiers {
		names = append(names, map[string]string{
			"pair": w.space.Pair("login", a, ip), "account": w.space.Account("login", a), "ip": w.space.IP("login", ip),
			"network": w.space.Network("login", ip), "global": w.space.Global("login"),
			"device": w.space.Device("login", a.String()+"d"), "devices": w.space.Devices("login", a),
		}[t.Kind])
	}
	return names
}

func (w *walker) newAsk() (q oracle.Ask, a keys.Account, kind int) {
	a, kind = w.account(), w.IntN(2)
	ip := w.address()
	q = oracle.Ask{Now: w.now, Rules: w.rules[kind], Keys: w.bucketKeys(kind, a, ip), Cost: 1, State: w.space.State(),
		Suspects: [3]string{w.space.Suspect(ip.Counted()), w.space.Suspect(ip.Wide()), w.space.SuspectTag(sheetTag)},
		K:        [2]string{w.space.K(ip.Counted()), w.space.K(ip.Wide())},
		Revoked:  w.space.Revoked(a), Place: w.space.Place(a, ip)}
	w.bytes(q.ID[:])
	if kind == 1 {
		q.Device = oracle.Device{Issued: w.now - w.Int64N(10*keys.Day), Expires: w.now + w.Int64N(10*keys.Day) - keys.Day/10}
	}
	switch n := w.IntN(40); {
	case n < 4:
		q.Cost = 0
	case n < 8 && kind == 0:
		q.Cost = 1 + int64(w.IntN(8))
	case n < 9 && kind == 0:
		q.Cost = 1 + w.Int64N(keys.MaxExact)
	}
	q.Shadow = w.one(20)
	if w.one(20) {
		q.Floor = w.IntN(4)
	}
	switch {
	case w.one(30):
		q.Deadline = w.now - 1
	case w.one(4):
		q.Deadline = w.now + w.Int64N(2)
	}
	if w.one(30) {
		q.State, q.Suspects[0], q.K[1], q.Place, q.Revoked = "", "", "", "", ""
	}
	if len(w.proofs) > 0 && w.one(2) {
		q.Proof = pick(w.draw, w.proofs)
	}
	if !w.one(3) {
		q.Wrong = w.space.Wrong(a)
		q.Tags = [2]string{w.password(), w.password()}
	}
	if w.one(8) {
		r := request{w.space.Request("login", fmt.Sprint(w.IntN(6))), [16]byte{byte(w.IntN(2))}}
		q.RequestKey, q.Body = r.key, r.body
	}
	return q, a, kind
}

// password is one of a few tags.
func (w *walker) password() string { return fmt.Sprintf("secret%02d", w.IntN(16)) }

func (w *walker) take() { w.ask(w.newAsk()) }

func (w *walker) ask(q oracle.Ask, a keys.Account, kind int) {
	kept, undone := w.world.Kept, w.world.Undone
	want := w.world.Take(q)
	w.met("kept for others", w.world.Kept > kept)
	w.met("repeat undone by a revocation", w.world.Undone > undone)
	w.note("take %s -> %s", brief(&q), short(&want))
	w.metAnswer(&q, &want)
	for _, l := range want.Limits { // with four tokens more it would not load
		w.met("limit at the bound of loading", l.Took && (l.Limit.Capacity+4)*l.Limit.Period > keys.MaxExact)
	}
	for _, s := range w.subjects {
		var ans keys.Answer
		if err := s.Subject.Take(w.ctx, ask(&q, w.compiled[kind]), &ans); err != nil {
			w.t.Errorf("%s: %v", s.Name, err)
			return
		}
		if diff := want.Diff(answer(&ans)); diff != "" {
			w.t.Errorf("%s differs from the oracle:\n%s", s.Name, diff)
		}
	}
	if want.Taken && q.Cost == 1 {
		w.remember(q, a, kind, want)
	}
}

// brief and short say what a failure message needs.
func brief(q *oracle.Ask) string {
	s := fmt.Sprintf("cost %d floor %d shadow %t", q.Cost, q.Floor, q.Shadow)
	for _, k := range q.Keys {
		_, k, _ = strings.Cut(k, "}:login:")
		s += " " + k
	}
	if q.Deadline != 0 {
		s += fmt.Sprintf(" deadline %+d", q.Deadline-q.Now)
	}
	if q.Device.Issued != 0 {
		s += fmt.Sprintf(" device %+d..%+d", q.Device.Issued-q.Now, q.Device.Expires-q.Now)
	}
	if q.Proof.Key != "" {
		s += fmt.Sprintf(" proof %+v", q.Proof)
	}
	if q.RequestKey != "" {
		s += fmt.Sprintf(" request %s %d", q.RequestKey[len(q.RequestKey)-1:], q.Body[0])
	}
	return s
}

func short(a *oracle.Answer) string {
	s := fmt.Sprintf("%s let %t taken %t needed %d device %s familiar %t proof %s replayed %t", a.Status, a.Let, a.Taken, a.Needed, a.Device, a.Familiar, a.Proof, a.Replayed)
	for _, l := range a.Limits {
		s += fmt.Sprintf("\n\t%d.%d %v left %d rung %d looked %t took %t", l.Tier, l.Index, l.Limit, l.Left, l.Rung, l.Looked, l.Took)
	}
	return s
}

func (w *walker) remember(q oracle.Ask, a keys.Account, kind int, ans oracle.Answer) {
	r := oracle.Return{Stamp: ans.Now, Expires: ans.Now + keys.AttemptLifetime, Keys: q.Keys, State: q.State, K: q.K,
		Mark: w.space.Outcome(fmt.Sprintf("%x", ans.ID)), Place: q.Place, Wrong: q.Wrong, Tags: q.Tags,
		FailuresKey: w.space.Failures(a)}
	for _, l := range ans.Limits {
		if l.Took {
			t := q.Rules.Tiers[l.Tier]
			r.Took = append(r.Took, oracle.Took{Kind: t.Kind, Name: t.Limits[l.Index].Name, In: l.Limit})
		}
	}
	if len(w.made) == 12 {
		w.made = w.made[1:]
	}
	w.made = append(w.made, made{q, r, kind, ans.Repeat})
}

func (w *walker) give() {
	if len(w.made) == 0 {
		return
	}
	m := w.made[len(w.made)-1-int(w.Int64N(int64(len(w.made))))]
	outcome := pick(w.draw, []string{"success", "success", "success", "failure", "failure", "failure", "failure", "unknown_account", "second_factor_pending",
		"second_factor_pending", "denied_by_policy", "not_checked", "abandoned"})
	w.tell(m, outcome)
}

func (w *walker) tell(m made, outcome string) {
	r := m.ret
	r.Now, r.Rules, r.Outcome = w.now, w.rules[m.kind], outcome
	if len(r.Keys) != len(r.Rules.Tiers) || w.one(20) {
		r.Took = nil
	}
	if w.one(20) {
		r.Deadline = w.now - 1
	}
	if w.one(10) {
		r.Place = ""
	}
	forgotten := w.world.Forgotten
	want := w.world.Give(r)
	w.metReceipt(&r, &want)
	w.met("repeat that succeeded", m.again && want.Recorded && r.Outcome == "success")
	w.met("repeat pushed out", w.world.Forgotten > forgotten)
	w.note("give %s of %d took %v -> %+v", r.Outcome, r.Stamp, r.Took, want)
	for _, s := range w.subjects {
		var rcp keys.Receipt
		if err := s.Subject.Give(w.ctx, ret(&r, w.compiled[m.kind]), &rcp); err != nil {
			w.t.Errorf("%s: %v", s.Name, err)
			return
		}
		if got := receipt(&rcp); got != want {
			w.t.Errorf("%s differs from the oracle:\n got %+v\nwant %+v", s.Name, got, want)
		}
	}
}

// mistakes are more wrong passwords than are known of an account, in shadow so
// that none is refused.
func (w *walker) mistakes() {
	for range 12 {
		w.now += int64(w.IntN(3))
		q, _, kind := w.newAsk()
		a := keys.Account{}
		q.Cost, q.Shadow, q.Deadline, q.RequestKey = 1, true, 0, ""
		q.Wrong, q.Tags = w.space.Wrong(a), [2]string{w.password(), w.password()}
		w.ask(q, a, kind)
		if !w.t.Failed() {
			w.tell(w.made[len(w.made)-1], "failure")
		}
	}
}

// record puts what the aggregator or an operator would, and sometimes garbage.
func (w *walker) record() {
	ip := w.address()
	net := ip.Counted()
	if w.one(2) {
		net = ip.Wide()
	}
	until := w.now + w.Int64N(40*keys.Second) - 5*keys.Second
	var key string
	var value []byte
	switch w.IntN(4) {
	case 0, 1:
		key = w.space.State()
		s := oracle.State{Posture: w.IntN(4), Until: until, Pin: w.IntN(4), PinUntil: w.now + w.Int64N(20*keys.Second) - 18*keys.Second}
		if !w.one(3) {
			s.Baseline = w.limit(keys.MaxExact / 64)
		}
		w.world.SetState(key, s)
		value = keys.State{Posture: keys.Posture(s.Posture), Until: s.Until, Pin: keys.Posture(s.Pin), PinUntil: s.PinUntil, Baseline: keys.Limit(s.Baseline)}.Encode()
	case 2:
		key, value = w.space.Suspect(net), keys.EncodeUntil(until)
		if w.one(3) {
			key = w.space.SuspectTag(sheetTag)
		}
		w.world.SetSuspect(key, until)
	default:
		k := pick(w.draw, []int64{0, 1, 2, 3, 7, 39, 40, 41, keys.MaxExact})
		key, value = w.space.K(net), keys.EncodeK(k, until)
		w.world.SetK(key, k, until)
	}
	if w.one(10) {
		value = make([]byte, w.IntN(7)) // shorter than any record
		w.bytes(value)
		w.world.Lose(key)
	}
	w.note("put %s %x", key[strings.Index(key, "}"):], value)
	for _, s := range w.subjects {
		if err := s.Subject.Put(w.ctx, key, value, walkTTL); err != nil {
			w.t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func (w *walker) revoke() {
	key := w.space.Revoked(w.account())
	at := w.now - w.Int64N(20*keys.Day)
	want := w.world.Revoke(key, at)
	w.note("revoke %s %d", key, at)
	for _, s := range w.subjects {
		if got, err := s.Subject.Revoke(w.ctx, key, at, walkTTL); err != nil || got != want {
			w.t.Errorf("%s: revoked at %d (%v), want %d", s.Name, got, err, want)
		}
	}
}

// wrongType puts something of a wrong type where a bucket or mark was.
func (w *walker) wrongType() {
	q, _, _ := w.newAsk()
	key := pick(w.draw, append([]string{q.State, q.Suspects[1], q.K[0], q.Revoked, q.Place, q.Proof.Key, q.RequestKey}, q.Keys...))
	if len(w.made) > 0 && w.one(5) {
		m := pick(w.draw, w.made)
		key = pick(w.draw, []string{m.ret.Mark, m.ret.FailuresKey, m.ret.Wrong})
	}
	if key == "" {
		return
	}
	w.note("wrong type %s", key)
	w.met("wrong type", true)
	w.world.Lose(key)
	for _, s := range w.subjects {
		h, ok := s.Subject.(WrongTyper)
		if !ok {
			w.t.Fatalf("%s cannot set a wrong type", s.Name)
		}
		if err := h.SetWrongType(key); err != nil {
			w.t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func (w *walker) newProof() {
	p := oracle.Proof{Key: w.space.Proof(fmt.Sprintf("%x", w.Uint64())), Rung: 1 + w.IntN(3), Uses: 1, Issued: w.now - w.Int64N(keys.Second),
		Expires: w.now + 1 + w.Int64N(300*keys.Second)}
	switch p.Rung {
	case oracle.Delay:
		p.Wait = int64(w.IntN(31)) * keys.Second
		p.NotBefore = w.now + w.Int64N(2*keys.Second)
	case oracle.Verify:
		p.Uses = 5
	}
	if len(w.proofs) == 5 {
		w.proofs = w.proofs[1:]
	}
	w.proofs = append(w.proofs, p)
}
