package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// boards are all dashboards, in the order in which they are read.
var boards = []board{overview, attack, friction, aggregator, limits, runtime}

func main() {
	dir := ".."
	switch len(os.Args) {
	case 1:
	case 2:
		dir = os.Args[1]
	default:
		fail(fmt.Errorf("usage: gen [FOLDER]"))
	}
	for _, b := range boards {
		text, err := b.json()
		if err != nil {
			fail(err)
		}
		if err := os.WriteFile(filepath.Join(dir, b.file()), text, 0o644); err != nil {
			fail(err)
		}
	}
}

// json is b as Grafana reads it.
func (b *board) json() ([]byte, error) {
	d, err := b.build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.uid, err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a query should read as it is asked
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("%s: %w", b.uid, err)
	}
	return text.Bytes(), nil
}

func (b *board) file() string { return b.uid + ".json" }

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gen:", err)
	os.Exit(1)
}
