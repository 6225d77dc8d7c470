package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A password that is typed at a terminal is not shown there.
func TestLookupAsksATerminalWithoutEcho(t *testing.T) {
	index := filepath.Join(t.TempDir(), "index")
	build := exec.Command("guardd", "breached", "build", "-", "-o", index, "--partial")
	build.Stdin = strings.NewReader("5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:3\n")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	master, slave := terminal(t)
	if !echoes(t, slave) {
		t.Fatal("the terminal does not echo to begin with")
	}
	cmd := exec.Command("guardd", "breached", "lookup", index)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for echoes(t, slave) { // until it is waiting for the password
		select {
		case err := <-ended:
			t.Fatalf("it has not asked: %v, %s%s", err, &out, &errOut)
		default:
			runtime.Gosched()
		}
	}
	if _, err := master.WriteString("password\n"); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != exitBreached {
		t.Errorf("%v, %s", err, &errOut)
	}
	if !strings.Contains(out.String(), "breached  yes\ncount     3\n") || !strings.HasPrefix(errOut.String(), "Password (not shown): ") {
		t.Errorf("%s%s", &out, &errOut)
	}
	if !echoes(t, slave) {
		t.Error("the terminal is left without echo")
	}
	// What the terminal shows after it is what is read first, if nothing else was.
	if _, err := slave.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	var shown []byte
	for !bytes.HasSuffix(shown, []byte("end")) {
		b := make([]byte, 64)
		n, err := master.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, b[:n]...)
	}
	if bytes.Contains(shown, []byte("pass")) {
		t.Errorf("the terminal shows %q", shown)
	}
}

// terminal is both ends of a new one.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s.Lflag&unix.ECHO != 0
}
