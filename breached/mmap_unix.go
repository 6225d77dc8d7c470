//go:build unix

package breached

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file, for reading at random.
func mapFile(f *os.File, size int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	// Advice: a look-up needs two pages of thousands, and what would be read
	// ahead is another password's. Whoever cannot take it reads ahead.
	_ = unix.Madvise(b, unix.MADV_RANDOM)
	return b, nil
}

func unmap(b []byte) error { return os.NewSyscallError("munmap", unix.Munmap(b)) }
