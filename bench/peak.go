package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"
)

// watchPeak follows the most memory that a process has held, until the function
// it returns is called, which says it in MB; known is false where no system tells
// (/proc is Linux's). The figure that wait4 gives would not do: it begins with
// what the parent held at the fork, and this program may hold a gigabyte.
func watchPeak(pid int) func() (mb float64, known bool) {
	var peak float64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if kb, ok := highWater(pid); ok {
				peak = max(peak, kb/1024)
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() (float64, bool) {
		close(stop)
		<-done
		return peak, peak > 0
	}
}

// highWater is VmHWM in KiB.
func highWater(pid int) (kb float64, ok bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			_, err := fmt.Sscanf(rest, "%f kB", &kb)
			return kb, err == nil
		}
	}
	return 0, false
}
