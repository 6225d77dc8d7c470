package main

import (
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/promql/parser"
)

// rule is one thing that every dashboard must obey. Most are those of
// grafana/dashboard-linter, under its names; it is not used itself, because it
// cannot be required as a module without Grafana's AGPL ones.
type rule struct {
	name  string
	check func(d *doc, complain func(format string, args ...any))
}

var rules = []rule{
	{"uneditable-dashboard", func(d *doc, complain func(string, ...any)) {
		if d.Editable == nil || *d.Editable {
			complain("can be edited in Grafana, and what is edited there is lost with the next file")
		}
	}},
	{"template-datasource-rule", func(d *doc, complain func(string, ...any)) {
		v := d.variable("datasource")
		if v == nil || v.Type != "datasource" || v.Query != "prometheus" || v.Label != "Data source" {
			complain("no variable datasource that chooses a Prometheus: %+v", v)
		}
	}},
	{"template-job-rule", chooses("job")},
	{"template-instance-rule", chooses("instance")},
	{"template-realm-rule", func(d *doc, complain func(string, ...any)) {
		if d.variable("realm") != nil {
			chooses("realm")(d, complain)
		}
	}},
	{"template-label-promql-rule", func(d *doc, complain func(string, ...any)) {
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			selector, label, ok := labelValues(v.Query)
			if e, err := parse(selector); !ok || err != nil || e.Type() != parser.ValueTypeVector || label == "" || v.Query != v.Definition {
				complain("%s: %s is no label_values(selector, label): %v", v.Name, v.Query, err)
			}
		}
	}},
	{"template-on-time-change-reload-rule", func(d *doc, complain func(string, ...any)) {
		for _, v := range d.Templating.List {
			if v.Type == "query" && v.Refresh != 2 {
				complain("%s is not looked up again when the time changes", v.Name)
			}
		}
	}},
	{"panel-datasource-rule", func(d *doc, complain func(string, ...any)) {
		ok := func(s *docSource) bool {
			return s != nil && s.Type == "prometheus" && s.UID == "${datasource}"
		}
		for _, p := range d.charts() {
			if !ok(p.Datasource) {
				complain("%s: another data source than the chosen one", p.Title)
			}
		}
		for _, a := range d.Annotations.List {
			if !ok(a.Datasource) {
				complain("annotation %s: another data source than the chosen one", a.Name)
			}
		}
		for _, q := range d.queries() {
			if !ok(q.Datasource) {
				complain("%s: a query has another data source than the chosen one", q.where)
			}
		}
	}},
	{"panel-title-description-rule", func(d *doc, complain func(string, ...any)) {
		titles := map[string]bool{}
		for _, p := range d.charts() {
			if p.Title == "" || titles[p.Title] {
				complain("panel %d: no title of its own: %q", p.ID, p.Title)
			}
			titles[p.Title] = true
			if len(p.Description) < 20 || !strings.HasSuffix(p.Description, ".") {
				complain("%s: no description in a sentence: %q", p.Title, p.Description)
			}
		}
	}},
	{"panel-units-rule", func(d *doc, complain func(string, ...any)) {
		for _, p := range d.charts() {
			if u := p.FieldConfig.Defaults.Unit; !slices.Contains(knownUnits(), u) {
				complain("%s: %q is no unit of Grafana's", p.Title, u)
			}
		}
	}},
	{"panel-no-targets-rule", func(d *doc, complain func(string, ...any)) {
		for _, p := range d.charts() {
			refs := map[string]bool{}
			for _, t := range p.Targets {
				if refs[t.RefID] || t.RefID == "" || t.Expr == "" {
					complain("%s: query %q has no name or text of its own", p.Title, t.RefID)
				}
				refs[t.RefID] = true
			}
			if len(p.Targets) == 0 {
				complain("%s: no query", p.Title)
			}
		}
	}},
	{"panel-layout", func(d *doc, complain func(string, ...any)) {
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if p.ID == 0 || ids[p.ID] {
				complain("%s: id %d is not its own", p.Title, p.ID)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				complain("%s: outside of the 24 columns: %+v", p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if who, ok := taken[[2]int{x, y}]; ok {
						complain("%s lies on %s", p.Title, who)
						return
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
		if n := len(d.charts()); n > 30 {
			complain("%d panels are more than anybody reads", n)
		}
	}},
	{"panel-thresholds", func(d *doc, complain func(string, ...any)) {
		for _, p := range d.charts() {
			t := p.FieldConfig.Defaults.Thresholds
			if t == nil || len(t.Steps) == 0 || t.Steps[0].Value != nil {
				complain("%s: no first step, so that Grafana takes red from 80 on", p.Title)
				continue
			}
			for i, s := range t.Steps[1:] {
				if s.Value == nil || i > 0 && *s.Value <= *t.Steps[i].Value {
					complain("%s: steps that do not rise", p.Title)
				}
			}
		}
	}},
	{"dashboard-links", func(d *doc, complain func(string, ...any)) {
		if !slices.Contains(d.Tags, tag) || len(d.Links) == 0 || d.Links[0].Type != "dashboards" || !slices.Equal(d.Links[0].Tags, []string{tag}) || !d.Links[0].KeepTime || !d.Links[0].IncludeVars {
			complain("does not lead to the others, or they not to it")
		}
	}},
	{"target-promql-rule", func(d *doc, complain func(string, ...any)) {
		for _, q := range d.queries() {
			if _, err := parse(q.Expr); err != nil {
				complain("%s: %s: %v", q.where, q.Expr, err)
			}
		}
	}},
	{"target-job-rule", selects("job")},
	{"target-instance-rule", selects("instance")},
	{"target-rate-interval-rule", func(d *doc, complain func(string, ...any)) {
		for _, q := range d.queries() {
			e, err := parse(q.Expr)
			if err != nil {
				continue
			}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				switch n := n.(type) {
				case *parser.MatrixSelector:
					if n.Range != rateInterval {
						complain("%s: a window of %s, not $__rate_interval", q.where, n.Range)
					}
				case *parser.SubqueryExpr:
					complain("%s: a subquery", q.where)
				}
				return nil
			})
		}
	}},
	{"target-counter-agg-rule", func(d *doc, complain func(string, ...any)) {
		for _, q := range d.queries() {
			e, err := parse(q.Expr)
			if err != nil {
				continue
			}
			selectorsOf(e, func(s *parser.VectorSelector, round []parser.Node) {
				inRate := slices.ContainsFunc(round, func(n parser.Node) bool {
					c, ok := n.(*parser.Call)
					return ok && (c.Func.Name == "rate" || c.Func.Name == "irate" || c.Func.Name == "increase")
				})
				if inRate != isCounter(s.Name) {
					complain("%s: %s, and inside of a rate: %t", q.where, s.Name, inRate)
				}
			})
		}
	}},
	{"target-histogram-rule", func(d *doc, complain func(string, ...any)) {
		for _, q := range d.queries() {
			e, err := parse(q.Expr)
			if err != nil {
				continue
			}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				c, ok := n.(*parser.Call)
				if !ok || c.Func.Name != "histogram_quantile" {
					return nil
				}
				sum, ok := c.Args[1].(*parser.AggregateExpr)
				if !ok || sum.Op != parser.SUM || sum.Without || !slices.Contains(sum.Grouping, "le") || !strings.Contains(sum.Expr.String(), "_bucket{") {
					complain("%s: a quantile of something else than a sum of buckets by le", q.where)
				}
				return nil
			})
		}
	}},
}

