package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate/asn"
	"github.com/guardd/guardd/cmd/guardd/loginlog"
	"github.com/guardd/guardd/escalation"
)

const replayUsage = `usage: guardd replay FILE [flags]

Runs an old login log through the policy, with the log's own clock, and says who
would have been asked what. FILE may be gzipped; - is standard input.

  guardd replay /var/log/auth.log
  guardd replay logins.jsonl --format jsonl --columns account=user.name,ip=client.ip,outcome=result
  guardd replay logins.csv --format csv --columns time=1,account=3,ip=4,outcome=2 --outcomes 200=success,401=failure

`

// replayFlags is what the command line said.
type replayFlags struct {
	file           string
	format         string
	year           int
	zone           string
	columns        string
	header         bool
	delimiter      string
	timeLayout     string
	outcomes       string
	realm, flow    string
	config, policy string
	json, quiet    bool
	detect         bool
	asnFile        string // "": as the configuration says
	top            int
}

// sshdOnly and tableOnly are the flags that only some formats have. csvOnly
// are among tableOnly.
var (
	sshdOnly  = []string{"year"}
	tableOnly = []string{"columns", "time-layout", "outcomes", "header", "delimiter"}
	csvOnly   = []string{"header", "delimiter"}
	formats   = []string{"sshd", "jsonl", "csv"}
)

// parseReplay reads the flags, before and after FILE.
func parseReplay(args []string, getenv env, out, errOut io.Writer) (*replayFlags, error) {
	f := &replayFlags{}
	f.config, _ = getenv("GUARDD_CONFIG")
	f.policy, _ = getenv("GUARDD_POLICY")
	f.asnFile, _ = getenv("GUARDD_ASN_FILE")
	fs := newCommandLine("replay", replayUsage, out, errOut)
	f.ofLog(fs.FlagSet)
	fs.StringVar(&f.config, "config", f.config, "configuration `file` whose policy is used (GUARDD_CONFIG)")
	fs.StringVar(&f.policy, "policy", f.policy, "`file` with the realms: part alone (GUARDD_POLICY)")
	fs.BoolVar(&f.detect, "detect", false, "look for attacks in all logins together, too, and list them: what is beyond the usual once a week of the log has said what is usual")
	fs.StringVar(&f.asnFile, "asn-file", f.asnFile, "with --detect: `file` of addresses' providers in MaxMind's format, by which attacks out of one provider's many networks are seen as such (GUARDD_ASN_FILE, asn_file)")

	files, err := fs.parse(args)
	if err != nil {
		return nil, err
	}
	if err := f.check(files, fs.FlagSet); err != nil {
		return nil, fs.refuse(err)
	}
	f.file = files[0]
	return f, nil
}

// ofLog adds the flags that say how a log is read and shown.
func (f *replayFlags) ofLog(fs *flag.FlagSet) {
	fs.StringVar(&f.format, "format", "sshd", "`format` of the log: sshd (as syslog or journalctl write it), jsonl or csv")
	fs.IntVar(&f.year, "year", 0, "sshd: `year` of the first line, where times have none (default: the latest that puts no line in the future)")
	fs.StringVar(&f.zone, "zone", "", "time `zone` of times that have none, such as UTC or Europe/Berlin (default: this machine's)")
	fs.StringVar(&f.columns, "columns", "", "jsonl, csv: `FIELD=COLUMN,...` where columns are JSON members (user.name), header names or numbers from 1; fields are "+strings.Join(loginlog.Fields, ", "))
	fs.BoolVar(&f.header, "header", false, "csv: the first line is a header, even when all columns are numbers")
	fs.StringVar(&f.delimiter, "delimiter", ",", "csv: `character` between columns; tab for a tabulator")
	fs.StringVar(&f.timeLayout, "time-layout", "auto", "jsonl, csv: `layout` of times: "+strings.Join(loginlog.TimeLayouts, ", ")+", or one like 02.01.2006 15:04:05")
	fs.StringVar(&f.outcomes, "outcomes", "", "jsonl, csv: `WORD=MEANING,...` where a meaning is success, failure, unknown_account or skip")
	fs.StringVar(&f.realm, "realm", escalation.DefaultRealm, "`realm` of logins whose line names none")
	fs.StringVar(&f.flow, "flow", escalation.DefaultFlow, "`flow` of logins whose line names none")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	fs.IntVar(&f.top, "top", 10, "`number` of addresses, of accounts and of attacks, or of examples of a kind, to list")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress on the terminal")
}

