package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/cmd/guardd/loginlog"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

const realLog = "loginlog/testdata/sshd-auth.log.gz"

func noEnv(string) (string, bool) { return "", false }

// replayed runs the command.
func replayed(stdin io.Reader, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = replayCommand(context.Background(), args, noEnv, stdin, &o, &e)
	return code, o.String(), e.String()
}

// figures runs the command with --json on a log and checks what holds for every log.
func figures(t *testing.T, log string, args ...string) replayFigures {
	t.Helper()
	code, out, errOut := replayed(strings.NewReader(log), append([]string{"-", "--json", "--zone", "UTC"}, args...)...)
	if code != exitOK || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	return checked(t, out)
}

func checked(t *testing.T, out string) replayFigures {
	t.Helper()
	var f replayFigures
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	b := f.ByAction
	for what, holds := range map[string]bool{
		"lines = parsed + skipped + unparsed":           f.Lines == f.Parsed+f.Skipped+f.Unparsed,
		"attempts = accepted + failed - refused":        f.Attempts == f.Accepted+f.Failed-f.RefusedInput,
		"attempts = sum of by_action":                   f.Attempts == b.Allow+b.Delay+b.Captcha+b.Verify+b.Deny,
		"allow = guesses let through + smooth honest":   b.Allow == f.GuessesLetThrough+f.HonestLogins-f.HonestWithFriction,
		"guesses let through <= failed":                 f.GuessesLetThrough <= f.Failed,
		"honest logins <= accepted":                     f.HonestLogins <= f.Accepted && f.HonestWithFriction <= f.HonestLogins,
		"attempts of a list <= attempts, asked <= them": listsHold(f),
	} {
		if !holds {
			t.Errorf("%s does not hold in %+v", what, f)
		}
	}
	return f
}

func listsHold(f replayFigures) bool {
	var a, b int64
	for _, s := range f.TopSources {
		a += s.Attempts
		if s.Asked > s.Attempts {
			return false
		}
	}
	for _, s := range f.TopAccounts {
		b += s.Attempts
		if s.Asked > s.Attempts {
			return false
		}
	}
	return a <= f.Attempts && b <= f.Attempts
}

// golden compares with a file; GOLDEN=write writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata/replay", file)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
	}
}

// The figures are right because three ways agree on them: grep and awk on the
// log (190 accepted; 628 failed and 85 repeats that stand for 410 more; 43
// empty names), the table played by hand in rational numbers
// (TestRealLogAgreesWithTheTable), and single climbs followed by eye
// (TestOneAttackersClimb, TestOneHonestUsersDay).
func TestReplayOfTheRealLog(t *testing.T) {
	code, out, errOut := replayed(nil, realLog, "--format", "sshd", "--json", "--zone", "UTC")
	if code != exitOK || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	golden(t, "sshd-auth.json", out)
	f := checked(t, out)
	if f.Lines != 4095 || f.Accepted != 190 || f.Failed != 1038 || f.RefusedInput != 43 || f.Attempts != 1185 || f.HonestLogins != 190 {
		t.Errorf("%+v", f)
	}
	code, out, errOut = replayed(nil, "--year=2017", "--zone=UTC", realLog, "--top", "5")
	if code != exitOK || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	golden(t, "sshd-auth.txt", out)
}

// realEvents returns the logins of the real log.
func realEvents(t *testing.T) []loginlog.Event {
	t.Helper()
	f, err := os.Open(realLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := loginlog.NewLines(f)
	if err != nil {
		t.Fatal(err)
	}
	s := loginlog.NewScanner(lines, loginlog.NewSSHD(2017, time.UTC))
	var events []loginlog.Event
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return events
		} else if err != nil {
			t.Fatal(err)
		}
		for range ev.Times {
			events = append(events, ev)
		}
	}
}

// byHand plays the default table in rational numbers and knows nothing of
// guardd: pair, account and address, two limits each, which give back what
// time has repaid; no IPv6, no posture, no devices. It returns the rung of
// each attempt that has a name.
type byHand struct {
	spent  map[string]*big.Rat
	at     map[string]time.Time
	places map[string]bool // 22 days of log: none grows old
}

