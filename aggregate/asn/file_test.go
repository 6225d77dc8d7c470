package asn

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate/asn/asntest"
)

func TestWhoAnnouncesAnAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asn.mmdb")
	asntest.Write(t, path, map[string]uint32{"198.51.100.0/22": 64500, "2001:db8:7::/48": 64501, "203.0.113.0/24": 4200000000})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]uint32{
		"198.51.100.1": 64500, "198.51.103.255": 64500, "198.51.104.0": 0, "::ffff:198.51.101.9": 64500,
		"2001:db8:7:ffff::1": 64501, "2001:db8:8::1": 0, "203.0.113.200": 4200000000, "fe80::1%eth0": 0, "2001:db8:7::1%eth0": 64501,
	} {
		if got := f.Of(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is of %d, want %d", addr, got, want)
		}
	}
	if f.Kind() != asntest.Kind || time.Since(f.Built()) > time.Hour {
		t.Errorf("made %v, of %s", f.Built(), f.Kind())
	}
	if changed, err := f.Reload(); changed || err != nil {
		t.Errorf("unchanged, and %v, %v", changed, err)
	}
}

func TestWhatIsNoSuchFileIsRefusedAndTheOneBeforeStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "asn.mmdb")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	asntest.Write(t, path, map[string]uint32{"198.51.100.0/24": 64500})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cities := filepath.Join(dir, "city.mmdb")
	asntest.WriteOther(t, cities, "198.51.100.0/24")
	other, err := os.ReadFile(cities)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"text": []byte("no such thing"), "none": {}, "half": whole[:len(whole)/2],
		"torn": append(append([]byte{}, whole[:40]...), whole[60:]...), "cities": other} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := f.Reload(); changed || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
		if got := f.Of(netip.MustParseAddr("198.51.100.9")); got != 64500 {
			t.Errorf("%s: then it answers %d", name, got)
		}
		if _, err := Open(path); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
	asntest.Write(t, path, map[string]uint32{"198.51.100.0/24": 64502, "198.51.0.0/16": 1})
	if changed, err := f.Reload(); !changed || err != nil {
		t.Errorf("a new one: %v, %v", changed, err)
	}
	if got := f.Of(netip.MustParseAddr("198.51.100.9")); got != 64502 {
		t.Errorf("after a new one it answers %d", got)
	}
}
