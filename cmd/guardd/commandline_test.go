package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leading only lead to other commands, and leaves have flags of their own, but version.
var (
	leading = []string{"breached", "limits", "policy", "config"}
	leaves  = []string{"serve", "replay", "simulate", "breached build", "breached lookup", "breached verify", "breached stats",
		"limits list", "limits create", "limits change", "limits delete", "limits import", "limits export", "limits explain",
		"policy check", "policy diff", "explain", "clear", "list", "posture", "reload", "audit"}
)

// ran is what a command line came to.
func ran(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, getenv(nil), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestHelpIsAnAnswer: whoever asks for it can page it, and a script that does has not failed.
func TestHelpIsAnAnswer(t *testing.T) {
	for _, name := range slices.Concat(leading, leaves, []string{"version"}) {
		words := strings.Fields(name)
		for _, args := range [][]string{append(words[:len(words):len(words)], "-h"), append(words[:len(words):len(words)], "--help"), append([]string{"help"}, words...)} {
			code, out, errOut := ran(t, args...)
			if code != exitOK || errOut != "" || !strings.HasPrefix(out, "usage: guardd "+words[0]) {
				t.Errorf("%v: exit %d, on stderr %q, on stdout %.60q", args, code, errOut, out)
			}
		}
	}
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}, {"help", "help"}} {
		if code, out, errOut := ran(t, args...); code != exitOK || out != usage || errOut != "" {
			t.Errorf("%v: exit %d, on stderr %q, on stdout %.60q", args, code, errOut, out)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)\b`).FindAllStringSubmatch(usage, -1) {
		if name := m[1]; name != "help" && name != "version" && !slices.ContainsFunc(slices.Concat(leading, leaves), func(l string) bool { return strings.HasPrefix(l, name) }) {
			t.Errorf("%s is in the usage, and not tried here", name)
		}
	}
}

// TestAWrongFlagIsSaidInALine: the first that is read, and not above a screen of flags.
func TestAWrongFlagIsSaidInALine(t *testing.T) {
	for _, name := range leaves {
		want := "guardd: " + name + ": there is no flag --nope (guardd " + name + " -h lists all flags)\n"
		if code, out, errOut := ran(t, append(strings.Fields(name), "--nope")...); code != exitUsage || out != "" || errOut != want {
			t.Errorf("%s: exit %d, on stdout %q, on stderr %q", name, code, out, errOut)
		}
	}
	for _, name := range leading {
		for _, args := range [][]string{{name}, {name, "nope"}} {
			code, out, errOut := ran(t, args...)
			if code != exitUsage || out != "" || strings.Count(errOut, "\n") != 1 || !strings.HasPrefix(errOut, "guardd: "+name+": ") ||
				!strings.HasSuffix(errOut, "(guardd "+name+" -h says what each does)\n") || len(args) > 1 && !strings.Contains(errOut, `"nope"`) {
				t.Errorf("%v: exit %d, on stdout %q, on stderr %q", args, code, out, errOut)
			}
			for _, l := range leaves {
				if after, ok := strings.CutPrefix(l, name+" "); ok && !strings.Contains(errOut, after) {
					t.Errorf("%v does not name %s: %s", args, after, errOut)
				}
			}
		}
	}
}

func TestWhatAFlagTakesIsSaid(t *testing.T) {
	for args, want := range map[string]string{
		"simulate --events x":                   `simulate: --events: must be a whole number, not "x"`,
		"simulate --volume 2x":                  `simulate: --volume: must be a number, not "2x"`,
		"simulate --volume":                     `simulate: --volume: its value is missing`,
		"simulate --json=yes":                   `simulate: --json: must be true or false, not "yes"`,
		`simulate --events "\`:                  `simulate: --events: must be a whole number, not "\"\\"`,
		"simulate --events 1e300":               `simulate: --events: must be a whole number, not "1e300"`,
		"simulate --attacks -1":                 `simulate: --attacks: must be from 0 to 1000, not -1`,
		"simulate --attacks 5 --static":         `simulate: --attacks: means nothing with --static`,
		"replay x --top 99999999999999999999":   `replay: --top: "99999999999999999999" is too large or too small`,
		"breached build x -o":                   `breached build: -o: its value is missing`,
		"breached build x --top -1":             `breached build: --top: must be a whole number, not "-1"`,
		"posture pin high --for 2":              `posture: --for: must be a time like 90s, 5m or 1h, not "2"`,
		"posture pin high --reason x":           `posture: --for: how long the pin lasts must be said`,
		"posture pin high --for -1h --reason x": `posture: --for: how long the pin lasts must be said`,
		"posture pin":                           `posture: pin which posture? normal, elevated, high or critical`,
		"posture pin worse --for 1h":            `posture: pin: posture "worse" is not one of normal, elevated, high, critical`,
		"posture high":                          `posture: there are pin POSTURE and release, not "high"`,
		"posture --for 1h":                      `posture: --for: means something with pin POSTURE only`,
		"posture release --for 1h":              `posture: --for: means something with pin POSTURE only`,
		"limits create rule x --capacity many":  `limits create: --capacity: must be a whole number, not "many"`,
		"serve status":                          `serve: takes flags only, not "status"`,
		"--config x policy check":               `serve: takes flags only, not "policy" (a command goes before its flags)`,
		"policy check a b":                      `policy check: takes one FILE, not 2: ["a" "b"]`,
		"version x":                             `version: takes nothing, not "x"`,
		"nope":                                  `there is no command "nope" (guardd help lists them)`,
		"help nope":                             `there is no command "nope" (guardd help lists them)`,
	} {
		code, out, errOut := ran(t, strings.Fields(args)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errOut, "guardd: "+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: exit %d, on stdout %q, on stderr %q", args, code, out, errOut)
		}
	}
}
