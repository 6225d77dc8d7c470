package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/asn/asntest"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

// TestReplayDetectsInTheRealLog: three weeks of a small public server hold what
// everybody's do, and the one morning on which somebody forgot a password.
func TestReplayDetectsInTheRealLog(t *testing.T) {
	var out, errOut bytes.Buffer
	noEnv := func(string) (string, bool) { return "", false }
	args := []string{"replay", realLog, "--year", "2025", "--zone", "UTC", "--json", "--detect"}
	if code := run(t.Context(), args, noEnv, nil, &out, &errOut); code != exitOK {
		t.Fatalf("exit %d: %s", code, errOut.String())
	}
	var report replayFigures
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	has := func(what string, texts ...string) {
		t.Helper()
	next:
		for _, c := range report.Campaigns {
			for _, text := range texts {
				if !strings.Contains(c.Text, text) {
					continue next
				}
			}
			if c.What == what {
				return
			}
		}
		t.Errorf("no %s %q among %+v", what, texts, report.Campaigns)
	}
	has("slow_guessing", "root: guessed at ", " from 64 addresses over 22 days")
	has("slow_guessing", "admin: guessed at ", " from 23 addresses over ")
	has("hammering", "elastic_user_0: guessed at ", " from 198.18.64.1 within ")
	if report.Attempts != 1185 {
		t.Errorf("%d attempts were judged, want 1185 as without --detect", report.Attempts)
	}
	for _, c := range report.Campaigns {
		if strings.Contains(c.Text, "elastic_user_1:") {
			t.Errorf("an owner was taken for an attacker: %+v", c)
		}
	}

	// The same for people.
	out.Reset()
	if code := run(t.Context(), append(args[:6:6], "--detect"), noEnv, nil, &out, &errOut); code != exitOK {
		t.Fatalf("exit %d: %s", code, errOut.String())
	}
	if text := out.String(); !strings.Contains(text, "Attacks found") || !strings.Contains(text, "slow_guessing: root: guessed at ") {
		t.Errorf("the report does not name root:\n%s", text)
	}
	// Without --detect nothing of it is there.
	out.Reset()
	if code := run(t.Context(), args[:7], noEnv, nil, &out, &errOut); code != exitOK || strings.Contains(out.String(), "campaigns") {
		t.Errorf("exit %d, and campaigns without --detect", code)
	}
}

// TestReplayAttributesToProviders: as serve does, by the file that the configuration,
// the environment or the flag names, the last first.
func TestReplayAttributesToProviders(t *testing.T) {
	dir := t.TempDir()
	for name, number := range map[string]uint32{"file": 64500, "environment": 64501, "flag": 64502} {
		asntest.Write(t, filepath.Join(dir, name+".mmdb"), map[string]uint32{"198.18.0.0/15": number})
	}
	asntest.WriteOther(t, filepath.Join(dir, "city.mmdb"), "198.18.0.0/15")
	config := filepath.Join(dir, "guardd.yaml")
	if err := os.WriteFile(config, []byte("asn_file: file.mmdb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(environ map[string]string, args ...string) (code int, out, errOut string) {
		var o, e bytes.Buffer
		code = run(t.Context(), append([]string{"replay", realLog, "--year", "2025", "--zone", "UTC"}, args...), getenv(environ), nil, &o, &e)
		return code, o.String(), e.String()
	}
	byEnv := map[string]string{"GUARDD_ASN_FILE": filepath.Join(dir, "environment.mmdb")}
	for _, c := range []struct {
		environ map[string]string
		args    []string
		want    string // of whom distributed guessing is; "": of nobody
	}{
		{nil, nil, ""},
		{nil, []string{"--config", config}, "64500"},
		{byEnv, []string{"--config", config}, "64501"},
		{byEnv, []string{"--config", config, "--asn-file", filepath.Join(dir, "flag.mmdb")}, "64502"},
	} {
		code, out, errOut := replay(c.environ, append(c.args, "--detect", "--json")...)
		var report replayFigures
		if err := json.Unmarshal([]byte(out), &report); code != exitOK || err != nil {
			t.Fatalf("%v: exit %d, %v: %s", c.args, code, err, errOut)
		}
		of := ""
		for _, k := range report.Campaigns {
			for _, g := range k.Groups {
				if k.What == "distributed_guessing" && g.Kind == "asn" {
					of = g.Key
				}
			}
		}
		if of != c.want {
			t.Errorf("%v %v: distributed guessing is of %q, not of %q", c.environ, c.args, of, c.want)
		}
	}
	if _, out, _ := replay(byEnv, "--detect"); !strings.Contains(out, "; most of it from ") || !strings.Contains(out, "AS64501") {
		t.Errorf("people are not told of AS64501:\n%s", out)
	}
	if code, _, errOut := replay(byEnv); code != exitOK { // what configures serve is no fault of who does not detect
		t.Errorf("exit %d: %s", code, errOut)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"replay: --asn-file: means nothing without --detect", []string{"--asn-file", filepath.Join(dir, "flag.mmdb")}},
		{"replay: asn_file: stat nowhere: no such file", []string{"--detect", "--asn-file", "nowhere"}},
		{"replay: asn_file: " + filepath.Join(dir, "city.mmdb"), []string{"--detect", "--asn-file", filepath.Join(dir, "city.mmdb")}},
	} {
		if code, out, errOut := replay(nil, c.args...); code != exitUsage || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d, on stderr %q", c.args, code, errOut)
		}
	}
}

