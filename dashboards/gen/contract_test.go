package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// exported is what a running guardd says at /metrics: of each series that a query
// can name the labels, and of each label its values.
type exported map[string]*exportedSeries

type exportedSeries struct {
	counter bool
	labels  map[string]map[string]bool
}

// scraped reads a scrape.
func scraped(text string) (exported, error) {
	reader := expfmt.NewTextParser(model.LegacyValidation)
	families, err := reader.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	e := exported{}
	// What Prometheus itself adds of every target.
	e["up"] = &exportedSeries{labels: map[string]map[string]bool{}}
	for name, f := range families {
		names := []string{name}
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		case dto.MetricType_SUMMARY:
			names = []string{name, name + "_sum", name + "_count"}
		}
		for i, n := range names {
			s := &exportedSeries{counter: f.GetType() == dto.MetricType_COUNTER || f.GetType() == dto.MetricType_HISTOGRAM || i > 0, labels: map[string]map[string]bool{}}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if s.labels[l.GetName()] == nil {
						s.labels[l.GetName()] = map[string]bool{}
					}
					s.labels[l.GetName()][l.GetValue()] = true
				}
			}
			if strings.HasSuffix(n, "_bucket") {
				s.labels["le"] = map[string]bool{}
				for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
					s.labels["le"][strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)] = true
				}
			}
			e[n] = s
		}
	}
	return e, nil
}

// ofTarget are the labels that the scrape gives, not guardd.
var ofTarget = []string{"job", "instance"}

// breaches are what a dashboard asks for and e does not have: names, labels, and
// values of labels that are a closed set.
func (e exported) breaches(d *doc) (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, q := range d.queries() {
		tree, err := parse(q.Expr)
		if err != nil {
			complain("%s: %v", q.where, err)
			continue
		}
		selectorsOf(tree, func(s *parser.VectorSelector, round []parser.Node) {
			known := e[s.Name]
			if known == nil {
				complain("%s: guardd exports no %s", q.where, s.Name)
				return
			}
			if known.counter != isCounter(s.Name) {
				complain("%s: %s is not of the type that its name says", q.where, s.Name)
			}
			for _, m := range s.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(ofTarget, m.Name) {
					known.breach(m, func(what string) { complain("%s: %s: %s", q.where, s.Name, what) })
				}
			}
			if known.labels["realm"] != nil && d.variable("realm") != nil && !matches(s, "realm") {
				complain("%s: %s goes by realms, and not by the chosen one", q.where, s.Name)
			}
			for _, n := range round {
				a, ok := n.(*parser.AggregateExpr)
				if !ok {
					continue
				}
				for _, by := range a.Grouping {
					if known.labels[by] == nil && !slices.Contains(ofTarget, by) {
						complain("%s: %s has no label %s to sum by", q.where, s.Name, by)
					}
				}
			}
		})
	}
	return list
}

// breach complains of a matcher for a label or a value that there is not.
func (s *exportedSeries) breach(m *labels.Matcher, complain func(string)) {
	values := s.labels[m.Name]
	if values == nil {
		complain("no label " + m.Name)
		return
	}
	if m.Value == choiceOf(m.Name) {
		return // a variable offers only what there is
	}
	for _, w := range words(m) {
		is := func(v string) bool { return v == w }
		if m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp {
			// A route has braces, which stand for themselves.
			is = regexp.MustCompile("^(?:" + strings.NewReplacer("{", `\{`, "}", `\}`).Replace(w) + ")$").MatchString
		}
		found := false
		for v := range values {
			found = found || is(v)
		}
		if !found {
			complain(fmt.Sprintf("no %s is %s", m.Name, w))
		}
	}
}
