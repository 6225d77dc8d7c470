package breached_test

import (
	"context"
	"errors"
	"testing"

	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
)

func TestChainHoldsToTheContract(t *testing.T) {
	for name, before := range map[string]func(kind breached.Kind) breached.Chain{
		"alone": func(breached.Kind) breached.Chain { return nil },
		"after a part": func(k breached.Kind) breached.Chain {
			return breached.Chain{breachedtest.NewMemory(breachedtest.Corpus{Kind: k})}
		},
		"after an unknown": func(breached.Kind) breached.Chain { return breached.Chain{broken{}} },
	} {
		t.Run(name, func(t *testing.T) {
			breachedtest.Run(t, func(_ *testing.T, c breachedtest.Corpus) breachedtest.Subject {
				c.Complete = true
				chain := append(before(c.Kind), breachedtest.NewMemory(c))
				return breachedtest.Subject{Source: chain, Ranges: true, OnlyKind: name != "after an unknown", Complete: true}
			})
		})
	}
}

// broken never knows.
type broken struct{}

var errBroken = errors.New("broken")

func (broken) Check(context.Context, breached.Hash) (breached.Verdict, error) {
	return breached.Verdict{}, errBroken
}

func (broken) Range(context.Context, breached.Kind, string) (*breached.Range, error) {
	return nil, errBroken
}

// says is a source that always answers so.
type says struct {
	breached.Verdict
	error
}

func (s says) Check(context.Context, breached.Hash) (breached.Verdict, error) {
	return s.Verdict, s.error
}

func (s says) Range(context.Context, breached.Kind, string) (*breached.Range, error) {
	if s.error == nil {
		return &breached.Range{Body: []byte("x")}, nil
	}
	return nil, s.error
}

// TestWhoDecides is the score sheet of what several sources say together.
func TestWhoDecides(t *testing.T) {
	safe, part, hit := breached.Verdict{Complete: true}, breached.Verdict{}, breached.Verdict{Breached: true, Count: 7}
	no, kind, gone := says{error: errBroken}, says{error: breached.ErrKind}, says{error: breached.ErrNoRange}
	is := func(v breached.Verdict) says { return says{Verdict: v} }
	for name, c := range map[string]struct {
		chain breached.Chain
		want  breached.Verdict
		err   error
	}{
		"nobody":                   {nil, breached.Verdict{}, breached.ErrKind},
		"the first is complete":    {breached.Chain{is(safe), is(hit)}, safe, nil},
		"a part, then a hit":       {breached.Chain{is(part), is(hit)}, hit, nil},
		"a part, then the whole":   {breached.Chain{is(part), is(safe)}, safe, nil},
		"a part, then unknown":     {breached.Chain{is(part), no}, part, nil},
		"unknown, then a part":     {breached.Chain{no, is(part)}, part, nil},
		"unknown, then a hit":      {breached.Chain{no, is(hit)}, hit, nil},
		"unknown":                  {breached.Chain{no}, breached.Verdict{}, errBroken},
		"another kind and unknown": {breached.Chain{kind, no}, breached.Verdict{}, errBroken},
		"another kind":             {breached.Chain{kind}, breached.Verdict{}, breached.ErrKind},
	} {
		v, err := c.chain.Check(t.Context(), breached.HashPassword(breached.SHA1, nil))
		if v != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, v, err, c.want, c.err)
		}
		if errors.Is(err, breached.ErrKind) && c.err != breached.ErrKind {
			t.Errorf("%s: unknown is taken for never", name)
		}
	}
	for name, c := range map[string]struct {
		chain breached.Chain
		err   error
	}{
		"nobody":              {nil, breached.ErrKind},
		"another has it":      {breached.Chain{gone, kind, no, is(safe)}, nil},
		"no suffixes":         {breached.Chain{kind, gone}, breached.ErrNoRange},
		"no suffixes, either": {breached.Chain{gone, kind}, breached.ErrNoRange},
		"unknown":             {breached.Chain{gone, no}, errBroken},
	} {
		r, err := c.chain.Range(t.Context(), breached.SHA1, "00000")
		if !errors.Is(err, c.err) || (r == nil) != (c.err != nil) {
			t.Errorf("range, %s: %v, %v; want %v", name, r, err, c.err)
		}
		if errors.Is(err, breached.ErrNoRange) && c.err != breached.ErrNoRange {
			t.Errorf("range, %s: unknown is taken for never", name)
		}
	}
}
