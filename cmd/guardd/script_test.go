package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts drives the real binary with the scripts in testdata/script. Beside
// testscript's own commands they have:
//
//	up [flags]        start guardd serve on free ports; sets $SERVICE, $CHALLENGES and $ADMIN
//	signal NAME       send HUP, TERM or INT to it
//	await TEXT        wait until its log says TEXT; token then reads that line
//	ended [code]      wait for its end, and expect the exit code (0; -1: killed)
//	down [code]       signal TERM, then ended
//	token NAME FIELD  set $NAME to a JSON string field of the last stdout, or awaited line
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			u := &upState{}
			env.Values[upKey{}] = u
			env.Defer(func() {
				if u.process != nil {
					u.process.kill()
				}
			})
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"up": scriptUp, "signal": scriptSignal, "await": scriptAwait, "ended": scriptEnded, "down": scriptDown, "token": scriptToken,
		},
	})
}

type upKey struct{}

type upState struct {
	*process
	awaited string // the line that await found, until token has read it
}

func scriptUp(ts *testscript.TestScript, neg bool, args []string) {
	u := ts.Value(upKey{}).(*upState)
	environ := append(os.Environ(), "HOME="+ts.Getenv("WORK"))
	p, err := startProcess(ts.MkAbs("."), environ, args...)
	ts.Check(err)
	u.process = p
	ts.Setenv("SERVICE", p.service)
	ts.Setenv("ADMIN", p.admin)
	ts.Setenv("CHALLENGES", p.challenges)
}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	ts.Check(ts.Value(upKey{}).(*upState).cmd.Process.Signal(signals[args[0]]))
}

func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	u := ts.Value(upKey{}).(*upState)
	line, err := u.awaitLog(strings.Join(args, " "))
	ts.Check(err)
	u.awaited = line
}

func scriptDown(ts *testscript.TestScript, neg bool, args []string) {
	scriptSignal(ts, neg, []string{"TERM"})
	scriptEnded(ts, neg, args)
}

func scriptEnded(ts *testscript.TestScript, neg bool, args []string) {
	want := 0
	if len(args) > 0 {
		want, _ = strconv.Atoi(args[0])
	}
	u := ts.Value(upKey{}).(*upState)
	code, err := u.wait()
	ts.Check(err)
	if code != want {
		ts.Fatalf("exit code %d, not %d:\n%s", code, want, u.logged())
	}
	u.process = nil
}

func scriptToken(ts *testscript.TestScript, neg bool, args []string) {
	u, text := ts.Value(upKey{}).(*upState), ts.ReadFile("stdout")
	if u.awaited != "" {
		text, u.awaited = u.awaited, ""
	}
	_, rest, ok := strings.Cut(text, `"`+args[1]+`":"`)
	value, _, ok2 := strings.Cut(rest, `"`)
	if !ok || !ok2 {
		ts.Fatalf("no field %s in %s", args[1], text)
	}
	ts.Setenv(args[0], value)
}
