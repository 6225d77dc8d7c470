package daemon

import "syscall"

// DieWithParent ends the server when the test binary is killed (a test that
// runs into its time limit runs no cleanup).
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
