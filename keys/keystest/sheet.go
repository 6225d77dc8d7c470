package keystest

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

//go:embed vectors.txt
var vectors string

// Vectors plays the score sheet against a subject: one subtest a case.
func Vectors(t *testing.T, s Subject) {
	var p *player
	for i, line := range strings.Split(vectors, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "case":
			if p != nil {
				p.play(t)
			}
			p = &player{name: strings.Join(f[1:], " "), s: s}
		default:
			p.lines = append(p.lines, row{i + 1, f})
		}
	}
	p.play(t)
}

// row is one line of the sheet, without its comment.
type row struct {
	line  int
	words []string
}

// player plays one case.
type player struct {
	name  string
	s     Subject
	lines []row

	t     *testing.T
	start int64
	now   int64
	space keys.Space
	rules oracle.Rules
	cache *keys.Rules
	proof map[string]oracle.Proof
	taken map[string]*oracle.Return
}

func (p *player) play(t *testing.T) {
	t.Run(p.name, func(t *testing.T) {
		p.t = t
		p.skip()
		p.start = time.Now().UnixMicro()
		p.space = keys.NewSpace("sheet-"+unique(), 0)
		p.rules = oracle.Rules{Base: keys.Second, Max: 30 * keys.Second}
		p.proof, p.taken = map[string]oracle.Proof{}, map[string]*oracle.Return{}
		for _, r := range p.lines {
			if err := p.do(r.words); err != nil {
				t.Fatalf("vectors.txt:%d: %s\n%v", r.line, strings.Join(r.words, " "), err)
			}
		}
	})
}

// skip leaves out the case if the subject cannot play it.
func (p *player) skip() {
	_, wrong := p.s.(WrongTyper)
	_, never := p.s.(NeverLater)
	for _, r := range p.lines {
		if has(r.words, "wrongtype") && !wrong {
			p.t.Skip("the subject cannot set a wrong type")
		}
		if opt(r.words, "deadline") != "" && never {
			p.t.Skip("the subject is never late")
		}
	}
}

// do plays one row: a definition, or a time, a deed, and what is to come of it.
func (p *player) do(w []string) error {
	switch w[0] {
	case "tier":
		return p.tier(w[1:])
	case "limit":
		return p.limit(w[1:])
	case "drop":
		return p.drop(w[1], w[2])
	case "effect":
		return p.effect(w[1:])
	case "pace":
		p.rules.Base, p.rules.Max, p.cache = micros(w[1]), micros(w[2]), nil
		return nil
	case "proof":
		return p.newProof(w[1:])
	}
	p.now = p.start + micros(w[0])
	deed, want := w[1:], []string(nil)
	for i, word := range w {
		if word == "=" {
			deed, want = w[1:i], w[i+1:]
		}
	}
	switch deed[0] {
	case "take", "look":
		return p.take(deed, want)
	case "give":
		return p.give(deed[1:], want)
	case "revoke":
		_, err := p.s.Revoke(p.t.Context(), p.space.Revoked(sheetAccount), p.now, keys.Day)
		return err
	case "wrongtype":
		return p.s.(WrongTyper).SetWrongType(p.key(deed[1]))
	}
	return p.put(deed)
}

func micros(s string) int64 {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		days, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			panic(err)
		}
		return days * keys.Day
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d.Microseconds()
}

// opt returns the value of word key=value, or "".
func opt(w []string, key string) string {
	for _, s := range w {
		if v, ok := strings.CutPrefix(s, key+"="); ok {
			return v
		}
	}
	return ""
}

func has(w []string, word string) bool {
	for _, s := range w {
		if s == word {
			return true
		}
	}
	return false
}

func (p *player) tier(w []string) error {
	p.cache = nil
	p.rules.Tiers = append(p.rules.Tiers, oracle.Tier{Kind: w[0], SkipFamiliar: has(w, "familiar"), ByIP: has(w, "byip"), ByNetwork: has(w, "bynetwork"),
		ByPosture: has(w, "byposture"), OwnDevice: w[0] == "device", SharedDevice: w[0] == "devices"})
	return nil
}

func (p *player) find(kind string) (*oracle.Tier, error) {
	for i := range p.rules.Tiers {
		if p.rules.Tiers[i].Kind == kind {
			return &p.rules.Tiers[i], nil
		}
	}
	return nil, fmt.Errorf("no tier %q", kind)
}

// limit is: tier name capacity count/period [delay=x% captcha=x% verify=empty].
// It adds the limit, or changes one that is there. "none" is a zero limit.
func (p *player) limit(w []string) error {
	t, err := p.find(w[0])
	if err != nil {
		return err
	}
	p.cache = nil
	s := oracle.LimitSpec{Name: w[1], Delay: share(opt(w, "delay")), Captcha: share(opt(w, "captcha")), Verify: share(opt(w, "verify"))}
	if w[2] != "none" {
		if s.Limit, err = limitOf(w[2], w[3]); err != nil {
			return err
		}
	}
	for i := range t.Limits {
		if t.Limits[i].Name == s.Name {
			t.Limits[i] = s
			return nil
		}
	}
	t.Limits = append(t.Limits, s)
	return nil
}

func limitOf(capacity, refill string) (oracle.Limit, error) {
	c, err := strconv.ParseInt(capacity, 10, 64)
	if err != nil {
		return oracle.Limit{}, err
	}
	n, per, _ := strings.Cut(refill, "/")
	count, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return oracle.Limit{}, err
	}
	l, err := keys.NewLimit(c, count, time.Duration(micros(per))*time.Microsecond)
	return oracle.Limit(l), err
}

func share(s string) int {
	switch s {
	case "", "never":
		return oracle.Never
	case "empty":
		return oracle.Empty
	}
	x, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil {
		panic(err)
	}
	return int(x*100 + 0.5)
}

func (p *player) drop(kind, name string) error {
	t, err := p.find(kind)
	if err != nil {
		return err
	}
	p.cache = nil
	for i := range t.Limits {
		if t.Limits[i].Name == name {
			t.Limits = append(t.Limits[:i:i], t.Limits[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("no limit %q", name)
}

func (p *player) effect(w []string) error {
	at, err := keys.ParsePosture(w[0])
	if err != nil {
		return err
	}
	p.cache = nil
	e := oracle.Effect{Uncounted: has(w, "uncounted")}
	if r := opt(w, "floor"); r != "" {
		rung, err := keys.ParseRung(r)
		if err != nil {
			return err
		}
		e.Floor = int(rung)
	}
	if d := opt(w, "divide"); d != "" {
		if e.Divisor, err = strconv.ParseInt(d, 10, 64); err != nil {
			return err
		}
	}
	p.rules.Effects[at] = e
	return nil
}

func (p *player) newProof(w []string) error {
	rung, err := keys.ParseRung(w[1])
	if err != nil {
		return err
	}
	q := oracle.Proof{Key: p.space.Proof(w[0]), Rung: int(rung), Uses: 1, Issued: p.start, Expires: p.start + 10*60*keys.Second}
	if v := opt(w, "wait"); v != "" {
		q.Wait = micros(v)
	}
	if v := opt(w, "issued"); v != "" {
		q.Issued = p.start + micros(v)
	}
	if v := opt(w, "after"); v != "" {
		q.NotBefore = p.start + micros(v)
	}
	if v := opt(w, "expires"); v != "" {
		q.Expires = p.start + micros(v)
	}
	if v := opt(w, "uses"); v != "" {
		if q.Uses, err = strconv.ParseInt(v, 10, 64); err != nil {
			return err
		}
	}
	p.proof[w[0]] = q
	return nil
}
