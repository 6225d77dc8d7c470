//go:build unix

package aggregate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func mapFile(f *os.File, size int) ([]byte, func() error, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return b, func() error { return syscall.Munmap(b) }, err
}

// lockDir keeps other processes out of a spool until the file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is another process's: every instance needs a folder of its own", dir)
		}
		return nil, err
	}
	return f, nil
}
