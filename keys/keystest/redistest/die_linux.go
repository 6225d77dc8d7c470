package redistest

import "syscall"

// dieWithParent ends the server when the test binary is killed (a test that
// runs into its time limit runs no cleanup).
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