func (f *replayFlags) check(files []string, fs *flag.FlagSet) error {
	given := givenOf(fs)
	switch {
	case len(files) == 0:
		return errors.New("FILE is missing; - is standard input")
	case len(files) > 1:
		return fmt.Errorf("takes one FILE, not %d: %q", len(files), files)
	case !slices.Contains(formats, f.format):
		return fmt.Errorf("--format: unknown format %q; there are %s", f.format, strings.Join(formats, ", "))
	case f.top < 0 || f.top > topKeys:
		return fmt.Errorf("--top: must be from 0 to %d, not %d", topKeys, f.top)
	case given["year"] && (f.year < 1970 || f.year > 2254):
		return fmt.Errorf("--year: must be from 1970 to 2254, not %d", f.year)
	case given["asn-file"] && !f.detect:
		return errors.New("--asn-file: means nothing without --detect")
	case !slices.Contains(escalation.Flows, f.flow):
		return fmt.Errorf("--flow: unknown flow %q; there are %s", f.flow, strings.Join(escalation.Flows, ", "))
	}
	for name := range given {
		switch {
		case slices.Contains(sshdOnly, name) && f.format != "sshd", slices.Contains(tableOnly, name) && f.format == "sshd",
			slices.Contains(csvOnly, name) && f.format != "csv":
			return fmt.Errorf("--%s: means nothing with --format %s", name, f.format)
		}
	}
	return nil
}

// location is the zone of times that have none. A log is most often read on
// the machine, or at least in the zone, that wrote it.
func (f *replayFlags) location() (*time.Location, error) {
	if f.zone == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(f.zone)
	if err != nil {
		return nil, fmt.Errorf("--zone: %w", err)
	}
	return zone, nil
}

// parser makes the parser of a log in columns.
func (f *replayFlags) parser(zone *time.Location) (loginlog.Parser, error) {
	columns, err := loginlog.ParseColumns(f.columns)
	if err != nil {
		return nil, fmt.Errorf("--columns: %w", err)
	}
	words, err := loginlog.ParseWords(f.outcomes)
	if err != nil {
		return nil, fmt.Errorf("--outcomes: %w", err)
	}
	clock, err := loginlog.NewClock(f.timeLayout, zone)
	if err != nil {
		return nil, fmt.Errorf("--time-layout: %w", err)
	}
	if f.format == "jsonl" {
		return loginlog.NewJSONL(columns, clock, words), nil
	}
	comma := []rune(f.delimiter)
	if f.delimiter == "tab" {
		comma = []rune{'\t'}
	}
	if len(comma) != 1 || strings.ContainsRune("\"\r\n\uFFFD\x00", comma[0]) {
		return nil, fmt.Errorf("--delimiter: %q is not one character, or cannot stand between columns", f.delimiter)
	}
	return loginlog.NewCSV(columns, f.header, comma[0], clock, words), nil
}