// TestReplayCountsWhatItDoesNotList: ten attacks listed of more were "10 found".
func TestReplayCountsWhatItDoesNotList(t *testing.T) {
	args := []string{"replay", realLog, "--year", "2025", "--zone", "Asia/Tokyo", "--detect", "--top"}
	code, out, errOut := ran(t, append(args, "100")...)
	lines := regexp.MustCompile(`(?m)^  \d+ [A-Z][a-z]+ \d\d:\d\d [a-z_]+: `).FindAllString(out, -1)
	if code != exitOK || len(lines) < 5 || !strings.Contains(out, fmt.Sprintf("Attacks found %22d\n", len(lines))) || strings.Contains(out, "--top lists more") {
		t.Fatalf("exit %d: %d attacks listed in\n%s%s", code, len(lines), out, errOut)
	}
	_, out, _ = ran(t, append(args, "2")...)
	if !strings.Contains(out, fmt.Sprintf("Attacks found %22d\n", len(lines))) || !strings.Contains(out, lines[0]) || !strings.Contains(out, fmt.Sprintf("and %d others with fewer guesses", len(lines)-2)) {
		t.Errorf("of %d attacks two are listed as\n%s", len(lines), out)
	}
	_, out, _ = ran(t, append(args, "2", "--json")...)
	var report replayFigures
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.CampaignsFound != len(lines) || len(report.Campaigns) != 2 {
		t.Errorf("%v: %d found, %d listed", err, report.CampaignsFound, len(report.Campaigns))
	}
	// Their times are of the zone that the head of the report is of.
	if at := report.Campaigns[0].Start.In(time.FixedZone("JST", 9*3600)).Format("2 Jan 15:04"); len(report.Campaigns) > 0 && !strings.Contains(lines[0], at) {
		t.Errorf("the first attack began at %s and is listed as %q", at, lines[0])
	}
	if code, _, errOut := ran(t, "policy", "diff", "default", "default", "--replay", realLog, "--detect"); code != exitUsage || !strings.Contains(errOut, "there is no flag --detect") {
		t.Errorf("policy diff takes --detect, and does nothing with it: exit %d, %s", code, errOut)
	}
}

// TestReplayListsEachRealmsCampaigns: the last state of each, the most guesses first,
// with the names of accounts that are known. One attacker in two realms is two: a
// campaign's id is its realm's own.
func TestReplayListsEachRealmsCampaigns(t *testing.T) {
	d := &detector{watching: map[string]*aggregate.Detection{}, found: map[string]detect.Campaign{}, names: map[string]string{"h1": "alice"}}
	at := func(minutes int64) int64 { return 1_800_000_000_000_000 + minutes*60*keys.Second }
	from := netip.MustParsePrefix("192.0.2.1/32")
	hammer := func(id, account string, guesses int) *detect.Campaign {
		return &detect.Campaign{ID: id, What: "hammering", Start: at(0), Last: at(7), Guesses: guesses, Sources: 2, Accounts: 3,
			Sample: []string{account}, Groups: []detect.Group{{Kind: detect.GroupSource, Prefix: from}}}
	}
	shop, forum := d.keep("shop"), d.keep("forum")
	shop(hammer("a", "h1", 10))
	shop(hammer("a", "h1", 40))
	forum(hammer("a", "h2", 50))
	shop(hammer("b", "h3", 30))
	start, last := time.UnixMicro(at(0)).UTC(), time.UnixMicro(at(7)).UTC()
	n, list := d.list(2)
	for i := range list {
		list[i].Groups = nil
	}
	want := []replayCampaign{
		{What: "hammering", Text: "h2: guessed at 50 times from 192.0.2.1 within 7 minutes", Start: start, Last: last, Guesses: 50, Sources: 2, Accounts: 3},
		{What: "hammering", Text: "alice: guessed at 40 times from 192.0.2.1 within 7 minutes", Start: start, Last: last, Guesses: 40, Sources: 2, Accounts: 3},
	}
	if diff := cmp.Diff(want, list); diff != "" || n != 3 {
		t.Errorf("%d were found: %s", n, diff)
	}
	// What came after the last whole bin is there, too.
	w, err := aggregate.NewDetection(aggregate.DetectionConfig{Realm: "shop"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.watching["shop"] = w
	for i := range int64(60) {
		w.See(&detect.Sight{At: at(i), Class: detect.Cold, Account: "h1", Source: from, Wide: from})
	}
	if n, l := d.list(9); n != 4 || len(l) != 4 || l[0].Guesses != 60 || !strings.HasPrefix(l[0].Text, "alice: ") {
		t.Errorf("%+v", l)
	}
}
