package redisstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// said returns the reply of a real Redis to an ask.
func said(t *testing.T, s *Store, a *keys.Ask) string {
	t.Helper()
	format, rules := a.Rules.Wire()
	c := packAsk(a, 0)
	at, err := s.server(t.Context(), a.Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.eval(t.Context(), at, takeScript, c.keys, c.head, rules, format)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAReplyToAnotherAttemptIsAnError: whatever may cross replies on their way,
// nobody is let through by what was said to another.
func TestAReplyToAnotherAttemptIsAnError(t *testing.T) {
	client, err := Open(redistest.Start(t).URL(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s := New(Config{Client: client, Deadline: time.Second})
	r := login(t, limit(t, 10, 1, time.Hour))
	one := keys.Ask{Rules: r, Keys: []string{"a", "b"}, Cost: 1, AttemptID: [16]byte{1}, Request: keys.Request{Key: "r"}}
	two := one
	two.Keys, two.AttemptID = []string{"c", "d"}, [16]byte{2}
	var ans keys.Answer
	first := said(t, s, &one)
	if err := readAnswer(&one, first, &ans); err != nil || !ans.Let {
		t.Fatalf("%v, %+v", err, ans)
	}
	if err := readAnswer(&two, first, &ans); err == nil {
		t.Error("let through by another's answer")
	}
	if err := readAnswer(&two, said(t, s, &two), &ans); err != nil || !ans.Replayed || ans.ID != one.AttemptID {
		t.Errorf("a repeat: %v, %+v", err, ans)
	}
}

// TestALyingReplyIsAnErrorOrInRange, and never a panic: bits of a true reply are
// turned, as many as it takes.
func TestALyingReplyIsAnErrorOrInRange(t *testing.T) {
	client, err := Open(redistest.Start(t).URL(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s := New(Config{Client: client, Deadline: time.Second})
	r := login(t, limit(t, 10, 1, time.Hour))
	a := keys.Ask{Rules: r, Keys: []string{"a", "b"}, Cost: 1, Request: keys.Request{Key: "r"}}
	replies := []string{said(t, s, &a), said(t, s, &a)}
	random := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 200_000 {
		b := []byte(replies[random.IntN(2)])
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
		if random.IntN(10) == 0 {
			b = b[:random.IntN(len(b))]
		}
		var ans keys.Answer
		if readAnswer(&a, string(b), &ans) != nil {
			continue
		}
		read++
		ok := ans.Status <= keys.Impossible && ans.Now >= 0 && ans.Now <= keys.MaxExact && ans.Wait >= 0 && ans.Needed <= keys.Verify &&
			ans.Posture <= keys.Critical && ans.Device <= keys.DeviceInvalid && ans.Proof <= keys.ProofInvalid
		for i := range ans.K {
			if ans.Status == keys.Late || ans.Status == keys.Conflict {
				break // it says no more
			}
			ok = ok && ans.K[i] >= 1 && ans.K[i] <= keys.MaxK
		}
		for _, l := range ans.Limits {
			ok = ok && l.Left >= 0 && l.Rung <= keys.Verify
		}
		if !ok {
			t.Fatalf("%q is read as %+v", b, ans)
		}
	}
	if read == 0 {
		t.Error("nothing was read at all: the test proves little")
	}
}
