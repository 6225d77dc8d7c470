package keystest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// RunTrail holds what open returns to keys.Trail's contract. open makes an empty
// one with so much room in bytes; it goes by the machine's clock.
func RunTrail(t *testing.T, open func(t *testing.T, room int64) keys.Trail) {
	const plenty = 64 << 20
	for _, c := range []struct {
		name string
		room int64
		run  func(t *testing.T, s keys.Trail)
	}{
		{"rows come back as they were, each caller's alone", plenty, trailRows},
		{"of refusals the last are kept, of each caller", plenty, trailRing},
		{"rows end when they are too old", plenty, trailOld},
		{"bad rows are refused as such", plenty, trailBad},
		{"of many who append nobody's rows are lost", plenty, trailTogether},
		{"a flood of callers takes no more than there is room, and says what it cost", 1 << 20, trailFull},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t, c.room)) })
	}
}

func caller() (a keys.Account) {
	draw{rand.New(rand.NewPCG(rand.Uint64(), 1))}.bytes(a[:])
	return a
}

func appendTrail(t *testing.T, s keys.Trail, rows ...keys.TrailRow) {
	t.Helper()
	if _, err := s.Append(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

// trailOf returns sums and refusals of a caller.
func trailOf(t *testing.T, s keys.Trail, a keys.Account, since int64) (sums, refusals []keys.TrailRow, whole int64) {
	t.Helper()
	rows, whole, err := s.Rows(t.Context(), a, since)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Caller != a || r.At < since {
			t.Errorf("a row of %s at %d, asked for %s since %d", r.Caller, r.At, a, since)
		}
		if r.Refusal {
			refusals = append(refusals, r)
		} else {
			sums = append(sums, r)
		}
	}
	return sums, refusals, whole
}

func same(t *testing.T, what string, got, want []keys.TrailRow) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, not %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if got[i].At != want[i].At || !bytes.Equal(got[i].Data, want[i].Data) {
			t.Errorf("%s: row %d is %d %q, not %d %q", what, i, got[i].At, got[i].Data, want[i].At, want[i].Data)
			return
		}
	}
}

func trailRows(t *testing.T, s keys.Trail) {
	now := time.Now().UnixMicro()
	var sums, refusals [2][]keys.TrailRow
	who := [2]keys.Account{caller(), caller()}
	for n := range int64(40) {
		i := n % 2
		at := now - (40-n)*480*keys.Second // over several segments
		sum := keys.TrailRow{Caller: who[i], At: at, Data: fmt.Appendf(nil, "sum %d\x00\xff", n)}
		no := keys.TrailRow{Caller: who[i], At: at + 1, Refusal: true, Data: fmt.Appendf(nil, "no %d", n)}
		appendTrail(t, s, sum, no)
		sum.Data, no.Data = bytes.Clone(sum.Data), bytes.Clone(no.Data)
		sums[i], refusals[i] = append(sums[i], sum), append(refusals[i], no)
	}
	for i, a := range who {
		gotSums, gotRefusals, whole := trailOf(t, s, a, now-keys.TrailLife.Microseconds())
		same(t, "sums", gotSums, sums[i])
		same(t, "refusals", gotRefusals, refusals[i])
		if whole != 0 {
			t.Errorf("something was dropped up to %d", whole)
		}
		gotSums, gotRefusals, _ = trailOf(t, s, a, sums[i][15].At)
		same(t, "later sums", gotSums, sums[i][15:])
		same(t, "later refusals", gotRefusals, refusals[i][15:])
	}
	if sums, refusals, _ := trailOf(t, s, caller(), 0); len(sums)+len(refusals) > 0 {
		t.Errorf("a caller that nobody knows has rows: %v %v", sums, refusals)
	}
}

