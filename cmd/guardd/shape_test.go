package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests hold the shape of the tree: which folder may import what, and
// that whoever opens one is told what it is.

const (
	root   = "../.."
	module = "github.com/guardd/guardd"
)

// layer is a folder's product code and what it may import beside the standard
// library. A folder is judged by the most specific entry.
type layer struct {
	folder string
	own    []string // folders of this module
	others []string // module paths, and such of clients as the folder is there for
	why    string   // said when something else is imported
}

var layers = []layer{
	{"keys/trace", nil, nil,
		"which request of a trace this is, for all of them: it imports nothing, and exports to nobody"},
	{"keys/trace/otlp", []string{"keys/trace"}, []string{"go.opentelemetry.io/otel"},
		"the one place that knows OpenTelemetry"},
	{"keys", []string{"keys/trace"}, []string{"golang.org/x/text"},
		"keys is the leftmost: facts, imported by everything, so it imports nothing that talks to anything"},
	{"keys/redisstore", []string{"keys", "keys/trace"}, []string{"github.com/redis/go-redis/v9"},
		"the one place that knows Redis: whoever uses keys with another store must not pay for a Redis client"},
	{"keys/plans", []string{"keys"}, nil, "plan limits are the same buckets, by API key"},
	{"keys/shed", nil, nil, "load shedding is arithmetic on what requests took: whoever doubts it runs it without anything around"},
	{"keys/shed/shedtest", nil, nil, "a model of a backend knows nothing of who protects it"},
	{"keys/plandb", []string{"keys/plans"}, []string{"database/sql", "github.com/jackc/pgx/v5", "modernc.org/sqlite"},
		"the one place that knows SQL: whoever has the limits in a file must not pay for a database's client"},
	{"keys/keystest", []string{"keys", "keys/keystest/oracle"}, []string{"github.com/google/go-cmp"},
		"the suite is for whoever writes a Store: it knows the contract and no implementation"},
	{"keys/keystest/oracle", nil, nil,
		"an oracle that shares code with what it judges repeats its mistakes"},
	{"keys/keystest/daemon", nil, nil, "for whoever starts a server of any kind in a test"},
	{"keys/keystest/redistest", []string{"keys/keystest/daemon"}, []string{"github.com/redis/go-redis/v9"},
		"starts a server for tests; it knows nothing of guardd"},
	{"keys/keystest/postgrestest", []string{"keys/keystest/daemon"}, []string{"github.com/jackc/pgx/v5"},
		"starts a server for tests; it knows nothing of guardd"},
	{"escalation", []string{"keys", "keys/trace"}, []string{"golang.org/x/text", "golang.org/x/crypto", "github.com/gaissmai/bart"},
		"decisions stand on facts alone; what speaks HTTP, Redis or Kafka is wired in cmd/guardd"},
	{"escalation/delivery/hook", nil, []string{"net/http"}, "posts to what an operator has named; it knows nothing of what"},
	{"escalation/delivery", []string{"escalation", "keys/trace", "escalation/delivery/hook"}, []string{"net/http", "github.com/wneessen/go-mail"},
		"delivery talks to mail servers and webhooks, so that escalation need not"},
	{"escalation/captcha", []string{"escalation"}, []string{"net/http", "github.com/dchest/captcha"},
		"captcha talks to third parties and draws, so that escalation need not"},
	{"escalation/operate", []string{"keys", "escalation"}, nil,
		"what operators ask and do stands on decisions; api speaks HTTP for it, cmd/guardd wires it"},
	{"breached", []string{"breached/rangetext"}, []string{"golang.org/x/crypto", "golang.org/x/sync", "golang.org/x/sys"},
		"a leaf: whoever wants to know whether a password has leaked needs nothing else of guardd"},
	{"breached/rangetext", nil, nil,
		"the reader of ranges, for clients too: they must not import a corpus"},
	{"breached/breachedtest", []string{"breached"}, nil,
		"the suite is for whoever writes a Source: it knows the contract and no implementation"},
	{"aggregate", []string{"keys", "keys/trace", "escalation", "aggregate/detect"}, []string{"github.com/go-json-experiment/json"},
		"what many attempts mean is worked out from events alone; what speaks Kafka or Redis is wired in cmd/guardd"},
	{"aggregate/detect", nil, []string{"github.com/cespare/xxhash/v2"},
		"detection is mathematics: whoever doubts a figure of it runs it without anything around"},
	{"aggregate/asn", nil, []string{"github.com/oschwald/maxminddb-golang/v2"},
		"the one place that knows MaxMind's format"},
	{"aggregate/asn/asntest", nil, []string{"github.com/maxmind/mmdbwriter"}, "writes files for tests"},
	{"aggregate/moments", []string{"keys", "escalation/operate", "aggregate"}, []string{"github.com/go-json-experiment/json"},
		"what nobody has to look for is told as findings are; it stands on what operators do, which detection need not know"},
	{"aggregate/sim", []string{"keys", "escalation", "aggregate", "aggregate/detect"}, nil,
		"makes logins and attacks, and puts them to the real parts"},
	{"aggregate/soc", []string{"aggregate"}, []string{"github.com/go-json-experiment/json"},
		"says what was found in the words of others: what brings it there is in sink"},
	{"aggregate/soc/sink", []string{"aggregate", "aggregate/soc", "escalation/delivery/hook"}, []string{"net/http"},
		"speaks to files, syslog servers, webhooks and Alertmanager, so that soc need not"},
	{"aggregate/soc/soctest", []string{"keys/keystest/daemon"}, []string{"net/http"},
		"starts servers for tests; it knows nothing of guardd"},
	{"aggregate/aggregatetest", []string{"aggregate", "keys"}, []string{"github.com/google/go-cmp"},
		"the suite is for whoever writes a Bus: it knows the contract and no implementation"},
	{"aggregate/kafkabus", []string{"aggregate"}, []string{"github.com/segmentio/kafka-go"},
		"the one place that knows Kafka: whoever runs without it must not pay for its client"},
	{"aggregate/kafkabus/kafkatest", []string{"keys/keystest/daemon"}, []string{"github.com/twmb/franz-go"},
		"starts a Kafka for tests; it knows nothing of guardd"},
	{"api", []string{"keys", "keys/trace", "keys/plans", "escalation", "breached", "aggregate", "escalation/operate", "api/client", "api/limits"}, []string{"github.com/go-chi/chi/v5", "github.com/go-json-experiment/json", "github.com/CAFxX/httpcompression", "golang.org/x/text"},
		"api speaks HTTP for what is left of it, and reaches no store by itself"},
	{"api/limits", []string{"keys/plans", "keys/shed"}, []string{"github.com/go-chi/chi/v5", "github.com/go-json-experiment/json"},
		"the middleware of plan limits is for services that run no guardd: it brings little with it"},
	{"api/client", []string{"breached/rangetext"}, []string{"github.com/go-json-experiment/json"},
		"a login handler that imports the client must not import the server"},
	{"api/browsertest", nil, []string{"github.com/chromedp/chromedp", "github.com/chromedp/cdproto"},
		"drives a browser for tests; it knows nothing of guardd"},
	{"cmd/guardd", []string{"keys", "keys/trace", "keys/trace/otlp", "keys/plans", "keys/plandb", "keys/redisstore", "escalation", "escalation/captcha", "escalation/delivery", "breached", "aggregate", "aggregate/asn", "aggregate/detect", "aggregate/moments", "aggregate/sim", "aggregate/kafkabus", "aggregate/soc", "aggregate/soc/sink", "escalation/operate", "api", "api/client", "cmd/guardd/loginlog"},
		[]string{"go.yaml.in/yaml/v3", "github.com/prometheus/client_golang", "golang.org/x/term"},
		"wiring may know everything of ours, and only the libraries that no other part needs"},
	{"cmd/guardd/loginlog", nil, nil, "reads old logs; it knows nothing of what is done with them"},
	{"cmd/demo", []string{"keys", "escalation", "escalation/captcha", "api", "api/client"}, nil,
		"a shop that asks guardd as any other would, and a guardd to ask; what it needs beyond, every customer would need"},
	{"examples/search", []string{"keys", "keys/plans", "keys/shed", "keys/shed/shedtest"}, nil,
		"a worked example: what it needs beyond, every user would need"},
	{"examples/llm", []string{"keys", "keys/plans", "api/limits"}, nil,
		"a worked example: what it needs beyond, every user would need"},
	{"cmd/figures", nil, nil, "writes down what simulate printed; it knows nothing of how that came about"},
	{"bench", []string{"keys", "keys/plans", "keys/redisstore", "escalation", "aggregate", "breached", "api/client", "api/limits"},
		[]string{"github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10", "golang.org/x/sys", "golang.org/x/time", "github.com/go-chi/chi/v5",
			"github.com/segmentio/kafka-go", "github.com/twmb/franz-go"},
		"a module of its own, so that nobody who builds guardd fetches its peers"},
	{"dashboards/gen", nil, []string{"github.com/grafana/grafana-foundation-sdk"},
		"a module of its own, so that nobody who builds guardd fetches Grafana's types; it knows guardd by its metrics only"},
}

