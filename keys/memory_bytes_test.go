package keys

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Everything that visitors can cause, more of each than there is room for.
func TestAMemoryFullOfEverythingStaysUnderItsBytes(t *testing.T) {
	const entries = 1 << 15
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	m, now := clocked(MemoryConfig{Buckets: entries, Marks: entries})
	r, names := loginLike(t)
	devices := rulesOf(t, TierDevice, DeviceOwn, limitOf(t, "burst", 10, 10, time.Hour), limitOf(t, "sustained", 30, 10, 24*time.Hour))
	ctx := t.Context()
	for i := range entries + entries/2 { // so that every shard is full, however the names fall
		name := func(kind string) string { return fmt.Sprintf("%s of %040d", kind, i) }
		a := Ask{Rules: r, Cost: 1, Floor: Captcha, Proof: Proof{Key: name("proof"), Rung: Captcha, Issued: 1, Expires: *now + Day, Uses: 5},
			PlaceKey: name("place")}
		for j := range names {
			a.Keys = append(a.Keys, names[j]+name("bucket"))
		}
		mustTake(t, m, &a)
		a.Floor, a.Proof, a.Request = Allow, Proof{}, Request{Key: name("request")}
		ans := mustTake(t, m, &a)
		if err := m.Give(ctx, &Return{Outcome: Failure, Stamp: ans.Now, Expires: ans.Now + AttemptLifetime, OutcomeKey: name("outcome"),
			FailuresKey: name("failures"), WrongKey: name("wrong"), Tags: [2]Tag{{1}, {2}}}, new(Receipt)); err != nil {
			t.Fatal(err)
		}
		if err := m.Give(ctx, &Return{Outcome: Success, Stamp: ans.Now, Expires: ans.Now + AttemptLifetime, OutcomeKey: name("success"),
			PlaceKey: name("place")}, new(Receipt)); err != nil {
			t.Fatal(err)
		}
		mustTake(t, m, &Ask{Rules: devices, Keys: []string{name("device")}, Cost: 1, Device: Device{Issued: 1, Expires: MaxExact}})
		_, _, terr := m.Tally(ctx, name("tally"), 0, Day) // without room: ErrNoStore
		serr := m.SendCode(ctx, &CodeAsk{Key: name("code"), SenderKey: name("sender"), Account: Account{byte(i), byte(i >> 8), byte(i >> 16)}}, new(CodeAnswer))
		aerr := m.Acquire(ctx, &SlotAsk{Keys: []string{name("slots")}, Caps: []int64{1}, Lives: []int64{Second}, TTL: Second, ID: [16]byte{1}}, new(SlotAnswer))
		for _, err := range []error{terr, serr, aerr} {
			if err != nil && !errors.Is(err, ErrNoStore) {
				t.Fatal(err)
			}
		}
	}
	st, per := m.Stats(), int64(heap()-before)/entries
	t.Logf("%+v: %d bytes an entry of %d", st, per, entries)
	if st.Slots < entries/8 || st.Buckets < entries || st.Shared == 0 || st.Marks < entries*3/2 {
		t.Errorf("not everything is full: %+v", st)
	}
	if per > EntryBytes {
		t.Errorf("%d bytes an entry, not %d", per, EntryBytes)
	}
	runtime.KeepAlive(m)
}