// chooses is the rule of a variable whose values come from Prometheus.
func chooses(name string) func(*doc, func(string, ...any)) {
	return func(d *doc, complain func(string, ...any)) {
		v := d.variable(name)
		if v == nil || v.Type != "query" || v.Label == "" || !v.Multi || !v.IncludeAll || v.AllValue != ".+" ||
			v.Datasource == nil || v.Datasource.UID != "${datasource}" {
			complain("no variable %s of several values, with all as .+, from the chosen data source: %+v", name, v)
		}
	}
}

// selects is the rule that every selector goes by a variable.
func selects(name string) func(*doc, func(string, ...any)) {
	return func(d *doc, complain func(string, ...any)) {
		for _, q := range d.queries() {
			e, err := parse(q.Expr)
			if err != nil {
				continue
			}
			selectorsOf(e, func(s *parser.VectorSelector, _ []parser.Node) {
				if !matches(s, name) {
					complain(`%s: %s without %s=~"$%s"`, q.where, s, name, name)
				}
			})
		}
	}
}

// isCounter goes by the endings that OpenMetrics gives counters and histograms;
// TestPanelsHaveSamples compares with the types that guardd declares.
func isCounter(name string) bool {
	for _, end := range []string{"_total", "_bucket", "_sum", "_count"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func (d *doc) variable(name string) *docVariable {
	for i := range d.Templating.List {
		if d.Templating.List[i].Name == name {
			return &d.Templating.List[i]
		}
	}
	return nil
}

// charts are the panels but rows.
func (d *doc) charts() (list []docPanel) {
	for _, p := range d.Panels {
		if p.Type != "row" {
			list = append(list, p)
		}
	}
	return list
}

// labelValues takes label_values(selector, label) apart.
func labelValues(query string) (selector, label string, ok bool) {
	inside, ok := strings.CutPrefix(query, "label_values(")
	if !ok || !strings.HasSuffix(inside, ")") {
		return "", "", false
	}
	inside = strings.TrimSuffix(inside, ")")
	i := strings.LastIndex(inside, ",")
	if i < 0 {
		return "", "", false
	}
	return inside[:i], strings.TrimSpace(inside[i+1:]), true
}

// lint is what is wrong with d, each after the name of its rule.
func lint(d *doc) (complaints []string) {
	for _, r := range rules {
		r.check(d, func(format string, args ...any) {
			complaints = append(complaints, r.name+": "+fmt.Sprintf(format, args...))
		})
	}
	return complaints
}

// knownUnits are Grafana's, read from the source of the package that lists them.
var knownUnits = sync.OnceValue(func() (list []string) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/grafana/grafana-foundation-sdk/go/units").Output()
	if err != nil {
		panic(err)
	}
	file, err := goparser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(out)), "types_gen.go"), nil, 0)
	if err != nil {
		panic(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.BasicLit); ok && v.Kind == token.STRING {
			if u, err := strconv.Unquote(v.Value); err == nil {
				list = append(list, u)
			}
		}
		return true
	})
	return list
})