func TestImportsRunOneWay(t *testing.T) {
	for dir, files := range sources(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		l := layerOf(dir)
		if l == nil {
			t.Errorf("%s: no layer is declared for this folder", dir)
			continue
		}
		for name, f := range files {
			for _, spec := range f.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				if !l.may(imported) {
					t.Errorf("%s imports %s: %s", path.Join(dir, name), imported, l.why)
				}
			}
		}
	}
}

// TestLayersRefuse holds the test above to its word.
func TestLayersRefuse(t *testing.T) {
	for folder, imports := range map[string][]string{
		"keys":               {module + "/escalation", "github.com/redis/go-redis/v9", "github.com/segmentio/kafka-go", "database/sql", "net/http"},
		"escalation":         {module + "/api", module + "/keys/redisstore", "github.com/redis/go-redis/v9", "net/smtp"},
		"escalation/deep":    {module + "/cmd/guardd", "net/http"},
		"escalation/captcha": {"net/smtp", "github.com/wneessen/go-mail"},
		"aggregate":          {module + "/api", module + "/keys/redisstore", "github.com/segmentio/kafka-go", "net/http"},
		"aggregate/kafkabus": {module + "/escalation", "github.com/redis/go-redis/v9"},
		"api":                {module + "/keys/redisstore", "github.com/jackc/pgx/v5"},
		"api/client":         {module + "/api", module + "/keys"},
		"keys/redisstore":    {module + "/escalation"},
		"keys/plans":         {module + "/keys/plandb", "database/sql", "modernc.org/sqlite"},
		"keys/plandb":        {module + "/escalation", "github.com/redis/go-redis/v9", "net/http"},
		"keys/redisstore2":   {"github.com/redis/go-redis/v9"},
	} {
		for _, i := range imports {
			if layerOf(folder).may(i) {
				t.Errorf("%s may import %s", folder, i)
			}
		}
	}
}

