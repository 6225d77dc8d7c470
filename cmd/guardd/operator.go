package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/guardd/guardd/api/client"
)

// operator is a command of an operator: it asks a running guardd and shows what
// that answers.
type operator struct {
	ctx         context.Context
	out, errOut io.Writer
	stdin       io.Reader

	flags   *commandLine
	rest    []string // what is no flag
	admin   string
	keyFile string
	key     string
	json    bool
	realm   string
}

// adminDefault is where a guardd without configuration has its operators.
const adminDefault = "http://127.0.0.1:8081"

// operatorCommands by name. Each says what it asks.
var operatorCommands = map[string]struct {
	usage string
	do    func(*operator, []string) error
}{
	"explain": {explainUsage, (*operator).explain},
	"clear":   {clearUsage, (*operator).clear},
	"list":    {listUsage, (*operator).list},
	"posture": {postureUsage, (*operator).posture},
	"reload":  {reloadUsage, (*operator).reload},
	"audit":   {auditUsage, (*operator).audit},

	"limits explain": {limitsExplainUsage, (*operator).limitsExplain},
}

// operatorCommand runs the command of that name.
func operatorCommand(ctx context.Context, name string, args []string, getenv env, stdin io.Reader, out, errOut io.Writer) int {
	c := operatorCommands[name]
	o := &operator{ctx: ctx, out: out, errOut: errOut, stdin: stdin, flags: newCommandLine(name, "usage: guardd "+c.usage+"\n\n", out, errOut)}
	o.key, _ = getenv("GUARDD_ADMIN_KEY")
	if o.admin, _ = getenv("GUARDD_ADMIN"); o.admin == "" {
		o.admin = adminDefault
	}
	o.flags.StringVar(&o.admin, "admin", o.admin, "`URL` of a guardd's admin listener (GUARDD_ADMIN)")
	o.flags.StringVar(&o.keyFile, "key-file", "", "`file` that holds a key with a role; else GUARDD_ADMIN_KEY does")
	o.flags.BoolVar(&o.json, "json", false, "print what guardd answers, as JSON")
	err := c.do(o, args)
	var u usageError
	switch {
	case errors.Is(err, flag.ErrHelp) || errors.Is(err, errUsage):
		return usageCode(err)
	case errors.As(err, &u):
		return usageCode(o.flags.refuse(err))
	case err != nil:
		fmt.Fprintf(errOut, "guardd: %s: %v\n", name, err)
		var p *client.Problem
		if errors.As(err, &p) && p.Status == http.StatusUnauthorized {
			fmt.Fprintln(errOut, "GUARDD_ADMIN_KEY or --key-file gives the key of an api_keys entry with admin: read or operate")
		}
		if errors.As(err, &p) && p.Status == http.StatusBadRequest {
			return exitUsage
		}
		return exitFailed
	}
	return exitOK
}

// usageError is a command line that cannot be meant.
type usageError string

// Error is the text.
func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// parse reads the flags; what is none is in o.rest.
func (o *operator) parse(args []string) (err error) {
	if o.rest, err = o.flags.parse(args); err != nil {
		return err
	}
	if o.keyFile != "" {
		b, err := os.ReadFile(o.keyFile)
		if err != nil {
			return fmt.Errorf("--key-file: %w", err)
		}
		if o.key = strings.TrimSpace(string(b)); o.key == "" {
			return usagef("--key-file: %s is empty", o.keyFile)
		}
	}
	return nil
}

// ofRealm adds the flag for what concerns one realm.
func (o *operator) ofRealm() { o.flags.StringVar(&o.realm, "realm", "", "`realm`; none: default") }

// change is what every request that changes something bears.
type change struct {
	Realm  string `json:"realm,omitempty"`
	Reason string `json:"reason"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// changing adds the flags for them.
func (o *operator) changing() *change {
	c := &change{}
	o.flags.StringVar(&c.Reason, "reason", "", "`why`, for the audit; no names")
	o.flags.BoolVar(&c.DryRun, "dry-run", false, "only say what would change")
	return c
}

// ready takes over the flags, once they are read.
func (c *change) ready(o *operator) error {
	if c.Realm = o.realm; strings.TrimSpace(c.Reason) == "" {
		return usagef("--reason is missing: whoever reads the audit must learn why")
	}
	return nil
}

// longestAnswer bounds what is read of an answer: a list of 10,000 has some 2 MB.
const longestAnswer = 16 << 20

// operatorPatience is longer than guardd takes to say that it gives up.
const operatorPatience = 30 * time.Second

// ask sends body (nil: none) and decodes the answer into a; with --json it prints it,
// and returns false. The error is a *client.Problem where guardd refused.
func (o *operator) ask(method, path string, query url.Values, body, a any) (show bool, err error) {
	base, err := url.Parse(o.admin)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return false, usagef("--admin: must be like %s, not %q", adminDefault, o.admin)
	}
	base = base.JoinPath(path)
	base.RawQuery = query.Encode()
	var send io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return false, err
		}
		send = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(o.ctx, operatorPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, base.String(), send)
	if err != nil {
		return false, err
	}
	if r.Header.Set("Content-Type", "application/json"); o.key != "" {
		r.Header.Set("Authorization", "Bearer "+o.key)
	}
	// No redirect is followed: the key and the name are for this address.
	h := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer h.CloseIdleConnections()
	w, err := h.Do(r)
	if err != nil {
		return false, fmt.Errorf("no guardd answers there (--admin): %w", err)
	}
	defer w.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(w.Body, longestAnswer))
	if err != nil {
		return false, fmt.Errorf("guardd's answer: %w", err)
	}
	if w.StatusCode != http.StatusOK {
		return false, o.refused(w.StatusCode, answer)
	}
	if o.json {
		var text bytes.Buffer
		if err := json.Indent(&text, bytes.TrimSpace(answer), "", "  "); err != nil {
			return false, fmt.Errorf("guardd's answer: %w", err)
		}
		_, err := fmt.Fprintln(o.out, text.String())
		return false, err
	}
	if err := json.Unmarshal(answer, a); err != nil {
		return false, fmt.Errorf("guardd's answer: %w", err)
	}
	return true, nil
}

// refused says what is wrong, and what the one who asked can do.
func (o *operator) refused(status int, answer []byte) error {
	p := new(client.Problem)
	if err := json.Unmarshal(answer, p); err != nil || p.Title == "" {
		return fmt.Errorf("%s answers %d, and not as guardd's admin listener does", o.admin, status)
	}
	p.Status = status
	if status == http.StatusBadRequest {
		return fmt.Errorf("refused%w", refusedFields{p})
	}
	return fmt.Errorf("%w. %s", p, p.Detail)
}

// saidBy are the flags that say fields of other names.
var saidBy = map[string]string{"expires_in": "--for", "expires_at": "--for or --until"}

// refusedFields is a problem as its fields alone.
type refusedFields struct{ *client.Problem }

// Error lists field and reason.
func (f refusedFields) Error() string {
	var s strings.Builder
	for i, e := range f.Fields {
		field := e.Field
		if flag, ok := saidBy[field]; ok {
			field = flag
		}
		s.WriteString([]string{": ", "; "}[min(i, 1)] + field + " " + e.Reason)
	}
	return s.String()
}

// Unwrap is the problem.
func (f refusedFields) Unwrap() error { return f.Problem }
