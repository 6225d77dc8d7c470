// Package asntest writes small files of providers, as package asn reads, for tests.
package asntest

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// Kind is what the files call themselves.
const Kind = "Test-ASN"

// Write puts a file at path in which each prefix is of its number.
func Write(t testing.TB, path string, numbers map[string]uint32) {
	t.Helper()
	records := map[string]mmdbtype.DataType{}
	for prefix, n := range numbers {
		records[prefix] = mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(n), "autonomous_system_organization": mmdbtype.String("an example")}
	}
	write(t, path, Kind, records)
}

// WriteOther puts a file at path that knows something else of the prefix.
func WriteOther(t testing.TB, path, prefix string) {
	t.Helper()
	write(t, path, "Test-City", map[string]mmdbtype.DataType{prefix: mmdbtype.Map{"city": mmdbtype.String("Springfield")}})
}

func write(t testing.TB, path, kind string, records map[string]mmdbtype.DataType) {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	wideFirst := slices.SortedFunc(maps.Keys(records), func(a, b string) int { return bits(t, a) - bits(t, b) })
	for _, prefix := range wideFirst {
		_, n, err := net.ParseCIDR(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Insert(n, records[prefix]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.CreateTemp(t.TempDir(), "mmdb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		t.Fatal(err)
	}
}

func bits(t testing.TB, prefix string) int {
	t.Helper()
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return p.Bits()
}