var handTable = []struct {
	tier            string
	capacity        int64
	refill, seconds int64
	delay, captcha  int64 // at most so many left; 0 for never
	skippedAtAPlace bool
}{
	{"pair", 10, 10, 600, 7, 5, false},
	{"pair", 20, 5, 86400, 0, 10, false},
	{"account", 20, 20, 3600, 12, 10, false},
	{"account", 100, 10, 86400, 0, 60, false},
	{"ip", 40, 20, 600, 24, 20, true},
	{"ip", 200, 100, 86400, 0, 100, true},
}

func (h *byHand) judge(ev *loginlog.Event) escalation.Action {
	names := map[string]string{"pair": ev.Account + "@" + ev.IP, "account": ev.Account, "ip": ev.IP}
	place := h.places[names["pair"]]
	rung, take := 0, []*big.Rat{}
	for i, l := range handTable {
		if l.skippedAtAPlace && place {
			continue
		}
		key := fmt.Sprint(i, names[l.tier])
		spent := h.spent[key]
		if spent == nil {
			spent = new(big.Rat)
			h.spent[key] = spent
		} else {
			back := big.NewRat(int64(ev.Time.Sub(h.at[key])/time.Second)*l.refill, l.seconds)
			if spent.Sub(spent, back); spent.Sign() < 0 {
				spent.SetInt64(0)
			}
		}
		h.at[key] = ev.Time
		left := new(big.Rat).Sub(big.NewRat(l.capacity, 1), spent)
		atMost := func(n int64) bool { return left.Cmp(big.NewRat(n, 1)) <= 0 }
		switch {
		case left.Cmp(big.NewRat(1, 1)) < 0:
			rung = max(rung, 3)
			continue
		case atMost(l.captcha):
			rung = max(rung, 2)
		case l.delay > 0 && atMost(l.delay):
			rung = max(rung, 1)
		}
		take = append(take, spent)
	}
	switch {
	case ev.Outcome == loginlog.Accepted: // let in now or by a proof; takes, and gives back at once
		h.places[names["pair"]] = true
	case rung == 0:
		for _, spent := range take {
			spent.Add(spent, big.NewRat(1, 1))
		}
	}
	return escalation.Actions[rung]
}

func TestRealLogAgreesWithTheTable(t *testing.T) {
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReplay(escalation.DefaultPolicy(), secrets, escalation.DefaultRealm, escalation.DefaultFlow)
	if err != nil {
		t.Fatal(err)
	}
	hand := &byHand{map[string]*big.Rat{}, map[string]time.Time{}, map[string]bool{}}
	for i, ev := range realEvents(t) {
		before := r.report.ByAction
		r.tick(ev.Time)
		if _, err := r.login(t.Context(), &ev, 0); err != nil {
			t.Fatal(err)
		}
		if ev.Account == "" {
			continue
		}
		before.add(hand.judge(&ev))
		if before != r.report.ByAction {
			t.Fatalf("guess %d, %v on %q from %s: by hand %+v, guardd %+v", i, ev.Time, ev.Account, ev.IP, before, r.report.ByAction)
		}
	}
	if r.report.Attempts != 1185 || r.report.stuck != 0 {
		t.Errorf("%+v", r.report)
	}
}

