package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// The README is tested: whoever follows it must get what it shows.

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the fenced blocks of one language.
func blocks(text, language string) (all []string) {
	for _, b := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if b[1] == language {
			all = append(all, b[2])
		}
	}
	return all
}

func TestReadmeGoIsCompiledCode(t *testing.T) {
	snippets, forms := blocks(readme(t), "go"), blocks(readme(t), "html")
	if len(snippets) == 0 || len(forms) == 0 {
		t.Fatal("no Go in the README, or no form")
	}
	for _, snippet := range append(snippets, forms...) {
		found := false
		for _, file := range treeFiles(t) {
			if filepath.Ext(file) == ".go" && !found {
				text, err := os.ReadFile(filepath.Join(root, file))
				if err != nil {
					t.Fatal(err)
				}
				found = strings.Contains(string(text), snippet)
			}
		}
		if !found {
			t.Errorf("no Go file of the tree has these lines, so nothing compiles them:\n%s", snippet)
		}
	}
}

// TestReadmeCommandsAnswerAsShown runs every command line of the README's
// console blocks, in order, against a running guardd. "…" stands for anything.
func TestReadmeCommandsAnswerAsShown(t *testing.T) {
	// The default policy, but that nothing refills while a slow machine is at it.
	slow := writeFile(t, "policy.yaml", "realms: {default: {delivery: {driver: log}, flows: {login: {limits: [{tier: pair, name: burst, refill: 10/1000h}]}}}}")
	var limits string // those that the README shows
	for _, yaml := range blocks(readme(t), "yaml") {
		if strings.HasPrefix(yaml, "rules:") {
			limits = writeFile(t, "limits.yaml", yaml)
		}
	}
	p := startGuardd(t, "--policy", slow, "--limits", limits)
	if ran := answersAsShown(t, p, readme(t), t.TempDir()); ran < 5 {
		t.Errorf("only %d commands found", ran)
	}
}

// answersAsShown runs the command lines of a text's console blocks in dir, and says
// how many there were. What others write meanwhile (grep, tail) is waited for.
func answersAsShown(t *testing.T, p *process, text, dir string) (ran int) {
	t.Helper()
	here := strings.NewReplacer("127.0.0.1:8080", strings.TrimPrefix(p.service, "http://"), "127.0.0.1:8081", strings.TrimPrefix(p.admin, "http://"))
	for _, block := range blocks(text, "console") {
		for _, step := range strings.Split("\n"+block, "\n$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			for strings.HasSuffix(command, `\`) {
				more, rest, _ := strings.Cut(want, "\n")
				command, want = command+"\n"+more, rest
			}
			ran++
			pattern := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*") + `$`)
			waits := strings.HasPrefix(command, "grep ") || strings.HasPrefix(command, "tail ")
			for late := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
				cmd := exec.Command("sh", "-c", here.Replace(command))
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GUARDD_ADMIN="+p.admin)
				got, err := cmd.CombinedOutput()
				shown := pattern.MatchString(strings.TrimSpace(string(got)))
				if err == nil && shown {
					break
				}
				if waits && time.Now().Before(late) {
					continue
				}
				if err != nil {
					t.Errorf("$ %s\n%v\n%s", command, err, got)
				}
				if !shown {
					t.Errorf("$ %s\nprints\n%s\nand not\n%s", command, got, want)
				}
				break
			}
		}
	}
	return ran
}

// The pages for each audience are tested as the README is.
var pages = []string{"login-handler.md", "operator.md", "analyst.md"}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPagesAnswerAsShown runs what the pages show, each against a guardd of its own.
func TestPagesAnswerAsShown(t *testing.T) {
	for _, name := range pages {
		dir := t.TempDir()
		p, err := startProcess(dir, os.Environ(), "--soc", "file:soc.jsonl#format=guardd")
		if err != nil {
			t.Fatal(err)
		}
		if ran := answersAsShown(t, p, page(t, name), dir); ran < 2 {
			t.Errorf("%s: only %d commands found", name, ran)
		}
		p.kill()
	}
}

