package browsertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NPM is a package that npm publishes and a test holds pages against.
// integrity is as npm writes it: nothing else is run.
type NPM struct{ name, version, integrity string }

// The packages.
var (
	axeCore = NPM{"axe-core", "4.14.1", "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="}
	// HIBP is a client of the public service of leaked passwords.
	HIBP   = NPM{"hibp", "15.2.1", "sha512-f7FxrlBz5FGd/J7tx9DR1cCQNIzKTl4BLZzgRXeQblzcO/xiWGrvXBMwztRzjJVeFACpED6P+iVmU7of9eFqyA=="}
	Altcha = NPM{"altcha", "3.2.2", "sha512-yNITQaRSkRe0u/hMxdzoXFFqxqn9iDt1rJ0reREU3D3uDD3w1oFz6v5C2PMww2XnGThtYUwe8MW+PxsiBglNqw=="}
)

// File returns one file of the package.
func (p NPM) File(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		missing(t, "npm")
	}
	packed := p.fetch(t)
	if sum := sha512.Sum512(packed); "sha512-"+base64.StdEncoding.EncodeToString(sum[:]) != p.integrity {
		t.Fatalf("%s@%s is not what it was", p.name, p.version)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err != nil {
			t.Fatalf("%s in %s: %v", name, p.name, err)
		}
		if h.Name == "package/"+name {
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
}

// fetch has npm bring the package, once per machine.
func (p NPM) fetch(t *testing.T) []byte {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "guardd-test")
	file := filepath.Join(dir, fmt.Sprintf("%s-%s.tgz", p.name, p.version))
	if packed, err := os.ReadFile(file); err == nil {
		return packed
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	npm := exec.Command("npm", "pack", "--silent", "--pack-destination", fresh, p.name+"@"+p.version)
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm pack: %v\n%s", err, out)
	}
	packed, err := os.ReadFile(filepath.Join(fresh, filepath.Base(file)))
	if err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(file, packed, 0o644) // the next run fetches it again, at worst
	return packed
}
