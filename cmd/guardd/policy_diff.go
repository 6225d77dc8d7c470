package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/guardd/guardd/escalation"
)

const policyDiffUsage = `usage: guardd policy diff OLD NEW [--replay LOG] [flags]

Says what differs between two policies, and with a login log who would be treated
differently: each login is judged by both, by the log's own clock. OLD and NEW are
policy files (realms: alone) or configurations; default is the built-in policy. The
flags that say how LOG is read are those of guardd replay.

  guardd policy diff guardd.yaml stricter.yaml --replay /var/log/auth.log
  guardd policy diff default mine.yaml --replay logins.csv --format csv --columns time=1,account=3,ip=4,outcome=2

`

// diffFlags is what the command line of policy diff said.
type diffFlags struct {
	replayFlags
	secretFile string
	old, new   string
}

func parseDiff(args []string, getenv env, out, errOut io.Writer) (*diffFlags, error) {
	f := &diffFlags{}
	f.secretFile, _ = getenv("GUARDD_SECRET_FILE")
	fs := newCommandLine("policy diff", policyDiffUsage, out, errOut)
	fs.StringVar(&f.file, "replay", "", "login `log` to judge by both; may be gzipped; - is standard input")
	fs.StringVar(&f.secretFile, "secret-file", f.secretFile, "the service's secret `file`, so that accounts have the hashes that guardd explain knows; none: hashes of this report alone")
	f.ofLog(fs.FlagSet)
	rest, err := fs.parse(args)
	if err != nil {
		return nil, err
	}
	logs := []string{f.file}
	switch given := givenOf(fs.FlagSet); {
	case len(rest) != 2:
		err = fmt.Errorf("takes two policies, OLD and NEW, not %d", len(rest))
	case f.file != "":
		err = f.check(logs, fs.FlagSet)
	default:
		for name := range given {
			if name != "json" && name != "quiet" && err == nil {
				err = fmt.Errorf("--%s: means nothing without --replay", name)
			}
		}
	}
	if err != nil {
		return nil, fs.refuse(err)
	}
	f.old, f.new = rest[0], rest[1]
	return f, nil
}

func givenOf(fs *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	fs.Visit(func(g *flag.Flag) { given[g.Name] = true })
	return given
}

// policyDiffCommand is "policy diff OLD NEW".
func policyDiffCommand(ctx context.Context, args []string, getenv env, stdin io.Reader, out, errOut io.Writer) int {
	f, err := parseDiff(args, getenv, out, errOut)
	if err != nil {
		return usageCode(err)
	}
	d := &policyDiff{diffFigures: diffFigures{Old: f.old, New: f.new}, top: f.top}
	var policies [2]*escalation.Policy
	for i, name := range []string{f.old, f.new} {
		if policies[i], err = anyPolicy(name, f.secretFile != ""); err != nil {
			fmt.Fprintf(errOut, "guardd: policy diff: %s\n", name)
			return refuse(errOut, err)
		}
		if f.file == "" {
			continue
		}
		if err := f.readable(policies[i]); err != nil {
			fmt.Fprintf(errOut, "guardd: policy diff: %s: %v\n", name, err)
			return exitUsage
		}
	}
	d.Rows = differingRows(policies[0], policies[1])
	if f.file != "" {
		if err := d.replay(ctx, f, policies, stdin, errOut); err != nil {
			fmt.Fprintf(errOut, "guardd: policy diff: %v\n", err)
			return exitFailed
		}
	}
	if f.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(d.diffFigures)
	} else {
		err = d.print(out)
	}
	if err != nil {
		fmt.Fprintf(errOut, "guardd: policy diff: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// anyPolicy reads a policy file, or the policy of a configuration.
func anyPolicy(name string, peppers bool) (*escalation.Policy, error) {
	if name == "default" {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			p := escalation.DefaultPolicy()
			return p, p.Validate()
		}
	}
	c, _, err := readPolicyOf("", name, peppers)
	if err != nil && isConfiguration(err) {
		c, _, err = readPolicyOf(name, "", peppers)
	}
	if err != nil {
		return nil, err
	}
	return c.policy, nil
}

// differingRows are the lines of both policies, as policy check prints them, that
// the other has not: "-" before one of old, "+" before one of new.
func differingRows(old, new *escalation.Policy) []string {
	a, b := policyRows(old), policyRows(new)
	in := func(rows []string) map[string]bool { return set(rows...) }
	rows := []string{}
	was, is := in(a), in(b)
	for _, r := range a {
		if !is[r] {
			rows = append(rows, "- "+r)
		}
	}
	for _, r := range b {
		if !was[r] {
			rows = append(rows, "+ "+r)
		}
	}
	return rows
}

// policyRows are the lines of a policy, each with its realm before it.
func policyRows(p *escalation.Policy) (rows []string) {
	var text bytes.Buffer
	printPolicy(&text, p)
	realm := ""
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, "\n")
		words := strings.Join(strings.Fields(line), " ")
		switch {
		case words == "" || strings.HasPrefix(words, "flow tier limit"):
		case !strings.HasPrefix(line, " "):
			realm, _, _ = strings.Cut(line, ":")
			rows = append(rows, words)
		default:
			rows = append(rows, realm+": "+words)
		}
	}
	return rows
}
