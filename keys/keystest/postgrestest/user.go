package postgrestest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// unprivileged is how to start PostgreSQL, which refuses to run as root: as the
// user that its package has made, or as nobody.
func unprivileged(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	as := daemon.DieWithParent()
	if as == nil {
		as = &syscall.SysProcAttr{}
	}
	if os.Geteuid() != 0 {
		return as
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		if err == nil && gerr == nil {
			as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			return as
		}
	}
	t.Fatal("PostgreSQL does not run as root, and there is no user postgres or nobody")
	return nil
}

// children are the processes that a process has made and that still run.
func children(pid int) (all []int) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == strconv.Itoa(pid) {
			if n, err := strconv.Atoi(f[0]); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}
