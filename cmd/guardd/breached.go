package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/guardd/guardd/breached"
)

const breachedUsage = `usage: guardd breached build SRC -o FILE [--partial] [--top N] [--no-suffixes]
       guardd breached lookup FILE [--hash HEX] [--ntlm]
       guardd breached verify FILE
       guardd breached stats FILE

SRC is what the Pwned Passwords downloader wrote: one file of HASH:COUNT lines, a
folder of range files (00000.txt to FFFFF.txt), either gzipped, or - for standard
input. FILE is the index that guardd serve --breached answers from; FILE.suffixes
beside it is needed for ranges only.

lookup asks for a password without echo, or reads one a line from a pipe (the
line's end is not part of it). It exits with 0 when no hash is in the corpus, with
3 when one is, and with 1 when that is not known.

`

// exitBreached is lookup's own: it must not be taken for "could not tell".
const exitBreached = 3

// breachedFlags is what the command line said.
type breachedFlags struct {
	file       string
	out        string
	partial    bool
	top        uint64
	noSuffixes bool
	date       string
	hash       string
	ntlm       bool
	json       bool
	quiet      bool
}

var breachedCommands = map[string]func(context.Context, *breachedFlags, io.Reader, io.Writer, io.Writer) (int, error){
	"build": breachedBuild, "lookup": breachedLookup, "verify": breachedVerify, "stats": breachedStats,
}

// breachedCommand is "breached build|lookup|verify|stats".
func breachedCommand(ctx context.Context, args []string, stdin io.Reader, out, errOut io.Writer) int {
	if len(args) == 0 || breachedCommands[args[0]] == nil {
		return noCommand("breached", breachedUsage, args, []string{"build", "lookup", "verify", "stats"}, out, errOut)
	}
	name := args[0]
	f, err := parseBreached(name, args[1:], out, errOut)
	if err != nil {
		return usageCode(err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code, err := breachedCommands[name](ctx, f, stdin, out, errOut)
	if errors.Is(err, context.Canceled) {
		err = errors.New("stopped")
	}
	if err != nil {
		fmt.Fprintf(errOut, "guardd: breached %s: %v\n", name, err)
		if code == exitOK {
			code = exitFailed
		}
	}
	return code
}

// parseBreached reads the flags, before and after the file.
func parseBreached(name string, args []string, out, errOut io.Writer) (*breachedFlags, error) {
	f := &breachedFlags{}
	fs := newCommandLine("breached "+name, breachedUsage, out, errOut)
	what := "FILE"
	switch name {
	case "build":
		what = "SRC"
		fs.StringVar(&f.out, "o", "", "`FILE` to build; what is there is replaced when all of it is done")
		fs.BoolVar(&f.partial, "partial", false, "accept a corpus in which prefixes are missing: what is not found is then only not in this corpus")
		fs.Uint64Var(&f.top, "top", 0, "keep the `N` most frequent hashes only")
		fs.BoolVar(&f.noSuffixes, "no-suffixes", false, "no FILE.suffixes: a third of the size, and no ranges")
		fs.StringVar(&f.date, "date", "", "`date` of the corpus, such as 2026-11-30 (default: that of its newest file)")
	case "lookup":
		fs.StringVar(&f.hash, "hash", "", "`HEX` digits of a hash, in place of a password")
		fs.BoolVar(&f.ntlm, "ntlm", false, "the hash is NTLM's, and so must FILE's be (default: as FILE's are)")
	}
	fs.BoolVar(&f.json, "json", false, "print JSON")
	if name == "build" || name == "verify" {
		fs.BoolVar(&f.quiet, "quiet", false, "no progress on the terminal")
	}
	files, err := fs.parse(args)
	if err != nil {
		return nil, err
	}
	if err := f.check(name, what, files, fs.FlagSet); err != nil {
		return nil, fs.refuse(err)
	}
	f.file = files[0]
	return f, nil
}

func (f *breachedFlags) check(name, what string, files []string, fs *flag.FlagSet) error {
	given := map[string]bool{}
	fs.Visit(func(g *flag.Flag) { given[g.Name] = true })
	switch {
	case len(files) == 0:
		return errors.New(what + " is missing")
	case len(files) > 1:
		return fmt.Errorf("takes one %s, not %d: %q", what, len(files), files)
	case name == "build" && f.out == "":
		return errors.New("-o: which FILE to build is missing")
	case given["top"] && f.top == 0:
		return errors.New("--top: must be at least 1")
	case given["hash"] && f.hash == "":
		return errors.New("--hash: empty")
	}
	if f.date != "" {
		if _, err := time.Parse(time.DateOnly, f.date); err != nil {
			return fmt.Errorf("--date: %q is not a date like 2026-11-30", f.date)
		}
	}
	return nil
}

func breachedVerify(ctx context.Context, f *breachedFlags, _ io.Reader, out, errOut io.Writer) (int, error) {
	x, err := breached.Open(f.file)
	if err == nil {
		p := f.progress(errOut, "verifying")
		err = x.Verify(ctx, func(done, total uint64) { p.part(float64(done)/float64(total), 0) })
		p.end()
	}
	if err == nil {
		err = x.Close()
	}
	switch {
	case f.json && err != nil:
		return exitFailed, errors.Join(err, printJSON(out, map[string]any{"ok": false, "error": err.Error()}))
	case err != nil:
		return exitFailed, err
	case f.json:
		return exitOK, printJSON(out, map[string]any{"ok": true, "bytes": x.Size()})
	}
	_, err = fmt.Fprintf(out, "%s: all of %s as it was built\n", f.file, megabytes(x.Size()))
	return exitOK, err
}

func (f *breachedFlags) progress(errOut io.Writer, doing string) *progress {
	if f.quiet || !isTerminal(errOut) {
		return nil
	}
	p := newProgress(errOut, time.Now)
	p.begin(doing, 0)
	return p
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
