//go:build !unix

package breached

import (
	"io"
	"os"
)

// mapFile reads the whole file: where files are not mapped, an index takes its
// size in memory.
func mapFile(f *os.File, size int) ([]byte, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), b)
	return b, err
}

func unmap([]byte) error { return nil }
