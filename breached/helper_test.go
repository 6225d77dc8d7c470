package breached

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small is a short table, so that a test's index is of some kilobytes.
const small = 8

// built builds an index of text with a short table, in a folder of its own.
func built(t testing.TB, text string, o BuildOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index")
	if o.bits == 0 {
		o.bits = small
	}
	if _, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(text)), path, o, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t testing.TB, path string) *Index {
	t.Helper()
	x, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// text is rows as a file of whole hashes.
func text(kind Kind, rows []row) string {
	var b bytes.Buffer
	for i := range rows {
		fmt.Fprintf(&b, "%s:%d\n", rows[i].hash(kind), rows[i].count)
	}
	return b.String()
}

func readFileT(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFileT(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// files are the names in a folder.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

const (
	hashA = "0000005AD76BD555C1D6D771DE417A4B87E4B4AA"
	hashB = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8"
	hashC = "FFFFF3EE84FA26B3A44E0E5B4E8FA8D5F2AB1CD6"
	ntlmA = "8846F7EAEE8FB117AD06BDD830B7586C"
)

func parsed(t testing.TB, kind Kind, hex string) Hash {
	t.Helper()
	h, err := ParseHash(kind, hex)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