// replayCommand is "replay FILE": an old login log through the live policy.
func replayCommand(ctx context.Context, args []string, getenv env, stdin io.Reader, out, errOut io.Writer) int {
	f, err := parseReplay(args, getenv, out, errOut)
	if err != nil {
		return usageCode(err)
	}
	c, name, err := readPolicyOf(f.config, f.policy, false)
	if err != nil {
		return refuse(errOut, err)
	}
	providers, err := f.providers(c)
	if err == nil {
		err = f.readable(c.policy)
	}
	if err != nil {
		fmt.Fprintf(errOut, "guardd: replay: %v\n", err)
		return exitUsage
	}
	r, err := replayLog(ctx, f, c.policy, providers, stdin, errOut)
	if err != nil {
		fmt.Fprintf(errOut, "guardd: replay: %v\n", err)
		return exitFailed
	}
	r.policy = name
	if f.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(r.replayFigures)
	} else {
		err = r.print(out)
	}
	if err != nil {
		fmt.Fprintf(errOut, "guardd: replay: %v\n", err)
		return exitFailed
	}
	if r.stuck > 0 {
		fmt.Fprintf(errOut, "guardd: replay: %d honest logins were refused in spite of their proof, the first in line %d: this is a fault of guardd, please report it\n", r.stuck, r.firstStuck)
		return exitFailed
	}
	return exitOK
}

// providers opens who announces which address, as serve would with that
// configuration; nil where detection does not look, or there is no such file.
func (f *replayFlags) providers(c *config) (func(netip.Addr) uint32, error) {
	path := cmp.Or(f.asnFile, c.ASNFile)
	if path == "" || !f.detect {
		return nil, nil
	}
	file, err := asn.Open(path)
	if err != nil {
		return nil, fmt.Errorf("asn_file: %w", err)
	}
	return file.Of, nil
}

// readable reports what of the flags cannot be read, or is not in the policy.
func (f *replayFlags) readable(p *escalation.Policy) error {
	if p.Realms[f.realm] == nil {
		return fmt.Errorf("--realm: no realm %q in the policy; there are %s", f.realm,
			strings.Join(slices.Sorted(maps.Keys(p.Realms)), ", "))
	}
	zone, err := f.location()
	if err == nil && f.format != "sshd" {
		_, err = f.parser(zone)
	}
	return err
}

// replayLog replays the log through a policy.
func replayLog(ctx context.Context, f *replayFlags, policy *escalation.Policy, providers func(netip.Addr) uint32, stdin io.Reader, errOut io.Writer) (*replayReport, error) {
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		return nil, err
	}
	r, err := newReplay(policy, secrets, f.realm, f.flow)
	if err != nil {
		return nil, err
	}
	if f.detect {
		r.detector = newDetector(r, providers)
	}
	scanner, zone, err := f.scan(ctx, stdin, errOut, time.Now(), r.run)
	if err != nil {
		return nil, err
	}
	r.report.finish(f, scanner, zone, r)
	r.report.CampaignsFound, r.report.Campaigns = r.detector.list(f.top)
	return &r.report, nil
}

// scan opens the log, finds its year where it has none, and has run read it. It
// shows its progress on a terminal.
func (f *replayFlags) scan(ctx context.Context, stdin io.Reader, errOut io.Writer, now time.Time, run func(context.Context, *loginlog.Scanner) error) (*loginlog.Scanner, *time.Location, error) {
	var p *progress
	if !f.quiet && isTerminal(errOut) {
		p = newProgress(errOut, time.Now)
	}
	defer p.end()
	zone, err := f.location()
	if err != nil {
		return nil, nil, err
	}
	log, err := openLog(ctx, f.file, stdin, p)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	parser, err := f.parserOf(log, now, zone)
	if err != nil {
		return nil, nil, err
	}
	lines, err := log.lines("replaying")
	if err != nil {
		return nil, nil, err
	}
	scanner := loginlog.NewScanner(lines, parser)
	p.counts(&scanner.Counts)
	if err := run(ctx, scanner); err != nil {
		return nil, nil, log.explain(err)
	}
	if scanner.Parsed == 0 {
		return nil, nil, noLogin(f, scanner)
	}
	return scanner, zone, nil
}

func (f *replayFlags) parserOf(log *logFile, now time.Time, zone *time.Location) (loginlog.Parser, error) {
	if f.format != "sshd" {
		return f.parser(zone)
	}
	if f.year == 0 {
		var err error
		if f.year, err = log.latestYear(now, zone); err != nil {
			return nil, err
		}
	}
	return loginlog.NewSSHD(f.year, zone), nil
}

