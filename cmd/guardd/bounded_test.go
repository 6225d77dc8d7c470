package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/guardd/guardd/keys"
)

// Random accounts from random addresses, more than there is room for, through one
// instance: its memory stays under what memory_entries says, an account that was
// drained before stays drained, and whoever comes new is asked for a captcha at
// most.
func TestAFloodOfAccountsFillsNoMemoryFreesNobodyAndLocksNobodyOut(t *testing.T) {
	accounts, entries := 200_000, 1<<13
	if soak(t) > 0 {
		accounts, entries = 5_000_000, 1<<18
	}
	// What is learned of a realm, and kept of late, has a bound of its own.
	m := &member{process: startGuardd(t, "--aggregate=false", "--memory-entries", fmt.Sprint(entries), "--policy", writeFile(t, "policy.yaml", oneRung))}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	drained := func(name string) bool {
		t.Helper()
		a, err := m.ask(client, name, address())
		if err != nil {
			t.Fatal(err)
		}
		return a.Action == "verify" && !a.Proceed
	}
	const sample = 200
	for i := range sample {
		for !drained(fmt.Sprint("victim", i)) {
		}
	}
	empty := m.heap(t)

	var asked atomic.Int64 // for a wait or a captcha
	var highest int64
	const parts, visitors = 10, 16
	for part := range parts {
		var wg sync.WaitGroup
		for v := range visitors {
			wg.Go(func() {
				for i := range accounts / parts / visitors {
					a, err := m.ask(client, fmt.Sprintf("%d-%d-%d", part, v, i), address())
					switch {
					case err != nil:
						t.Error(err)
						return
					case a.Action == "delay" || a.Action == "captcha":
						asked.Add(1)
					case a.Action != "allow":
						t.Errorf("an account that nobody has guessed at is asked for %s", a.Action)
					}
				}
			})
		}
		wg.Wait()
		highest = max(highest, m.heap(t))
	}
	bound := empty + int64(entries)*(keys.EntryBytes+100) // the flood guard counts beside
	if highest > bound || highest < empty {
		t.Errorf("%d bytes in use, of at most %d", highest, bound)
	}
	for i := range sample {
		if name := fmt.Sprint("victim", i); !drained(name) {
			t.Errorf("the flood has freed %s", name)
		}
	}
	shared := m.metric(t, "guardd_twin_overflowed_total")
	if shared == 0 || asked.Load() == 0 {
		t.Errorf("%d writes to shared buckets, and %d newcomers were asked for anything: memory was never full", shared, asked.Load())
	}
	t.Logf("%d accounts, room for %d: %d MB in use at most, of %d MB; %d writes to shared buckets; %d newcomers were asked for a wait or a captcha, and none for a code",
		accounts, entries, highest>>20, bound>>20, shared, asked.Load())
}

func address() string {
	return fmt.Sprintf("%d.%d.%d.%d", 20+rand.IntN(80), rand.IntN(256), rand.IntN(256), rand.IntN(256))
}

// heap is what the process holds, after a collection.
func (m *member) heap(t *testing.T) int64 {
	t.Helper()
	if status, text := get(t, m.admin+"/debug/pprof/heap?gc=1"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	return m.metric(t, "go_memstats_heap_alloc_bytes")
}
