package escalation_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

// foundHistories are what a random history, or somebody's thought, came upon:
// each once went wrong, in the product or in how the owner was played.
var foundHistories = []struct {
	name  string
	past  []move
	owner visit
}{
	// The owner threw away a mail that was half an hour old, though the third code
	// of a day is good for an hour, and its mail says so.
	{"the mail is half an hour old and its code lives for an hour", slices.Concat(
		sendAndWait(16*time.Minute), sendAndWait(31*time.Minute), sendAndWait(32*time.Minute),
	), visit{place: 1, at: 1}},
	{"the mail is half a day old and its code lives to the end of it", slices.Concat(
		sendAndWait(16*time.Minute), sendAndWait(31*time.Minute), sendAndWait(61*time.Minute), sendAndWait(2*time.Hour+time.Minute),
		sendAndWait(4*time.Hour+time.Minute), sendAndWait(8*time.Hour+time.Minute), sendAndWait(12*time.Hour-time.Second),
	), visit{place: 0, at: 0, inForm: true}},
	// Of the 8 hours for which a sixth code lives there was no mail at all, once
	// strangers had had codes sent again three times.
	{"the instance that booked a long code was killed, and pictures have been used up", slices.Concat(
		sendAndWait(16*time.Minute), resends, sendAndWait(31*time.Minute), sendAndWait(61*time.Minute), sendAndWait(2*time.Hour+time.Minute),
		sendAndWait(4*time.Hour+time.Minute), []move{{kind: mvKill}}, sendAndWait(20*time.Minute),
	), visit{place: 1, at: 1}},
	{"and it is a moment ago", slices.Concat(
		sendAndWait(16*time.Minute), resends, sendAndWait(31*time.Minute), sendAndWait(61*time.Minute),
		[]move{{kind: mvKill}}, sendAndWait(time.Minute),
	), visit{place: 1, at: 1}},
	{"the answer to booking a long code was lost, and pictures have been used up", slices.Concat(
		sendAndWait(16*time.Minute), resends, sendAndWait(31*time.Minute), sendAndWait(61*time.Minute), sendAndWait(2*time.Hour+time.Minute),
		sendAndWait(4*time.Hour+time.Minute), []move{{kind: mvStore, fault: keystest.ReplyLost}}, sendAndWait(31*time.Minute), []move{{kind: mvStore}},
	), visit{place: 1, at: 1}},
	// What is from before a revocation was told from what is from after it by times
	// alone: for an hour nothing of the owner's counted.
	{"the clock steps back over a revocation", []move{{kind: mvRevoke, place: 0}, {kind: mvClock, wait: -time.Hour}}, visit{place: 1, at: 1}},
	{"the clock steps back, and over two revocations again", []move{
		{kind: mvClock, wait: -time.Minute}, {kind: mvRevoke, place: 0}, {kind: mvRevoke, place: 2, at: 1},
		{kind: mvClock, wait: -time.Hour}, {kind: mvVisit, place: 2}, {kind: mvRevoke, place: 1},
	}, visit{place: 1, at: 1, spoiled: true}},
	// And what had been made known in the hour before would have been known after it.
	{"the password is changed where the clock has stepped back over the device", []move{
		{kind: mvVisit, place: 0}, {kind: mvClock, wait: -time.Hour}, {kind: mvRevoke, place: 1, at: 1}, {kind: mvClock, wait: time.Hour},
	}, visit{place: 1, at: 0}},
}

// resends has every code sent again that a day allows.
var resends = slices.Repeat([]move{{kind: mvSend, place: 4, n: 1, solve: true}}, keys.MaxResends+1)

// sendAndWait is a stranger who has a code sent for the owner, and time.
func sendAndWait(d time.Duration) []move {
	return []move{{kind: mvSend, place: 4, n: 1}, {kind: mvPass, wait: d}}
}

func TestPromiseNoLockoutInHistoriesThatWereFound(t *testing.T) {
	for _, store := range lockoutStores {
		open := store.open(t)
		for _, found := range foundHistories {
			t.Run(store.name+": "+found.name, func(t *testing.T) {
				w := newHistory(t, open, store.marks)
				defer w.close()
				// However the owner is let in without a code, it would show nothing.
				w.runs(slices.Concat([]move{{kind: mvPress, place: 5, n: 40}}, found.past, []move{{kind: mvPress, place: found.owner.place, n: 40}}), found.owner)
				if w.usedAt == 0 {
					t.Error("the owner was asked for no code")
				}
			})
		}
	}
}

// TestARevocationInAnOutageIsAfterWhatWasBeforeAStepBack: it could be made at this
// instance alone, and holds there all the same.
func TestARevocationInAnOutageIsAfterWhatWasBeforeAStepBack(t *testing.T) {
	w := newHistory(t, openTwin(1<<16)(t), 1<<16)
	defer w.close()
	w.store.Set(keystest.NotDone)
	w.onKnown(0, home, "success")
	w.step(-time.Hour)
	if err := w.guards[0].Revoke(t.Context(), "", owner); !errors.Is(err, ErrStore) {
		t.Fatal(err)
	}
	if v := w.check(0, Attempt{Account: owner, IP: home, Device: w.known}); v.KnownDevice {
		t.Error("the device is known")
	}
	v := w.check(0, Attempt{Account: owner, IP: home})
	w.known = w.report(0, v.Attempt, owner, "success", "")
	w.onKnown(0, home, "")
}