// noLogin says what may be the matter with a log in which no line is a login.
func noLogin(f *replayFlags, s *loginlog.Scanner) error {
	if s.Lines == 0 {
		return fmt.Errorf("%s is empty", f.file)
	}
	hint := ""
	for _, u := range s.First {
		hint += fmt.Sprintf("\n  line %d: %v", u.Line, u.Why)
	}
	return fmt.Errorf("no login in %s lines (%s skipped, %s unreadable): is %s of --format %s?%s",
		thousands(s.Lines), thousands(s.Skipped), thousands(s.Unparsed), f.file, f.format, hint)
}

// logFile is the log, which may have to be read twice.
type logFile struct {
	ctx      context.Context
	name     string
	file     *os.File // nil: a pipe that has not been spooled
	pipe     io.Reader
	from     int64 // where it begins
	size     int64 // from there; 0 when not known
	progress *progress
	cleanup  cleanups
}

func openLog(ctx context.Context, name string, stdin io.Reader, p *progress) (*logFile, error) {
	l := &logFile{ctx: ctx, name: name, progress: p}
	if name == "-" {
		l.name, l.pipe = "standard input", stdin
		file, ok := stdin.(*os.File)
		if !ok {
			return l, nil
		}
		l.file = file
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		l.cleanup.push(file.Close)
		l.file, l.pipe = file, file
	}
	st, err := l.file.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%s is a directory; name one file in it", l.name)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	if !st.Mode().IsRegular() {
		l.file = nil
		return l, nil
	}
	if l.from, err = l.file.Seek(0, io.SeekCurrent); err != nil {
		l.Close()
		return nil, err
	}
	l.size = st.Size() - l.from
	return l, nil
}

// Close closes what openLog opened and removes what was spooled.
func (l *logFile) Close() error { return l.cleanup.run() }

// latestYear reads the log once, for its dates. A pipe can be read only once,
// so it is written to a file that has no name any more.
func (l *logFile) latestYear(now time.Time, zone *time.Location) (int, error) {
	if l.file == nil {
		if err := l.spool(); err != nil {
			return 0, fmt.Errorf("keeping %s to read it twice (--year makes once enough): %w", l.name, err)
		}
	}
	lines, err := l.lines("looking for the year")
	if err != nil {
		return 0, err
	}
	year, err := loginlog.LatestYear(lines, now, zone)
	if err != nil {
		return 0, l.explain(err)
	}
	_, err = l.file.Seek(l.from, io.SeekStart)
	return year, err
}

func (l *logFile) spool() error {
	tmp, err := os.CreateTemp("", "guardd-replay-*")
	if err != nil {
		return err
	}
	l.cleanup.push(tmp.Close)
	if err := os.Remove(tmp.Name()); err != nil { // names are in there: nobody else may open it
		l.cleanup.push(func() error { return os.Remove(tmp.Name()) })
	}
	if l.size, err = io.Copy(tmp, &pacer{l.ctx, l.pipe, l.progress}); err != nil {
		return err
	}
	l.file, l.pipe, l.from = tmp, tmp, 0
	_, err = tmp.Seek(0, io.SeekStart)
	return err
}

func (l *logFile) lines(doing string) (*loginlog.Lines, error) {
	l.progress.begin(doing, l.size)
	lines, err := loginlog.NewLines(&pacer{l.ctx, l.pipe, l.progress})
	if err != nil {
		return nil, l.explain(err)
	}
	return lines, nil
}

// explain puts the log's name before an error.
func (l *logFile) explain(err error) error {
	if l.ctx.Err() != nil {
		return fmt.Errorf("%s: interrupted", l.name)
	}
	return fmt.Errorf("%s: %w", l.name, err)
}

// pacer is where a long reading shows its progress, and ends when it is told.
type pacer struct {
	ctx      context.Context
	r        io.Reader
	progress *progress
}

// Read reads on, unless told to stop.
func (p *pacer) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	p.progress.add(int64(n))
	return n, err
}
