package keystest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

// This file plays the rows of the score sheet that have a time.

var (
	sheetAccount = keys.Account{1}
	sheetIP      = func() keys.Address { a, _ := keys.ParseAddress("2001:db8::1"); return a }()
)

// key is the name of what the sheet calls by one word.
func (p *player) key(word string) string {
	switch word {
	case "pair":
		return p.space.Pair("login", sheetAccount, sheetIP)
	case "account":
		return p.space.Account("login", sheetAccount)
	case "ip":
		return p.space.IP("login", sheetIP)
	case "network":
		return p.space.Network("login", sheetIP)
	case "global":
		return p.space.Global("login")
	case "device":
		return p.space.Device("login", "d")
	case "devices":
		return p.space.Devices("login", sheetAccount)
	case "state":
		return p.space.State()
	case "suspect":
		return p.space.Suspect(sheetIP.Counted())
	case "suspectwide":
		return p.space.Suspect(sheetIP.Wide())
	case "suspecttag":
		return p.space.SuspectTag(sheetTag)
	case "k":
		return p.space.K(sheetIP.Counted())
	case "kwide":
		return p.space.K(sheetIP.Wide())
	case "revoked":
		return p.space.Revoked(sheetAccount)
	case "place":
		return p.space.Place(sheetAccount, sheetIP)
	case "wrong":
		return p.space.Wrong(sheetAccount)
	}
	if q, ok := p.proof[word]; ok {
		return q.Key
	}
	return p.space.Request("login", word)
}

func (p *player) compiled() (*keys.Rules, error) {
	if p.cache != nil {
		return p.cache, nil
	}
	var err error
	p.cache, err = compile(&p.rules)
	return p.cache, err
}

// take asks, and holds the answer against the words after "=".
func (p *player) take(w, want []string) error {
	rules, err := p.compiled()
	if err != nil {
		return err
	}
	q := oracle.Ask{Now: p.now, Rules: &p.rules, Cost: 1, Shadow: has(w, "shadow"), State: p.key("state"),
		Suspects: [3]string{p.key("suspect"), p.key("suspectwide"), p.key("suspecttag")}, K: [2]string{p.key("k"), p.key("kwide")},
		Revoked: p.key("revoked"), Place: p.key("place"), ID: [16]byte{byte(len(p.taken) + 1)}}
	for _, t := range p.rules.Tiers {
		q.Keys = append(q.Keys, p.key(t.Kind))
	}
	if w[0] == "look" {
		q.Cost = 0
	}
	if v := opt(w, "cost"); v != "" {
		if q.Cost, err = strconv.ParseInt(v, 10, 64); err != nil {
			return err
		}
	}
	if v := opt(w, "floor"); v != "" {
		r, err := keys.ParseRung(v)
		if err != nil {
			return err
		}
		q.Floor = int(r)
	}
	if v := opt(w, "deadline"); v != "" {
		q.Deadline = p.start + micros(v)
	}
	if v := opt(w, "device"); v != "" {
		from, to, _ := strings.Cut(v, "..")
		q.Device = oracle.Device{Issued: p.start + micros(from), Expires: p.start + micros(to)}
	}
	if v := opt(w, "proof"); v != "" {
		q.Proof = p.proof[v]
	}
	if v := opt(w, "request"); v != "" {
		id, body, _ := strings.Cut(v, "/")
		q.RequestKey, q.Body = p.key(id), [16]byte{body[0]}
	}
	if v := opt(w, "tag"); v != "" {
		q.Wrong = p.key("wrong")
		q.Tags[0], q.Tags[1], _ = strings.Cut(v, "/")
	}
	var ans keys.Answer
	if err := p.s.Take(p.t.Context(), ask(&q, rules), &ans); err != nil {
		return err
	}
	if v := opt(w, "as"); v != "" {
		p.remember(v, &q, answer(&ans))
	}
	return p.check(answer(&ans), &q, want)
}

func (p *player) remember(name string, q *oracle.Ask, ans oracle.Answer) {
	r := &oracle.Return{Stamp: ans.Now, Expires: ans.Now + keys.AttemptLifetime, Keys: q.Keys, State: q.State, K: q.K,
		Mark: p.space.Outcome(fmt.Sprintf("%x", ans.ID)), Place: q.Place, FailuresKey: p.space.Failures(sheetAccount),
		Wrong: q.Wrong, Tags: q.Tags}
	for _, l := range ans.Limits {
		if l.Took {
			t := p.rules.Tiers[l.Tier]
			r.Took = append(r.Took, oracle.Took{Kind: t.Kind, Name: t.Limits[l.Index].Name, In: l.Limit})
		}
	}
	p.taken[name] = r
}