func trailRing(t *testing.T, s keys.Trail) {
	now, loud, quiet := time.Now().UnixMicro(), caller(), caller()
	appendTrail(t, s, keys.TrailRow{Caller: quiet, At: now, Refusal: true, Data: []byte("quiet")})
	var all []keys.TrailRow
	for n := range int64(keys.TrailRefusals*2 + 345) {
		all = append(all, keys.TrailRow{Caller: loud, At: now + n, Refusal: true, Data: fmt.Append(nil, n)})
	}
	appendTrail(t, s, all[:10]...)
	appendTrail(t, s, all[10:]...)
	_, got, _ := trailOf(t, s, loud, 0)
	same(t, "the last refusals", got, all[len(all)-keys.TrailRefusals:])
	if _, got, _ := trailOf(t, s, quiet, 0); len(got) != 1 {
		t.Errorf("the quiet one's refusal went: %v", got)
	}
}

func trailOld(t *testing.T, s keys.Trail) {
	now, a := time.Now().UnixMicro(), caller()
	old := now - keys.TrailLife.Microseconds() - 3600*keys.Second
	appendTrail(t, s, keys.TrailRow{Caller: a, At: old, Data: []byte("old")}, keys.TrailRow{Caller: a, At: now, Data: []byte("new")})
	if sums, _, _ := trailOf(t, s, a, now-keys.TrailLife.Microseconds()); len(sums) != 1 || string(sums[0].Data) != "new" {
		t.Errorf("%v", sums)
	}
}

func trailBad(t *testing.T, s keys.Trail) {
	for _, r := range []keys.TrailRow{{At: 1}, {At: -1, Data: []byte("x")}, {At: keys.MaxExact + 1, Data: []byte("x")}, {Data: make([]byte, keys.MaxTrailData+1)}} {
		if _, err := s.Append(t.Context(), []keys.TrailRow{r}); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("at %d, %d bytes: %v", r.At, len(r.Data), err)
		}
	}
	if _, err := s.Append(t.Context(), nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func trailTogether(t *testing.T, s keys.Trail) {
	now, a := time.Now().UnixMicro(), caller()
	const writers, each = 8, 50
	together(t, writers, func(i int) (bool, error) {
		for n := range each {
			at := now - int64(n)*keys.Second
			if _, err := s.Append(t.Context(), []keys.TrailRow{{Caller: a, At: at, Data: fmt.Append(nil, i, n)},
				{Caller: caller(), At: at, Data: []byte("another's")}}); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	sums, _, _ := trailOf(t, s, a, 0)
	seen := map[string]bool{}
	for _, r := range sums {
		seen[string(r.Data)] = true
	}
	if len(seen) != writers*each {
		t.Errorf("%d of %d rows are there", len(seen), writers*each)
	}
}

// trailFull fills a MiB many times over: what is kept fits, what is dropped is
// the oldest, and readers are told.
func trailFull(t *testing.T, s keys.Trail) {
	now, victim := time.Now().UnixMicro(), caller()
	old := now - 3*3600*keys.Second
	appendTrail(t, s, keys.TrailRow{Caller: victim, At: old, Data: []byte("old")}, keys.TrailRow{Caller: victim, At: old, Refusal: true, Data: []byte("old")})
	var flood []keys.Account
	for range 40 {
		var rows []keys.TrailRow
		for range 500 {
			flood = append(flood, caller())
			rows = append(rows, keys.TrailRow{Caller: flood[len(flood)-1], At: now, Data: bytes.Repeat([]byte("x"), 100)})
		}
		appendTrail(t, s, rows...)
	}
	sums, refusals, whole := trailOf(t, s, victim, 0)
	if len(sums)+len(refusals) != 0 || whole <= old {
		t.Errorf("the oldest rows are still there: %v %v; whole from %d", sums, refusals, whole)
	}
	kept := 0
	for _, a := range flood {
		sums, _, _ := trailOf(t, s, a, 0)
		kept += len(sums)
	}
	// A row of 100 bytes takes from 260 to some 700, by the store.
	if kept < 1<<20/1000 || kept > 1<<20/200 {
		t.Errorf("%d rows of 100 bytes are kept in a MiB", kept)
	}
	last := caller()
	appendTrail(t, s, keys.TrailRow{Caller: last, At: now, Refusal: true, Data: []byte("x")})
	if _, refusals, _ := trailOf(t, s, last, 0); len(refusals) != 1 {
		t.Error("a full trail takes no more rows")
	}
}