// clients are the standard library's own clients of other services, which the
// inner folders must not hold either.
var clients = []string{"net/http", "net/smtp", "net/rpc", "database/sql"}

func (l *layer) may(imported string) bool {
	if within(imported, module) {
		own := strings.TrimPrefix(imported, module+"/")
		return own == l.folder || slices.Contains(l.own, own)
	}
	if !strings.Contains(strings.Split(imported, "/")[0], ".") { // standard library
		inner := within(l.folder, "keys") || within(l.folder, "escalation") || within(l.folder, "aggregate")
		return !inner || !slices.Contains(clients, imported) || slices.Contains(l.others, imported)
	}
	return slices.ContainsFunc(l.others, func(m string) bool { return within(imported, m) })
}

func layerOf(dir string) (best *layer) {
	for i, l := range layers {
		if within(dir, l.folder) && (best == nil || len(l.folder) > len(best.folder)) {
			best = &layers[i]
		}
	}
	return best
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func TestEveryPackageHasOneComment(t *testing.T) {
	for dir, files := range sources(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		var have []string
		for name, f := range files {
			if f.Doc == nil {
				continue
			}
			have = append(have, name)
			begin := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" {
				begin = "Command " + path.Base(dir) + " "
			}
			if !strings.HasPrefix(f.Doc.Text(), begin) {
				t.Errorf("%s/%s: the package comment does not begin with %q", dir, name, begin)
			}
		}
		if len(have) != 1 {
			t.Errorf("%s: one file has the package comment, not %d: %v", dir, len(have), have)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for dir, files := range sources(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		for name, f := range files {
			for _, d := range f.Decls {
				for _, missing := range undocumented(d) {
					t.Errorf("%s/%s: %s has no comment", dir, name, missing)
				}
			}
		}
	}
}

func undocumented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec: // a group's comment stands for all of it
				if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, s.Names[0].Name)
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	return fmt.Sprint(t)
}

// sources parses the tree: folder to file name to file.
func sources(t *testing.T, want func(name string) bool) map[string]map[string]*ast.File {
	t.Helper()
	all := map[string]map[string]*ast.File{}
	fset := token.NewFileSet()
	for _, file := range treeFiles(t) {
		if path.Ext(file) != ".go" || !want(path.Base(file)) {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(file)
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][path.Base(file)] = f
	}
	if len(all) < 5 {
		t.Fatalf("only %d folders found: the walk is broken", len(all))
	}
	return all
}

// treeFiles lists the project's own files, with slashes, from its top.
func treeFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() && (d.Name() == ".git" || rel == "bin" || rel == ".tools") {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() && d.Name() != ".git" {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestNothingIsLeftToDo(t *testing.T) {
	left := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, file := range treeFiles(t) {
		if !slices.Contains([]string{".go", ".lua", ".md", ".sh", ".yaml", ".txt", ""}, path.Ext(file)) || strings.Contains(file, "testdata/fuzz/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if left.MatchString(line) {
				t.Errorf("%s:%d: %s", file, i+1, line)
			}
		}
	}
}

// A script that is read from disk at run time is missing on the machine where
// only the binary was copied to.
func TestEveryLuaScriptIsEmbedded(t *testing.T) {
	scripts := 0
	code := sources(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
	for _, file := range treeFiles(t) {
		if path.Ext(file) != ".lua" {
			continue
		}
		scripts++
		if !slices.ContainsFunc(embeds(code[path.Dir(file)]), func(pattern string) bool {
			ok, _ := path.Match(pattern, path.Base(file))
			return ok
		}) {
			t.Errorf("%s is not embedded by a Go file beside it", file)
		}
	}
	if scripts == 0 {
		t.Error("no script found: the walk is broken")
	}
}

// embeds lists the patterns of a folder's go:embed lines.
func embeds(files map[string]*ast.File) (patterns []string) {
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if list, ok := strings.CutPrefix(c.Text, "//go:embed "); ok {
					patterns = append(patterns, strings.Fields(list)...)
				}
			}
		}
	}
	return patterns
}
