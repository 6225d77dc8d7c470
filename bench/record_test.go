package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys"
)

func TestEncodeWritesRedisProtocol(t *testing.T) {
	got := string(encode(nil, "evalsha", 12, []byte("a\r\nb")).wire)
	if want := "*3\r\n$7\r\nevalsha\r\n$2\r\n12\r\n$4\r\na\r\nb\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReadReply(t *testing.T) {
	in := bufio.NewReader(strings.NewReader(":1\r\n$4\r\na\r\nb\r\n*2\r\n:1\r\n$1\r\nx\r\n-ERR no\r\n"))
	for _, want := range []string{":1\r\n", "a\r\nb", "*2\r\n:1\r\n\nx\n", "-ERR no\r\n"} {
		if got, err := readReply(in); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestAnErrorReplyIsNoSuccess(t *testing.T) {
	for _, r := range []string{"-ERR no\r\n", "", "\x00"} {
		if b := []byte(r); lets(b) || refuses(b) || takes(b) || isOne(b) || allows(b) {
			t.Errorf("%q passed for a reply", r)
		}
	}
}

// What is recorded is what the real guard asks: every tier of the default
// policy with all its limits.
func TestADecisionIsTheDefaultPolicys(t *testing.T) {
	a, err := newAsker()
	if err != nil {
		t.Fatal(err)
	}
	asks, err := a.asks(visitors(0, 3), false)
	if err != nil || len(asks) != 3 {
		t.Fatal(asks, err)
	}
	if got := contents(asks[0]); !strings.HasPrefix(got, "tiers (limits): pair (2), account (2), ip (2), global (1)") {
		t.Error(got)
	}
	units, err := asked(asks, lets)
	if err != nil || len(units) != 3 || len(units[0]) != 1 {
		t.Fatal(units, err)
	}
	if units[0][0].wire == nil || string(units[0][0].wire) == string(units[1][0].wire) {
		t.Error("two visitors made the same call")
	}
	if asks[0].Rules.LimitCount() != 7 || asks[0].Cost != 1 || asks[0].Shadow {
		t.Errorf("%+v", asks[0])
	}
	var _ keys.Store = a.tap
}

func TestVisitorsAreAllDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range append(visitors(0, 70_000), visitors(1<<20, 1000)...) {
		if seen[v.account] || seen[v.ip] {
			t.Fatalf("%+v comes twice", v)
		}
		seen[v.account], seen[v.ip] = true, true
	}
}
