package api

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

type word struct{}

// A request's context outlives its caller, carries what the caller's does, ends when
// carryOut has passed, and with it what is derived from it.
func TestPatienceEndsByItselfAndWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, hangUp := context.WithCancel(context.WithValue(context.Background(), word{}, "kept"))
		p := newPatience(caller, nil)
		defer p.over()
		hangUp()
		if p.Err() != nil || p.Value(word{}) != "kept" {
			t.Errorf("after the caller hung up: %v, %v", p.Err(), p.Value(word{}))
		}
		running := runtime.NumGoroutine()
		derived, cancel := context.WithTimeout(p, 2*carryOut)
		defer cancel()
		if n := runtime.NumGoroutine(); n != running {
			t.Errorf("%d goroutines watch for the end", n-running)
		}
		if at, ok := derived.Deadline(); !ok || time.Until(at) != carryOut {
			t.Errorf("it ends in %s", time.Until(at))
		}
		time.Sleep(carryOut - time.Nanosecond)
		if derived.Err() != nil {
			t.Errorf("early: %v", derived.Err())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(p.Err(), context.DeadlineExceeded) || !errors.Is(derived.Err(), context.DeadlineExceeded) {
			t.Errorf("late: %v, %v", p.Err(), derived.Err())
		}

		late := newPatience(caller, nil)
		if late.Err() != nil || late.timed != nil {
			t.Errorf("at once: %v, and a timer that nobody needs: %v", late.Err(), late.timed)
		}
		time.Sleep(carryOut)
		if !errors.Is(late.Err(), context.DeadlineExceeded) || late.timed != nil {
			t.Errorf("late: %v, and a timer that nobody needs: %v", late.Err(), late.timed)
		}
		late.over()

		asked, unasked := newPatience(caller, nil), newPatience(caller, nil)
		done := asked.Done()
		asked.over()
		unasked.over()
		<-done
		<-unasked.Done()
		if !errors.Is(asked.Err(), context.Canceled) || !errors.Is(unasked.Err(), context.Canceled) {
			t.Errorf("after the request: %v, %v", asked.Err(), unasked.Err())
		}
	})
}
