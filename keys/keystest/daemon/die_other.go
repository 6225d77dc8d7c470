//go:build !linux

package daemon

import "syscall"

// DieWithParent: only Linux can ask for it.
func DieWithParent() *syscall.SysProcAttr { return nil }
