package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes, like those of flag and of most Unix tools.
const (
	exitOK     = 0
	exitFailed = 1 // it started, and then something went wrong
	exitUsage  = 2 // the command line or the configuration is wrong
)

const usage = `guardd asks for more than a password when guesses pile up, and locks nobody out.

usage: guardd [command] [flags]

  serve                answer login handlers (the default; guardd serve -h lists its flags)
  replay FILE          run an old login log through the policy: who would have been asked what
  simulate             put named attacks and their look-alikes to the policy, with detection, and
                       give figures
  breached COMMAND     build an index of leaked passwords, look one up, verify an index, say what
                       is in it (guardd breached -h)
  limits COMMAND       list, create, change, delete, import and export the plan limits of a
                       database (guardd limits -h)
  policy check [FILE]  say everything that is wrong with the configuration (--config) or
                       with a policy file, and print the whole policy
  policy diff OLD NEW  say what differs between two policies, and over an old login log (--replay)
                       who would be treated differently
  explain WHO          why an account, address, network, device or decision is asked for more,
                       and what would change that
  clear WHO            give back what was spent
  list allow|deny      show or change the networks that are let past or refused
  posture              show a realm's posture, pin it, or release it
  reload               have every instance read its configuration again
  audit                what operators did, and why
  config example       print a configuration file with every key at its default
  version              print the version
  help [COMMAND]       print this, or what a command does, with its flags

Start here: guardd serve, with no configuration, listens on 127.0.0.1:8080.
`

// run is the whole program, with everything it touches as an argument.
func run(ctx context.Context, args []string, getenv env, stdin io.Reader, out, errOut io.Writer) int {
	command := "serve"
	if len(args) > 0 && (args[0] == "" || args[0][0] != '-') {
		command, args = args[0], args[1:]
	} else if len(args) > 0 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		command, args = "help", nil
	}
	switch command {
	case "serve":
		return serveCommand(ctx, args, getenv, out, errOut)
	case "replay":
		return replayCommand(ctx, args, getenv, stdin, out, errOut)
	case "simulate":
		return simulateCommand(ctx, args, getenv, out, errOut)
	case "explain", "clear", "list", "posture", "reload", "audit":
		return operatorCommand(ctx, command, args, getenv, stdin, out, errOut)
	case "breached":
		return breachedCommand(ctx, args, stdin, out, errOut)
	case "limits":
		return limitsCommand(ctx, args, getenv, stdin, out, errOut)
	case "policy":
		if len(args) > 0 && args[0] == "diff" {
			return policyDiffCommand(ctx, args[1:], getenv, stdin, out, errOut)
		}
		return policyCommand(args, getenv, out, errOut)
	case "config":
		return configCommand(args, out, errOut)
	case "version":
		return versionCommand(args, out, errOut)
	case "help":
		if len(args) > 0 {
			return run(ctx, append(args, "-h"), getenv, stdin, out, errOut)
		}
		fmt.Fprint(out, usage)
		return exitOK
	}
	fmt.Fprintf(errOut, "guardd: there is no command %q (guardd help lists them)\n", command)
	return exitUsage
}

// policyCommand is "policy check [FILE]": FILE is a policy file (realms: alone); without
// one the configuration is checked as serve would load it.
func policyCommand(args []string, getenv env, out, errOut io.Writer) int {
	if len(args) == 0 || args[0] != "check" {
		return noCommand("policy", policyUsage, args, []string{"check", "diff"}, out, errOut)
	}
	fl, rest, err := parseFlags("policy check", policyCheckUsage, args[1:], getenv, out, errOut)
	switch {
	case err != nil:
		return usageCode(err)
	case len(rest) > 1:
		fmt.Fprintf(errOut, "guardd: policy check: takes one FILE, not %d: %q\n", len(rest), rest)
		return exitUsage
	case len(rest) == 1:
		// The file alone is judged, not what this machine's environment says.
		fl = &flags{given: map[string]said{"policy": {"FILE", rest[0]}}}
	}
	c, err := load(fl)
	if err != nil {
		code := refuse(errOut, err)
		if len(rest) == 1 && isConfiguration(err) {
			fmt.Fprintf(errOut, "FILE is a policy file (realms: alone); for a configuration: guardd policy check --config %s\n", rest[0])
		}
		return code
	}
	for _, w := range c.warnings {
		fmt.Fprintln(errOut, "warning:", w)
	}
	printPolicy(out, c.policy)
	return exitOK
}

const policyUsage = `usage: guardd policy check [flags] [FILE]
       guardd policy diff OLD NEW [--replay LOG] [flags]

check says everything that is wrong with the configuration, or with a policy file,
and prints the whole policy. diff says what differs between two policies, and with a
login log who would be treated differently. guardd policy COMMAND -h lists its flags.
`

const policyCheckUsage = `usage: guardd policy check [flags] [FILE]

FILE is a policy file (realms: alone), as --policy takes it; without FILE what
serve would load with these flags is checked.

`

// isConfiguration reports whether a policy file holds keys that belong beside
// realms.
func isConfiguration(err error) bool {
	var many faults
	return errors.As(err, &many) && slices.ContainsFunc(many, func(fault string) bool {
		path, _, unknown := strings.Cut(fault, ": unknown key")
		return unknown && !strings.Contains(path, ".")
	})
}

const configUsage = `usage: guardd config example > guardd.yaml

Prints a configuration file with every key at its default.
`

func configCommand(args []string, out, errOut io.Writer) int {
	if len(args) != 1 || args[0] != "example" {
		return noCommand("config", configUsage, args, []string{"example"}, out, errOut)
	}
	fmt.Fprint(out, exampleConfig)
	return exitOK
}

func versionCommand(args []string, out, errOut io.Writer) int {
	switch {
	case len(args) > 0 && isHelp(args[0]):
		fmt.Fprint(out, "usage: guardd version\n")
	case len(args) > 0:
		fmt.Fprintf(errOut, "guardd: version: takes nothing, not %q\n", args[0])
		return exitUsage
	default:
		fmt.Fprintln(out, version())
	}
	return exitOK
}

// refuse prints every fault of a configuration on a line of its own.
func refuse(errOut io.Writer, err error) int {
	var many faults
	if !errors.As(err, &many) {
		many = faults{err.Error()}
	}
	fmt.Fprintf(errOut, "guardd: the configuration has %s:\n", plural(len(many), "fault"))
	for _, f := range many {
		fmt.Fprintln(errOut, "  "+f)
	}
	return exitUsage
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// version is what the module system and the checkout know about this binary.
func version() string {
	b := buildInfo()
	return fmt.Sprintf("guardd %s (%s, %s)", b.version, b.revision, b.goVersion)
}

type build struct{ version, revision, goVersion string }

func buildInfo() build {
	b := build{"unknown", "unknown", "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.version, b.goVersion = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.revision = s.Value
		}
	}
	return b
}
