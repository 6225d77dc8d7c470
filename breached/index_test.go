package breached_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardd/guardd/breached"
	"github.com/guardd/guardd/breached/breachedtest"
)

func TestIndexPassesTheSuite(t *testing.T) {
	for _, o := range []breached.BuildOptions{
		{Partial: true},
		{Partial: true, NoSuffixes: true},
		{Partial: true, Top: 1 << 20}, // a table of 16 bits
	} {
		breachedtest.Run(t, func(t *testing.T, c breachedtest.Corpus) breachedtest.Subject {
			path := build(t, strings.Join(c.Rows(), "\n"), o)
			x, err := breached.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { x.Close() })
			return breachedtest.Subject{Source: x, Ranges: !o.NoSuffixes && o.Top == 0, OnlyKind: true}
		})
	}
}

func TestLivePassesTheSuite(t *testing.T) {
	breachedtest.Run(t, func(t *testing.T, c breachedtest.Corpus) breachedtest.Subject {
		l, err := breached.OpenLive(build(t, strings.Join(c.Rows(), "\n"), breached.BuildOptions{Partial: true}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return breachedtest.Subject{Source: l, Ranges: true, OnlyKind: true}
	})
}

// build builds an index of rows.
func build(t testing.TB, rows string, o breached.BuildOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index")
	if _, err := breached.Build(context.Background(), breached.NewCorpus("rows", strings.NewReader(rows)), path, o, nil); err != nil {
		t.Fatal(err)
	}
	return path
}
