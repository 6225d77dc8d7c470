package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

// selfCPU is the processor time that this process has used so far.
func selfCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other error than a bad argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ticks a second in /proc, on every Linux that Go runs on.
const ticks = 100

var errNoProc = errors.New("no /proc")

// processCPU is the processor time of another process; only Linux tells.
func processCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, errNoProc
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name may hold blanks
	if len(f) < 13 {
		return 0, errNoProc
	}
	user, err1 := strconv.ParseInt(string(f[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(f[12]), 10, 64)
	return time.Duration(user+system) * time.Second / ticks, errors.Join(err1, err2)
}