// The replay adds nothing to the guard and leaves nothing out: asking a guard
// directly, in so many words, gives the same answers.
func TestReplayIsTheGuard(t *testing.T) {
	var now int64
	clock := func() int64 { return now }
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	store := keys.NewMemory(keys.MemoryConfig{Now: clock})
	guard, err := escalation.New(escalation.Config{Store: store, Records: store, Policy: escalation.DefaultPolicy(), Secrets: secrets, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	ctx, got := t.Context(), map[escalation.Action]int64{}
	for _, ev := range realEvents(t) {
		now = ev.Time.UnixMicro()
		a := &escalation.Attempt{Account: ev.Account, IP: ev.IP}
		v, err := guard.Check(ctx, a)
		if ev.Account == "" && err != nil {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		got[v.Action]++
		outcome := "failure"
		if ev.Outcome == loginlog.Accepted {
			outcome = "success"
			if !v.Proceed {
				if a.Proof, err = guard.Solve(ctx, v.Challenge.Token, keys.Verify); err != nil {
					t.Fatal(err)
				}
				if v, err = guard.Check(ctx, a); err != nil || !v.Proceed {
					t.Fatalf("an honest login with a proof: %+v, %v", v, err)
				}
			}
		} else if ev.Outcome == loginlog.UnknownAccount {
			outcome = "unknown_account"
		}
		if !v.Proceed {
			continue
		}
		if rec, err := guard.Report(ctx, &escalation.Report{Attempt: v.Attempt, Account: ev.Account, Outcome: outcome}, nil); err != nil || !rec.Recorded {
			t.Fatalf("%+v, %v", rec, err)
		}
	}
	_, out, _ := replayed(nil, realLog, "--json", "--zone", "UTC")
	f := checked(t, out)
	for _, a := range escalation.Actions {
		if n := *f.ByAction.of(a); n != got[a] {
			t.Errorf("%s: replay %d, guard %d", a, n, got[a])
		}
	}
}

// only returns the real log's lines that match.
func only(t *testing.T, pattern string) string {
	t.Helper()
	f, err := os.Open(realLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	re := regexp.MustCompile(pattern)
	for line := range strings.Lines(string(all)) {
		if re.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// 198.18.102.73 guesses 120 passwords of root on 5 April, from 07:11:17 on.
// The pair's burst (10, one back a minute) has 10 tokens at the first guess,
// 9 1/6 at the second, ten seconds on, then 8 1/6 and 7 1/6 in the same
// second: four pass. At 6 1/6, under 70 %, the fifth is asked to wait, and
// takes nothing; so one more passes about every minute, until ten have gone
// from the pair's sustained limit (20, five back a day). It has then a little
// more than half left, so the eleventh passes too; from then on at most half
// is left, and all are asked for a captcha.
func TestOneAttackersClimb(t *testing.T) {
	log := only(t, "for root from 198.18.102.73 ")
	head := strings.Join(strings.SplitAfter(log, "\n")[:2], "") // one guess, and five in one line
	if f, want := figures(t, head), (byAction{Allow: 4, Delay: 2}); f.ByAction != want {
		t.Errorf("the first six: %+v, want %+v", f.ByAction, want)
	}
	f := figures(t, log)
	if want := (byAction{Allow: 11, Delay: 39, Captcha: 70}); f.ByAction != want {
		t.Errorf("%+v, want %+v", f.ByAction, want)
	}
	if want := []topSource{{"198.18.102.73", 120, 109}}; !slices.Equal(f.TopSources, want) {
		t.Errorf("sources %+v, want %+v", f.TopSources, want)
	}
}

// elastic_user_0 signs in from two places on 29 March. On the 30th at 15:54
// somebody at the second one guesses 137 times what is not the password, until
// the pair's sustained limit asks for a captcha; then comes the right one: it
// is asked as well, passes, and is the only honest login of the log that meets
// any friction. The other place notices nothing.
func TestOneHonestUsersDay(t *testing.T) {
	all := only(t, "for elastic_user_0 from ")
	f := figures(t, all)
	if f.HonestLogins != 29 || f.HonestWithFriction != 1 {
		t.Errorf("%+v", f)
	}
	if f := figures(t, only(t, "for elastic_user_0 from 198.18.0.168 ")); f.HonestWithFriction != 0 || f.ByAction.Allow != f.Attempts {
		t.Errorf("the other place: %+v", f)
	}
	code, out, _ := replayed(strings.NewReader(all), "-", "--year", "2017")
	if want := "captcha 1, and then let in"; code != exitOK || !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// failures are guesses on n accounts from one address, in one minute.
func failures(n int, at, ip string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s h sshd[1]: Failed password for u%d from %s port 1 ssh2\n", at, i, ip)
	}
	return b.String()
}

func TestFamiliarPlacesSkipTheAddress(t *testing.T) {
	const in = "%s h sshd[1]: Accepted password for %s from 192.0.2.1 port 1 ssh2\n"
	log := fmt.Sprintf(in, "Mar  1 00:00:00", "alice") + failures(40, "Mar  1 00:01:00", "192.0.2.1") +
		fmt.Sprintf(in, "Mar  1 00:01:00", "alice") + fmt.Sprintf(in, "Mar  1 00:01:00", "bob")
	f := figures(t, log)
	// 16 guesses leave 24 of 40, which is 60 %; bob is asked, alice is not.
	if want := (byAction{Allow: 16 + 2, Delay: 24 + 1}); f.ByAction != want || f.HonestWithFriction != 1 {
		t.Errorf("%+v, want %+v", f, want)
	}
}

func TestTheClockNeverRunsBackwards(t *testing.T) {
	ok := "%s h sshd[1]: Failed password for bob from 192.0.2.1 port 1 ssh2\n"
	at := func(s string) string { return fmt.Sprintf(ok, s) }
	burst := strings.Repeat(at("Mar  1 01:00:00"), 3)
	inOrder := figures(t, burst+strings.Repeat(at("Mar  1 01:00:00"), 3))
	stepped := figures(t, burst+at("Mar  1 00:00:00")+at("Mar  1 00:59:59")+at("Mar  1 00:30:00"))
	if want := (byAction{Allow: 3, Delay: 3}); inOrder.ByAction != want || stepped.ByAction != want {
		t.Errorf("in order %+v, stepped %+v, want %+v", inOrder.ByAction, stepped.ByAction, want)
	}
	_, out, _ := replayed(strings.NewReader(burst+at("Mar  1 00:00:00")), "-")
	if want := "1 login out of order, by up to 1h0m0s: judged at the latest time before\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	// The files of a log in the wrong order stop the clock for days.
	_, out, _ = replayed(strings.NewReader(at("Mar 20 00:00:00")+at("Mar  1 00:00:00")), "-")
	if want := "oldest file first?"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

func TestListsCountByWhatGuarddCountsBy(t *testing.T) {
	line := func(account, ip, more string) string {
		return fmt.Sprintf(`{"time":1743076800,"account":%q,"ip":%q,"outcome":"failure"%s}`+"\n", account, ip, more)
	}
	f := figures(t, line("Bob", "2001:db8:0:1::1", "")+line(" bob", "2001:db8:0:1:ffff::", "")+line("BOB", "2001:db8:0:2::1", "")+
		line("alice", "::ffff:192.0.2.1", "")+line("alice", "64:ff9b::192.0.2.1", `,"flow":"otp"`), "--format", "jsonl")
	if want := []topSource{{"192.0.2.1", 2, 0}, {"2001:db8:0:1::/64", 2, 0}, {"2001:db8:0:2::/64", 1, 0}}; !slices.Equal(f.TopSources, want) {
		t.Errorf("%v, want %v", f.TopSources, want)
	}
	if want := []topAccount{{"bob", 3, 0}, {"alice", 2, 0}}; !slices.Equal(f.TopAccounts, want) {
		t.Errorf("%v, want %v", f.TopAccounts, want)
	}
}

// What guardd answers with 400 is in the log too.
func TestRefusedInputIsCountedApart(t *testing.T) {
	line := func(account, ip string) string {
		b, _ := json.Marshal(map[string]any{"time": 1743076800, "account": account, "ip": ip, "outcome": "failure"})
		return string(b) + "\n"
	}
	log := line("bob", "192.0.2.1") + line("", "192.0.2.1") + line("  ", "192.0.2.1") + line("b\x00b", "192.0.2.1") +
		line(strings.Repeat("x", 4096), "192.0.2.1") + line("bob", "192.0.2.1, 192.0.2.2") + line("bob", "localhost") +
		strings.Replace(line("bob", "192.0.2.1"), "{", `{"flow":"nonsense",`, 1) +
		strings.Replace(line("", "192.0.2.1"), "failure", "success", 1)
	f := figures(t, log, "--format", "jsonl")
	if f.Attempts != 1 || f.RefusedInput != 8 || f.Failed != 8 || f.Accepted != 1 || f.HonestLogins != 0 {
		t.Errorf("%+v", f)
	}
}

// The same logins, however they are written down, get the same answers.
func TestFormatsAreEquivalent(t *testing.T) {
	events := realEvents(t)
	var jsonl, table strings.Builder
	enc := json.NewEncoder(&jsonl)
	for _, ev := range events {
		outcome := map[loginlog.Outcome]string{1: "200", 2: "401", 3: "404"}[ev.Outcome]
		if err := enc.Encode(map[string]any{"ts": ev.Time, "user": map[string]string{"name": ev.Account}, "ip": ev.IP, "status": json.Number(outcome)}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&table, "%s;%s;%d;%q\n", ev.IP, outcome, ev.Time.UnixMilli(), ev.Account)
	}
	words := []string{"--outcomes", "200=success,401=failure,404=unknown_account"}
	a := figures(t, jsonl.String(), append(words, "--format", "jsonl", "--columns", "time=ts,account=user.name,outcome=status")...)
	b := figures(t, table.String(), append(words, "--format", "csv", "--columns", "time=3,account=4,ip=1,outcome=2", "--delimiter", ";")...)
	c := figures(t, "address;result;when;who\r\n"+table.String(), append(words, "--format", "csv", "--columns", "time=when,account=who,ip=address,outcome=result", "--delimiter", ";", "--time-layout", "unix_ms")...)
	_, out, _ := replayed(nil, realLog, "--json", "--zone", "UTC")
	want := checked(t, out)
	c.Skipped--
	c.Lines--
	for _, f := range []replayFigures{a, b, c} {
		if f.Parsed != int64(len(events)) || f.Skipped+f.Unparsed != 0 {
			t.Errorf("%+v", f)
		}
		f.Lines, f.Parsed, f.Skipped = want.Lines, want.Parsed, want.Skipped
		if fmt.Sprint(f) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}

// Whatever the log comes out of, it is the same log.
func TestFilesPipesAndGzipAreEquivalent(t *testing.T) {
	log := only(t, "")
	dir := t.TempDir()
	plain, marked := filepath.Join(dir, "plain"), filepath.Join(dir, "marked")
	if err := os.WriteFile(plain, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(marked, []byte("\xef\xbb\xbf"+strings.ReplaceAll(log, "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(realLog)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		w.Write(packed)
		w.Close()
	}()
	_, want, _ := replayed(nil, realLog, "--json", "--zone", "UTC")
	for name, c := range map[string]struct {
		stdin io.Reader
		file  string
	}{
		"plain": {nil, plain}, "marked, with carriage returns": {nil, marked}, "text on standard input": {strings.NewReader(log), "-"},
		"gzip on standard input": {bytes.NewReader(packed), "-"}, "a file as standard input": {file, "-"}, "a pipe": {r, "-"},
	} {
		if code, got, errOut := replayed(c.stdin, c.file, "--json", "--zone", "UTC"); code != exitOK || got != want {
			t.Errorf("%s: exit %d, %s%s", name, code, errOut, got)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "guardd-replay-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestReplayPolicyIsThatOfTheFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const log = "Mar  1 00:00:00 h sshd[1]: Failed password for bob from 192.0.2.1 port 1 ssh2\n" +
		"Mar  1 00:00:00 h sshd[1]: Accepted password for alice from 192.0.2.1 port 1 ssh2\n" +
		"Mar  1 00:00:00 h sshd[1]: Accepted password for alice from 192.0.2.2 port 1 ssh2\n"
	realms := "realms: {shop: {delivery: {driver: log}, lists: {deny: [{cidr: 192.0.2.1}]}}}\n"
	for name, args := range map[string][]string{
		"policy file":                    {"--policy", file("p.yaml", realms), "--realm", "shop"},
		"configuration":                  {"--config", file("c.yaml", realms), "--realm", "shop"},
		"a configuration that names one": {"--config", file("n.yaml", "policy: p.yaml\n"), "--realm", "shop"},
		"a service's, without its secrets": {"--realm", "shop", "--config",
			file("s.yaml", "secret_file: gone\nredis: rediss://gone\n"+strings.Replace(realms, "{lists", "{pepper_file: gone, lists", 1))},
	} {
		f := figures(t, log, args...)
		if want := (byAction{Allow: 1, Deny: 2}); f.ByAction != want || f.HonestLogins != 2 || f.HonestWithFriction != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	code, out, _ := replayed(strings.NewReader(log), "-", "--policy", filepath.Join(dir, "p.yaml"), "--realm", "shop")
	if want := "kept out by your list"; code != exitOK || !strings.Contains(out, want) || !strings.Contains(out, "p.yaml, realm shop") {
		t.Errorf("no %q in\n%s", want, out)
	}
	bad := file("bad.yaml", "realms: {default: {delivery: {driver: log}, flows: {login: {limits: [{tier: account, name: burst, capacity: -1}]}}}}\n")
	if code, _, errOut := replayed(strings.NewReader(log), "-", "--policy", bad); code != exitUsage || !strings.Contains(errOut, "limits[0].capacity") {
		t.Errorf("a bad policy: exit %d, %s", code, errOut)
	}
}

func TestReplayRefusesWhatItCannotDo(t *testing.T) {
	dir := t.TempDir()
	web := filepath.Join(dir, "web.log")
	if err := os.WriteFile(web, []byte("GET /\nGET /x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.gz")
	packed, err := os.ReadFile(realLog)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, packed[:len(packed)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitUsage, "FILE is missing"},
		{"a b", exitUsage, `not 2: ["a" "b"]`},
		{"a --format syslog", exitUsage, `--format: unknown format "syslog"; there are sshd, jsonl, csv`},
		{"a --colour", exitUsage, "-colour"},
		{"a --top -1", exitUsage, "--top"},
		{"a --top x", exitUsage, "-top"},
		{"a --year 20", exitUsage, "--year"},
		{"a --year 2017 --format csv", exitUsage, "--year: means nothing with --format csv"},
		{"a --columns time=1", exitUsage, "--columns: means nothing with --format sshd"},
		{"a --header --format jsonl", exitUsage, "--header: means nothing with --format jsonl"},
		{"a --format csv --columns when=1", exitUsage, `--columns: unknown field "when"`},
		{"a --format csv --outcomes ok", exitUsage, "--outcomes"},
		{"a --format csv --time-layout sometime", exitUsage, "--time-layout"},
		{"a --format csv --delimiter ab", exitUsage, "--delimiter"},
		{"a --zone Middle/Earth", exitUsage, "--zone"},
		{"a --flow dance", exitUsage, `--flow: unknown flow "dance"`},
		{"a --realm shop", exitUsage, `--realm: no realm "shop" in the policy; there are default`},
		{"a --policy " + dir + "/none", exitUsage, "policy: open"},
		{"a --config " + dir + "/none", exitUsage, "config: open"},
		{dir + "/none", exitFailed, "no such file"},
		{dir, exitFailed, "is a directory"},
		{web, exitFailed, "no login in 2 lines (0 skipped, 2 unreadable): is " + web + " of --format sshd?\n  line 1: does not begin with a syslog time"},
		{web + " --format jsonl", exitFailed, "not a JSON object"},
		{web + " --format csv", exitFailed, `no column "time" for time; there are ["GET /"]`},
		{cut, exitFailed, "unexpected EOF"},
		{cut + " --year 2017", exitFailed, "unexpected EOF"},
		{"-", exitFailed, "- is empty"},
	} {
		code, out, errOut := replayed(strings.NewReader(""), strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("replay %s: exit %d, %q, want %d, %q", c.args, code, errOut, c.code, c.want)
		}
	}
	if code, out, errOut := replayed(nil, "-h"); code != exitOK || !strings.Contains(out, "--columns account=user.name") || errOut != "" {
		t.Errorf("help: exit %d, %s", code, errOut)
	}
}

func TestReadmeReplaysAsShown(t *testing.T) {
	commands := regexp.MustCompile(`(?m)guardd replay ([^#\n]*)`).FindAllStringSubmatch(strings.Join(blocks(readme(t), "sh"), ""), -1)
	if len(commands) != 3 {
		t.Errorf("%d commands in the README", len(commands))
	}
	for _, c := range commands {
		f, err := parseReplay(strings.Fields(c[1]), noEnv, io.Discard, io.Discard)
		if err == nil && f.format != "sshd" {
			_, err = f.parser(time.UTC)
		}
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	report, err := os.ReadFile("testdata/replay/sshd-auth.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(blocks(readme(t), "text"), func(shown string) bool { return strings.Contains(string(report), shown) }) {
		t.Error("no text in the README is part of the report")
	}
}

func TestReplayEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	if code := replayCommand(ctx, []string{realLog}, noEnv, nil, &out, &errOut); code != exitFailed || !strings.Contains(errOut.String(), "interrupted") || out.Len() > 0 {
		t.Errorf("exit %d, %s", code, errOut.String())
	}
}

// Attackers choose names, and operators read reports on terminals.
func TestHostileNamesCannotHarmATerminal(t *testing.T) {
	log := "Mar  1 00:00:00 h sshd[1]: Failed password for a\u202eb from 192.0.2.1 port 1 ssh2\n" +
		"Mar  1 00:00:00 h sshd[1]: Failed password for b\x1b[2J from 192.0.2.1 port 1 ssh2\n" +
		"Mar  1 00:00:00 h sshd[1]: Failed password for " + strings.Repeat("c", 200) + " from 192.0.2.1 port 1 ssh2\n"
	_, out, _ := replayed(strings.NewReader(log), "-")
	for _, r := range out {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%q in the report", r)
		}
	}
	for line := range strings.Lines(out) {
		if len(line) > 200 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if got := printable("b\x1b[2J", 36); got != `"b\x1b[2J"` {
		t.Error(got)
	}
}

func TestTopIsExactUpToItsBoundAndThenBounded(t *testing.T) {
	const bound = 50
	top, want, asked := newTop(bound), map[string]int64{}, map[string]int64{}
	total := int64(0)
	add := func(key string, ask bool) {
		top.add(key, ask)
		want[key]++
		if ask {
			asked[key]++
		}
		total++
	}
	for i := range bound {
		for range i + 1 {
			add(fmt.Sprint("k", i), i%2 == 0)
		}
	}
	if first := top.first(3); !top.exact() || *first[0] != (tally{"k49", 50, 0, 0}) || *first[1] != (tally{"k48", 49, 49, 0}) {
		t.Errorf("exact: %+v", first)
	}
	for i := range 10_000 {
		add(fmt.Sprint("new", i), true)
		add(fmt.Sprint("k", i%7), i%3 == 0)
	}
	if top.exact() || len(top.by) != bound || len(top.first(1000)) != bound {
		t.Fatalf("%d keys", len(top.by))
	}
	for key, n := range want {
		e := top.by[key]
		if e == nil {
			if n > total/bound {
				t.Errorf("%s with %d attempts is not in the list", key, n)
			}
			continue
		}
		if e.attempts < n || e.attempts > n+total/bound || e.asked > asked[key] || e.asked > e.attempts {
			t.Errorf("%s: %d attempts (%d asked), in truth %d (%d)", key, e.attempts, e.asked, n, asked[key])
		}
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	now := time.Date(2025, 3, 27, 12, 0, 0, 0, time.UTC)
	p := newProgress(&out, func() time.Time { return now })
	step := func(d time.Duration, n int64) string {
		out.Reset()
		now = now.Add(d)
		p.add(n)
		return out.String()
	}
	p.begin("replaying", 1000)
	p.counts(&loginlog.Counts{Lines: 4000})
	if got := step(900*time.Millisecond, 100); got != "" {
		t.Errorf("a short reading shows %q", got)
	}
	long := "\rreplaying   25 %  4,000 lines  2,000/s  6s left"
	if got := step(1100*time.Millisecond, 150); got != long {
		t.Errorf("%q, want %q", got, long)
	}
	if got := step(100*time.Millisecond, 1); got != "" {
		t.Errorf("too soon: %q", got)
	}
	p.begin("x", 0)
	if got, want := step(2*time.Second, 5), "\rx"+strings.Repeat(" ", len(long)-2); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	if p.end(); out.String() != "\r \r" {
		t.Errorf("the end: %q", out.String())
	}
	var none *progress // and without a terminal nothing happens
	none.begin("x", 1)
	none.counts(nil)
	none.add(1)
	none.end()
}
