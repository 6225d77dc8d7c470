package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Grafana fills these in. For the parser they become something that nobody would
// write, so that it is seen where they were.
const rateInterval = 71 * time.Second

var (
	legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	grafanas    = strings.NewReplacer("$__rate_interval", "71s", "$__interval", "73s", "$__range", "79s")
	chosen      = regexp.MustCompile(`"\$(\w+)"`)
	choiceOf    = func(variable string) string { return "chosen " + variable }
)

// parse is expr as Prometheus' own parser reads it.
func parse(expr string) (parser.Expr, error) {
	expr = grafanas.Replace(expr)
	expr = chosen.ReplaceAllString(expr, `"`+choiceOf("$1")+`"`)
	if strings.Contains(expr, "$") {
		return nil, fmt.Errorf("a variable is left in %s", expr)
	}
	return parser.NewParser(parser.Options{}).ParseExpr(expr)
}

// selectorsOf are those in e, each with the functions and aggregations round it,
// the innermost last.
func selectorsOf(e parser.Expr, f func(s *parser.VectorSelector, round []parser.Node)) {
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			f(s, path)
		}
		return nil
	})
}

// matcher is s's for a label; nil: none.
func matcher(s *parser.VectorSelector, label string) *labels.Matcher {
	for _, m := range s.LabelMatchers {
		if m.Name == label {
			return m
		}
	}
	return nil
}

// matches reports whether s asks for what a variable chooses.
func matches(s *parser.VectorSelector, variable string) bool {
	m := matcher(s, variable)
	return m != nil && m.Type == labels.MatchRegexp && m.Value == choiceOf(variable)
}

// words are the values that a matcher names: of a regular expression its
// alternatives, where that is all it is.
func words(m *labels.Matcher) []string {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		return []string{m.Value}
	}
	if strings.Contains(m.Value, "(") {
		before, rest, _ := strings.Cut(m.Value, "(")
		inside, after, _ := strings.Cut(rest, ")")
		var list []string
		for _, w := range strings.Split(inside, "|") {
			list = append(list, before+w+after)
		}
		return list
	}
	return strings.Split(m.Value, "|")
}
