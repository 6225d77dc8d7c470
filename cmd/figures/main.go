package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// write brings what is written in the tree at root up to its measurements.
func write(root string) error {
	m, err := read(filepath.Join(root, "docs/simulate"))
	if err != nil {
		return err
	}
	path := filepath.Join(root, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if readme, err = within(readme, m.tables()); err != nil {
		return err
	}
	if err := os.WriteFile(path, readme, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs/simulate/stuffing.svg"), m.plot(), 0o644)
}

// The tables stand in the README between these.
const begin, end = "<!-- what make simulate measured -->\n", "<!-- until here -->\n"

// within puts the tables into a page.
func within(page, tables []byte) ([]byte, error) {
	head, rest, ok := bytes.Cut(page, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("the README has no place for the tables, between %q and %q", begin, end)
	}
	return bytes.Join([][]byte{head, []byte(begin), tables, []byte(end), tail}, nil), nil
}
