package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// commandLine is the flags of one command. Help that was asked for goes to out, so
// that it can be paged and searched; what is wrong goes to errOut, in a line: a page
// of flags after it would hide it.
type commandLine struct {
	*flag.FlagSet
	help        string // stands above the flags
	out, errOut io.Writer
}

func newCommandLine(name, help string, out, errOut io.Writer) *commandLine {
	c := &commandLine{flag.NewFlagSet(name, flag.ContinueOnError), help, out, errOut}
	c.SetOutput(io.Discard) // parse says what is wrong, and package flag would after it print everything
	c.Usage = func() {}
	return c
}

// errUsage has been printed.
var errUsage = errors.New("usage")

// parse reads flags that may stand before and after what is none, which it returns.
// The error is flag.ErrHelp once the help is printed, errUsage once a fault is.
func (c *commandLine) parse(args []string) (rest []string, err error) {
	for {
		switch err := c.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			c.SetOutput(c.out)
			fmt.Fprint(c.out, c.help)
			c.PrintDefaults()
			return nil, err
		case err != nil:
			return nil, c.refuse(c.plain(err))
		}
		if c.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, c.Arg(0)), c.Args()[1:]
	}
}

// refuse says what is wrong with the command line.
func (c *commandLine) refuse(err error) error {
	fmt.Fprintf(c.errOut, "guardd: %s: %v (guardd %[1]s -h lists all flags)\n", c.Name(), err)
	return errUsage
}

// usageCode is the exit code after an error of parse or refuse.
func usageCode(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	return exitUsage
}

// badValue is how package flag says that a value cannot be read.
var badValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-([^ :]+): (.*)$`)

// plain says an error of package flag as guardd says its own: the flag first, as it
// is written, and what it takes.
func (c *commandLine) plain(err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Errorf("there is no flag %s", dashed(name))
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("%s: its value is missing", dashed(name))
	}
	m := badValue.FindStringSubmatch(text)
	if m == nil {
		return err
	}
	switch value, name, why := m[1], m[2], m[3]; why {
	case "parse error":
		return fmt.Errorf("%s: must be %s, not %s", dashed(name), c.takes(name), value)
	case "value out of range":
		return fmt.Errorf("%s: %s is too large or too small", dashed(name), value)
	default:
		return fmt.Errorf("%s: %s", dashed(name), why)
	}
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// takes says what a flag that package flag reads is of.
func (c *commandLine) takes(name string) string {
	if f := c.Lookup(name); f != nil {
		if g, ok := f.Value.(flag.Getter); ok {
			switch g.Get().(type) {
			case bool:
				return "true or false"
			case float64:
				return "a number"
			case time.Duration:
				return "a time like 90s, 5m or 1h"
			}
		}
	}
	return "a whole number"
}

// noCommand is what a command that only leads to others answers to args, whose first
// is none of them: its help where that is asked for, else what is wrong.
func noCommand(name, help string, args, commands []string, out, errOut io.Writer) int {
	if slices.ContainsFunc(args, isHelp) || len(args) > 0 && args[0] == "help" {
		fmt.Fprint(out, help)
		return exitOK
	}
	wrong := "which command?"
	if len(args) > 0 {
		wrong = fmt.Sprintf("there is no command %q;", args[0])
	}
	fmt.Fprintf(errOut, "guardd: %s: %s there %s %s (guardd %[1]s -h says what each does)\n", name, wrong,
		map[bool]string{true: "is", false: "are"}[len(commands) == 1], strings.Join(commands, ", "))
	return exitUsage
}

func isHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }
