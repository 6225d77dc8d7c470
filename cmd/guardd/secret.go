package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// readSecretFile returns the lines of a secret file, less blank ones and
// those that begin with #. Whoever uses them judges their strength.
func (c *config) readSecretFile(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Mode().Perm()&0o004 != 0 {
		c.warnings = append(c.warnings, path+" can be read by every user of this machine: chmod o-r")
	}
	const most = 64 << 10 // a wrong path (a disk image, a log) is refused, not read
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("%s is larger than %d KiB: not a secret file", path, most>>10)
	}
	var lines [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, nil
}