// TestPagesNameWhatIsThere: links lead somewhere, the README leads to each page, Go is
// compiled code, and each kind of finding has a row for analysts.
func TestPagesNameWhatIsThere(t *testing.T) {
	goFiles := ""
	for _, file := range treeFiles(t) {
		if filepath.Ext(file) == ".go" {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			goFiles += string(text)
		}
	}
	for _, name := range pages {
		text := page(t, name)
		if !strings.Contains(readme(t), "(docs/"+name+")") {
			t.Errorf("the README does not lead to %s", name)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, "docs", m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, snippet := range blocks(text, "go") {
			if !strings.Contains(goFiles, snippet) {
				t.Errorf("%s: no Go file has these lines:\n%s", name, snippet)
			}
		}
	}
	for _, what := range slices.Concat(detect.Kinds(), aggregate.Moments) {
		if !strings.Contains(page(t, "analyst.md"), "`"+what+"`") {
			t.Errorf("analyst.md does not say what to do with %s", what)
		}
	}
	for _, outcome := range []string{"success", "failure", "unknown_account", "second_factor_pending", "denied_by_policy", "not_checked", "abandoned"} {
		if !strings.Contains(page(t, "login-handler.md"), "`"+outcome+"`") {
			t.Errorf("login-handler.md does not say when %s is reported", outcome)
		}
	}
}

func TestReadmeConfigurationLoads(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"guardd.secret", "pepper"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(longLine), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, yaml := range blocks(readme(t), "yaml") {
		if strings.HasPrefix(yaml, "rule_files:") || strings.HasPrefix(yaml, "scrape_configs:") {
			continue // Prometheus' own: dashboards/gen has promtool read it
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		as := "--config"
		if strings.HasPrefix(yaml, "rules:") {
			as = "--limits"
		}
		if _, err := loadWith(t, "", nil, as, file); err != nil {
			t.Errorf("%v in\n%s", err, yaml)
		}
	}
}

func TestReadmeNamesWhatIsThere(t *testing.T) {
	text := readme(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\bmake ([a-z]+)\b`).FindAllStringSubmatch(strings.Join(append(codeSpans(text), blocks(text, "sh")...), "\n"), -1) {
		if !strings.Contains("\n"+string(makefile), "\n"+m[1]+":") {
			t.Errorf("make %s: no such target", m[1])
		}
	}
	tests := testNames(t)
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Example)\\w+)`").FindAllStringSubmatch(text, -1) {
		if !tests[m[1]] {
			t.Errorf("%s: no such test", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("link: %v", err)
		}
	}
	for _, s := range settings {
		key := strings.ReplaceAll(s.flag, "-", "_")
		if group, name, _ := strings.Cut(s.flag, "-"); group == "log" {
			key = "log." + name
		}
		if !strings.Contains(text, "| `"+key+"` |") {
			t.Errorf("the configuration table has no row for %s", key)
		}
	}
}

// Whoever reads what happens in a fault must be able to see it happen.
func TestReadmeNamesATestForEveryFault(t *testing.T) {
	_, text, _ := strings.Cut(readme(t), "\n## When something is slow, gone, or lying\n")
	table, text, _ := strings.Cut(text, "\n### ")
	tests, rows := testNames(t), 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) < 2 || cells[0] == "| what" || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		named := codeSpans(cells[len(cells)-1])
		if len(cells) != 3 || len(named) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, name := range named {
			if !tests[name] {
				t.Errorf("%s: no such test", name)
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d rows found", rows)
	}
	for _, allowed := range []string{redistest.Commands, redistest.ClusterCommands} {
		if !strings.Contains(text, " "+allowed+"\n") {
			t.Errorf("the ACL does not say %s, with which the suite passes", allowed)
		}
	}
}

func codeSpans(text string) (spans []string) {
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		spans = append(spans, m[1])
	}
	return spans
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, files := range sources(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		for _, f := range files {
			for name := range f.Scope.Objects {
				names[name] = true
			}
		}
	}
	return names
}
