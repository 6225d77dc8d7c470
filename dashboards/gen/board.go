package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// board is one dashboard.
type board struct {
	uid   string // of the file, and of the address in Grafana: never changed
	title string
	what  string
	realm bool // panels may be asked for a realm
	rows  []row
}

// row is a heading and what stands below it.
type row struct {
	title  string
	panels []panel
}

// panel is one picture.
type panel struct {
	kind    kind
	title   string
	what    string // what it says, what is usual, what to do: the words of the "i"
	unit    string
	queries []query
	width   uint32 // of 24; 0: the kind's own
	marks   []mark // where its colour changes
	names   map[string]dashboard.ValueMappingResult
	most    float64 // the top of the axis; 0: what there is
	traces  bool    // shows exemplars
}

// mark is where a panel takes another colour: from value on.
type mark struct {
	from   float64
	colour string
}

// query is one question to Prometheus, and how its answers are named.
type query struct{ expr, name string }

// kind is how a panel looks.
type kind int

const (
	lines    kind = iota
	stacked       // lines that add up
	number        // the last value, large
	timeline      // states over time
	heat          // buckets of a histogram over time
	rowsOf        // the last values' labels as a table
)

// q is a query. In expr, WHERE stands for the labels that the variables job and
// instance choose, REALM for these and the realm's, and RATE for the window of
// a rate: long enough for two scrapes at any zoom.
func q(expr, name string) query {
	return query{placeholders.Replace(expr), name}
}

const (
	whereLabels = `job=~"$job", instance=~"$instance"`
	realmLabels = whereLabels + `, realm=~"$realm"`
)

var placeholders = strings.NewReplacer("WHERE", whereLabels, "REALM", realmLabels, "RATE", "$__rate_interval")

// quantiles are those of a histogram whose buckets expr sums, by le.
func quantiles(expr string) []query {
	return []query{
		q("histogram_quantile(0.5, "+expr+")", "p50"),
		q("histogram_quantile(0.95, "+expr+")", "p95"),
		q("histogram_quantile(0.99, "+expr+")", "p99"),
	}
}

// upTo is green below warn, then orange, and red from bad on.
func upTo(warn, bad float64) []mark { return []mark{{warn, "orange"}, {bad, "red"}} }

// bad is green at 0, and red above.
var bad = []mark{{1e-9, "red"}}

// postures are the values of guardd_posture and guardd_detection_level.
var postures = states(state{"normal", "green"}, state{"elevated", "yellow"}, state{"high", "orange"}, state{"critical", "red"})

// yes and no, of a gauge that is 1 or 0.
var (
	noIsGood  = states(state{"no", "green"}, state{"yes", "red"})
	eitherWay = states(state{"no", "blue"}, state{"yes", "purple"})
)

type state struct{ text, colour string }

// states maps 0, 1, 2 ... to words.
func states(list ...state) map[string]dashboard.ValueMappingResult {
	m := map[string]dashboard.ValueMappingResult{}
	for i, s := range list {
		index := int32(i)
		m[string(rune('0'+i))] = dashboard.ValueMappingResult{Text: &s.text, Color: &s.colour, Index: &index}
	}
	return m
}
