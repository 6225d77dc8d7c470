//go:build !linux

package redistest

import "syscall"

// dieWithParent: only Linux can ask for it.
func dieWithParent() *syscall.SysProcAttr { return nil }