// check holds an answer against words: first "let", "let over RUNG", "no RUNG",
// or a status; then what else is to be so. What is not said is at rest.
func (p *player) check(got oracle.Answer, q *oracle.Ask, want []string) error {
	var bad []string
	same := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			bad = append(bad, fmt.Sprintf("%s is %v, not %v", what, got, want))
		}
	}
	status, needed, let, wait := "decided", "allow", true, int64(0)
	device, proof, by := "none", "none", ""
	taken := q.Cost > 0
	for i := 0; i < len(want); i++ {
		switch word := want[i]; word {
		case "late", "conflict", "impossible":
			status, let = word, false
		case "let":
		case "over":
			i++
			needed = want[i]
		case "no":
			i++
			needed, let = want[i], false
		case "wait":
			i++
			wait = micros(want[i])
		case "device":
			i++
			device = want[i]
		case "proof":
			i++
			proof = want[i]
		case "by":
			i++
			by = want[i]
		case "left", "of", "rungs":
			n := 0
			for ; i+1 < len(want) && (number(want[i+1]) || want[i+1] == "-" || word == "rungs" && rungWord(want[i+1])); n, i = n+1, i+1 {
				if n >= len(got.Limits) {
					return fmt.Errorf("there are only %d limits", len(got.Limits))
				}
				l := got.Limits[n]
				switch v := want[i+1]; {
				case v == "-":
					same(fmt.Sprintf("limit %d is looked at", n), l.Looked, false)
				case word == "left":
					same(fmt.Sprintf("left in limit %d", n), l.Left, v)
				case word == "of":
					same(fmt.Sprintf("capacity of limit %d", n), l.Limit.Capacity, v)
				default:
					same(fmt.Sprintf("rung of limit %d", n), keys.Rung(l.Rung), v)
				}
			}
		case "nolimits":
			same("number of limits", len(got.Limits), 0)
		case "familiar", "replayed", "taken", "repeat":
		default:
			return fmt.Errorf("what is %q?", word)
		}
	}
	taken = taken && (let || has(want, "taken"))
	same("status", got.Status, status)
	same("let", got.Let, let)
	same("taken", got.Taken, taken)
	same("needed", keys.Rung(got.Needed), needed)
	same("wait", got.Wait, wait)
	same("device", got.Device, device)
	same("proof", got.Proof, proof)
	same("familiar", got.Familiar, has(want, "familiar"))
	same("replayed", got.Replayed, has(want, "replayed"))
	same("repeat", got.Repeat, has(want, "repeat"))
	same("causes", causes(&got), by)
	if len(bad) > 0 {
		return fmt.Errorf("%s\nfrom: %s", strings.Join(bad, "\n"), short(&got))
	}
	return nil
}

func number(s string) bool { _, err := strconv.ParseInt(s, 10, 64); return err == nil }

func rungWord(s string) bool { _, err := keys.ParseRung(s); return err == nil }

func causes(a *oracle.Answer) string {
	var s []string
	if a.ByPosture {
		s = append(s, "posture")
	}
	if a.BySuspect {
		s = append(s, "suspect")
	}
	if a.ByFlood {
		s = append(s, "flood")
	}
	return strings.Join(s, ",")
}

// give is: NAME outcome [deadline=t] = recorded|duplicate|expired|late [after
// OUTCOME] [gave N] [failures N].
func (p *player) give(w, want []string) error {
	made, ok := p.taken[w[0]]
	if !ok {
		return fmt.Errorf("no attempt %q", w[0])
	}
	r := *made
	r.Now, r.Rules, r.Outcome = p.now, &p.rules, w[1]
	if v := opt(w, "deadline"); v != "" {
		r.Deadline = p.start + micros(v)
	}
	rules, err := p.compiled()
	if err != nil {
		return err
	}
	var got keys.Receipt
	if err := p.s.Give(p.t.Context(), ret(&r, rules), &got); err != nil {
		return err
	}
	var is oracle.Receipt
	for i := 0; i < len(want); i++ {
		switch want[i] {
		case "recorded":
			is.Recorded = true
		case "duplicate":
			is.Duplicate = true
		case "expired":
			is.Expired = true
		case "late":
			is.Late = true
		case "after":
			i++
			is.Prior = want[i]
		case "gave":
			i++
			is.Gave, err = strconv.Atoi(want[i])
		case "failures":
			i++
			is.Failures, err = strconv.Atoi(want[i])
		default:
			err = fmt.Errorf("what is %q?", want[i])
		}
		if err != nil {
			return err
		}
	}
	if g := receipt(&got); g != is {
		return fmt.Errorf("got %+v\nnot %+v", g, is)
	}
	return nil
}

// put is: KEY garbage; or state, suspect, suspectwide, suspecttag, k or kwide with values.
func (p *player) put(w []string) error {
	until := p.start
	if v := opt(w, "until"); v != "" {
		until += micros(v)
	}
	var value []byte
	switch {
	case has(w, "garbage"):
		value = []byte("garbage")
	case w[0] == "state":
		s := keys.State{Until: until, PinUntil: until}
		var err error
		if v := opt(w, "posture"); v != "" {
			s.Posture, err = keys.ParsePosture(v)
			s.PinUntil = 0
		}
		if v := opt(w, "pin"); v != "" && err == nil {
			s.Pin, err = keys.ParsePosture(v)
			s.PinUntil = until
		}
		if v := opt(w, "baseline"); v != "" && err == nil {
			c, refill, _ := strings.Cut(v, "x")
			var l oracle.Limit
			l, err = limitOf(c, refill)
			s.Baseline = keys.Limit(l)
		}
		if err != nil {
			return err
		}
		value = s.Encode()
	case w[0] == "suspect" || w[0] == "suspectwide" || w[0] == "suspecttag":
		value = keys.EncodeUntil(until)
	case w[0] == "k" || w[0] == "kwide":
		n, err := strconv.ParseInt(w[1], 10, 64)
		if err != nil {
			return err
		}
		value = keys.EncodeK(n, until)
	default:
		return fmt.Errorf("what is %q?", w[0])
	}
	return p.s.Put(p.t.Context(), p.key(w[0]), value, keys.Day)
}

// sheetTag is the tag of every password of a sheet.
const sheetTag = "0123456789abcdef"
