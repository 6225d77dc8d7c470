package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

const limitsUsage = `usage: guardd limits list [rules|plans|keys|changes]
       guardd limits create|change rule NAME [--capacity N] [--refill N/TIME] [--route NAME=COST]...
       guardd limits create|change plan NAME --rule NAME...
       guardd limits create key [--sha256 HEX] --plan NAME [--override RULE:capacity=N,refill=N/TIME]...
       guardd limits change key HEX|NAME [--plan NAME] [--state active|suspended]
       guardd limits delete rule|plan|key NAME
       guardd limits export [FILE]
       guardd limits import FILE [--merge]
       guardd limits explain KEY [--since TIME]

explain asks a running guardd why a key was refused (guardd limits explain -h).
The others work on the database that serve --limits-db follows (--limits-db, or
GUARDD_LIMITS_DB): running instances have the change within a second. Whatever
changes something says why (--reason), and --dry-run shows what it would do.
guardd limits COMMAND -h lists its flags.

`

// limitsCommands are those of guardd limits, by name. Each reads its own flags.
var limitsCommands = map[string]func(context.Context, *limitsCall) (int, error){
	"list":   limitsList,
	"create": limitsEdit, "change": limitsEdit, "delete": limitsEdit,
	"export": limitsExport, "import": limitsImport,
}

// limitsCall is one call of guardd limits.
type limitsCall struct {
	name   string // of the command
	args   []string
	getenv env
	in     io.Reader
	out    io.Writer
	errOut io.Writer

	fs   *commandLine
	db   string
	json bool
	// Of what changes something.
	who, why string
	dryRun   bool
}

// limitsCommand is "limits list|create|...".
func limitsCommand(ctx context.Context, args []string, getenv env, in io.Reader, out, errOut io.Writer) int {
	if len(args) > 0 && args[0] == "explain" {
		return operatorCommand(ctx, "limits explain", args[1:], getenv, in, out, errOut)
	}
	if len(args) == 0 || limitsCommands[args[0]] == nil {
		return noCommand("limits", limitsUsage, args, []string{"list", "create", "change", "delete", "export", "import", "explain"}, out, errOut)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c := &limitsCall{name: args[0], args: args[1:], getenv: getenv, in: in, out: out, errOut: errOut}
	code, err := limitsCommands[c.name](ctx, c)
	var faults plans.Faults
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.As(err, &faults):
		for _, f := range faults {
			fmt.Fprintf(errOut, "guardd: limits %s: %s: %s\n", c.name, f.Field, f.Reason)
		}
		return exitUsage
	case err != nil:
		fmt.Fprintf(errOut, "guardd: limits %s: %v\n", c.name, err)
		return max(code, exitFailed)
	}
	return code
}

// flags makes the flag set, with what every command has.
func (c *limitsCall) flags() *flag.FlagSet {
	c.fs = newCommandLine("limits "+c.name, limitsUsage, c.out, c.errOut)
	c.fs.StringVar(&c.db, "limits-db", "", "`database` of plan limits: postgres://..., or an SQLite file, as sqlite:limits.db")
	c.fs.BoolVar(&c.json, "json", false, "print JSON")
	return c.fs.FlagSet
}

// writeFlags adds what every command that changes something has.
func (c *limitsCall) writeFlags() {
	c.fs.StringVar(&c.who, "who", whoAmI(), "`name` for the audit")
	c.fs.StringVar(&c.why, "reason", "", "why, for the audit")
	c.fs.BoolVar(&c.dryRun, "dry-run", false, "say what would change, and change nothing")
}

// parse reads the flags, before, between and after what else is given, which has
// from least to most words.
func (c *limitsCall) parse(least, most int) ([]string, error) {
	words, err := c.fs.parse(c.args)
	if err != nil {
		return nil, err
	}
	if c.db == "" { // not as the flag's default, which -h prints: it may hold a password
		c.db, _ = c.getenv(envName("limits-db"))
	}
	if len(words) < least || len(words) > most {
		return nil, c.usage("takes %s, not %q", map[bool]string{true: plural(most, "argument"), false: fmt.Sprintf("%d to %d arguments", least, most)}[least == most], words)
	}
	return words, nil
}

// usage says what is wrong with the command line.
func (c *limitsCall) usage(format string, args ...any) error {
	return c.fs.refuse(fmt.Errorf(format, args...))
}

// whoAmI is the user and the machine, as far as they are known.
func whoAmI() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// open opens the database, and makes its schema where there is none.
func (c *limitsCall) open(ctx context.Context) (*plandb.DB, error) {
	if c.db == "" {
		return nil, c.usage("--limits-db is missing")
	}
	db, err := plandb.Open(c.db)
	if err != nil {
		return nil, c.usage("--limits-db %v", err)
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// existing opens a database to read it. A file of that name is not made: a name
// mistyped would read as one without limits.
func (c *limitsCall) existing(ctx context.Context) (*plandb.DB, error) {
	if _, path, ok := plandb.IsFile(c.db); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, c.usage("--limits-db %v", err)
		}
	}
	return c.open(ctx)
}

// change makes a change and says what it did.
func (c *limitsCall) change(ctx context.Context, edit func(*plans.Definition) error) ([]plans.Record, error) {
	db, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return db.Change(ctx, plans.Order{Author: plans.Author{Who: c.who, Why: c.why}, At: time.Now(), DryRun: c.dryRun, Edit: edit})
}

// changed is what a change prints with --json.
type changed struct {
	Version int64           `json:"version,omitempty"` // that it made; none where nothing was changed
	DryRun  bool            `json:"dry_run"`
	Changes []changedRecord `json:"changes"`
	Key     string          `json:"key,omitempty"` // that it made up
}

type changedRecord struct {
	Version int64           `json:"version,omitempty"`
	At      *time.Time      `json:"at,omitempty"`
	Who     string          `json:"who,omitempty"`
	Why     string          `json:"reason,omitempty"`
	Action  plans.Action    `json:"action"`
	Kind    plans.Kind      `json:"kind"`
	Name    string          `json:"name"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

func (c *limitsCall) report(records []plans.Record, key string) error {
	a := changed{DryRun: c.dryRun, Changes: []changedRecord{}, Key: key}
	for _, r := range records {
		a.Version = r.Version
		a.Changes = append(a.Changes, changedRecord{Action: r.Action, Kind: r.Kind, Name: r.Name, Before: r.Before, After: r.After})
	}
	if c.json {
		return c.printJSON(a)
	}
	if len(records) == 0 {
		fmt.Fprintln(c.out, "nothing to change")
	}
	for i := range records {
		fmt.Fprintln(c.out, sentence(&records[i], c.dryRun))
	}
	if key != "" {
		fmt.Fprintf(c.out, "key %s\n", key)
	}
	return nil
}

func (c *limitsCall) printJSON(v any) error {
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
