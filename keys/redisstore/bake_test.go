package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// A part that is reworded would quietly stay as it is sent.
func TestRulesAreWrittenIntoTheScript(t *testing.T) {
	for _, part := range []string{sentRules, sentThresholds, madeReply} {
		if strings.Count(takeScript.text, part) != 1 {
			t.Errorf("the script does not hold %q once", part)
		}
	}
	sc := bakeTake(login(t, limit(t, 10, 1, time.Hour)))
	for _, part := range []string{"ARGV[2]", "ARGV[3]", "string.rep('Bd'"} {
		if strings.Contains(sc.text, part) {
			t.Errorf("a script with rules in it reads %s", part)
		}
	}
	if same := bakeTake(login(t, limit(t, 10, 1, time.Hour))); same.sha != sc.sha {
		t.Error("equal rules make two scripts")
	}
	if other := bakeTake(login(t, limit(t, 11, 1, time.Hour))); other.sha == sc.sha {
		t.Error("two sets of rules make one script")
	}
}

// Redis keeps every script: a service with very many policies must not fill it.
func TestScriptsAreFew(t *testing.T) {
	var b bakery
	first := login(t, limit(t, 10, 1, time.Hour))
	for i := range maxBaked {
		r := first
		if i > 0 {
			r = login(t, limit(t, 10, 1, time.Hour))
		}
		if _, ok := b.script(r); !ok {
			t.Fatalf("%d scripts are too many", i)
		}
	}
	next := login(t, limit(t, 10, 1, time.Hour))
	if _, ok := b.script(next); ok {
		t.Error("there is no bound")
	}
	if _, ok := b.script(first); !ok {
		t.Error("a script in use is gone")
	}
	b.swept.Store(0)
	b.scripts.Range(func(r, l any) bool {
		if r != first {
			l.(*loaf).used.Store(0)
		}
		return true
	})
	if _, ok := b.script(next); !ok {
		t.Error("what a reload replaced still takes its place")
	}
	if b.n.Load() != 2 {
		t.Errorf("%d scripts are counted, want 2", b.n.Load())
	}
}

// What travels and what is written into the script decide alike; the suite runs
// over the latter.
func TestRulesThatTravelDecideAlike(t *testing.T) {
	s := open(t, redistest.Start(t))
	r := login(t, limit(t, 3, 1, time.Hour))
	for i := range 5 {
		at := now + int64(i)*keys.Second
		baked := take(t, s.Store, ask(r, at))
		a := ask(r, at)
		a.Keys = []string{"gd:{t/0}:login:account:travels", "gd:{t/0}:login:ip:travels"}
		var sent keys.Answer
		if err := readAnswer(a, said(t, s.Store, a), &sent); err != nil {
			t.Fatal(err)
		}
		baked.ID, sent.ID = [16]byte{}, [16]byte{}
		if len(sent.Limits) != len(baked.Limits) || sent.Let != baked.Let || sent.Needed != baked.Needed {
			t.Fatalf("%d: %+v and %+v", i, baked, sent)
		}
		for l := range sent.Limits {
			if sent.Limits[l] != baked.Limits[l] {
				t.Errorf("%d: limit %d: %+v and %+v", i, l, baked.Limits[l], sent.Limits[l])
			}
		}
	}
}
