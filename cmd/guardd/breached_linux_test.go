package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestABuildStaysWithin128MB is a test of Linux, which says how much memory a
// process had. It pipes 5 million rows to the real process, with
// suffixes and as a top-N. A build that kept what it reads would take 300 MB.
func TestABuildStaysWithin128MB(t *testing.T) {
	const rows = 5_000_000
	for _, flags := range [][]string{nil, {"--top", "100000"}} {
		args := append([]string{"breached", "build", "-", "-o", filepath.Join(t.TempDir(), "index"), "--json"}, flags...)
		cmd := exec.Command("guardd", args...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fed := make(chan error, 1)
		go func() { fed <- writeCorpus(in, rows) }()
		most := highWater(cmd.Process.Pid)
		if err := errors.Join(<-fed, cmd.Wait()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(out.Bytes(), fmt.Appendf(nil, `"rows_read": %d`, rows)) || !bytes.Contains(out.Bytes(), []byte(`"prefixes": 1048576`)) {
			t.Errorf("%s", &out)
		}
		if most == 0 || most > 128<<10 {
			t.Errorf("%v: %d KiB", flags, most)
		}
	}
}

// highWater is the most memory that a process has had, in KiB, as seen until it
// ends. (What its parent is told counts the parent's own, at the fork.)
func highWater(pid int) (most int) {
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, text, ok := bytes.Cut(status, []byte("VmHWM:"))
		if err != nil || !ok { // it has ended
			return most
		}
		if n, err := strconv.Atoi(string(bytes.Fields(text)[0])); err == nil {
			most = max(most, n)
		}
		time.Sleep(time.Millisecond) // leaves the core to what is measured
	}
}

// writeCorpus writes a complete corpus of evenly spread rows.
func writeCorpus(out io.WriteCloser, rows uint64) error {
	r := rand.NewPCG(1, 2)
	gap := ^uint64(0) / rows
	b := make([]byte, 0, 1<<20)
	for i := range rows {
		b = appendHex(b, i*gap+r.Uint64()%gap)
		b = append(b, "C9B93F3F0682250B6CF8331B:"...)
		b = append(b, '1'+byte(r.Uint64()%9), '\n')
		if len(b) > 1<<20-64 {
			if _, err := out.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := out.Write(b)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

func appendHex(b []byte, x uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789ABCDEF"[x>>shift&15])
	}
	return b
}
