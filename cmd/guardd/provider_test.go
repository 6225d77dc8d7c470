package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate/asn"
	"github.com/guardd/guardd/aggregate/asn/asntest"
)

// TestServeKnowsProviders: with a file of them, and it says of which day.
func TestServeKnowsProviders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asn.mmdb")
	asntest.Write(t, path, map[string]uint32{"198.51.100.0/24": 64500})
	p := startGuardd(t, "--asn-file", path)
	at := p.metric(t, "guardd_asn_file_timestamp_seconds")
	if at == "0" || !strings.Contains(p.logged(), asntest.Kind) {
		t.Errorf("of %s; it says\n%s", at, p.logged())
	}
	if at := startGuardd(t).metric(t, "guardd_asn_file_timestamp_seconds"); at != "0" {
		t.Errorf("without a file it is of %s", at)
	}
}

func TestServeRefusesAFileOfSomethingElse(t *testing.T) {
	cities := filepath.Join(t.TempDir(), "city.mmdb")
	asntest.WriteOther(t, cities, "198.51.100.0/24")
	for _, path := range []string{"nowhere", cities} {
		p, err := startProcess("", nil, "--asn-file", path)
		if err == nil {
			p.kill()
			t.Fatalf("%s is taken", path)
		}
		if !strings.Contains(err.Error(), "asn_file: ") {
			t.Errorf("%v does not name asn_file", err)
		}
	}
}

func TestAFileOfProvidersThatIsNoneIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "asn.mmdb")
	asntest.Write(t, path, map[string]uint32{"198.51.100.0/24": 64500})
	s := &server{log: slog.New(slog.NewTextHandler(&log, nil)), config: &config{ASNFile: path}}
	f, err := asn.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	asntest.WriteOther(t, path, "198.51.100.0/24")
	said := ""
	for range 3 {
		said = s.reloadProviders(f, said)
	}
	if n := strings.Count(log.String(), "not taken"); n != 1 || said == "" {
		t.Errorf("told %d times: %s", n, log.String())
	}
	time.Sleep(time.Millisecond) // of another time, if it is of the same size
	asntest.Write(t, path, map[string]uint32{"198.51.100.0/24": 64501, "203.0.113.0/24": 1})
	if said = s.reloadProviders(f, said); said != "" || !strings.Contains(log.String(), "newer file") {
		t.Errorf("%q: %s", said, log.String())
	}
}
