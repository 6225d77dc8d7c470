//lint:file-ignore SA1019 The newer schema is read by the newest Grafanas only, this one by the older ones too.

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// tag is what finds all of guardd's dashboards.
const tag = "guardd"

func ptr[T any](v T) *T { return &v }

// source is the data source that the variable chooses.
var source = common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}

// build makes all of b that Grafana has to know.
func (b *board) build() (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder("guardd / "+b.title).Uid(b.uid).Description(b.what).Tags([]string{tag}).
		Readonly().Tooltip(dashboard.DashboardCursorSyncCrosshair).Time("now-1h", "now").Refresh("30s").
		Timezone(common.TimeZoneBrowser).
		Link(dashboard.NewDashboardLinkBuilder("guardd").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).
			AsDropdown(true).IncludeVars(true).KeepTime(true))
	for _, v := range b.variables() {
		d.WithVariable(v)
	}
	for _, a := range b.annotations() {
		d.Annotation(a)
	}
	var id, y uint32
	for _, r := range b.rows {
		id++
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(id).GridPos(dashboard.GridPos{Y: y, W: 24, H: 1}))
		y++
		x, tallest := uint32(0), uint32(0)
		for i := range r.panels {
			p := &r.panels[i]
			id++
			w, h := p.size()
			if x+w > 24 {
				x, y, tallest = 0, y+tallest, 0
			}
			d.WithPanel(p.build(id, dashboard.GridPos{X: x, Y: y, W: w, H: h}))
			x, tallest = x+w, max(tallest, h)
		}
		y += tallest
	}
	built, err := d.Build()
	if err != nil {
		return built, err
	}
	// In the bar, where people look, and not in a menu, which is the builder's idea.
	for i := range built.Links {
		built.Links[i].Placement = nil
	}
	for i := range built.Annotations.List {
		built.Annotations.List[i].Placement = nil
	}
	return built, nil
}

// size is in Grafana's units: 24 make a row, 8 high is a usual picture.
func (p *panel) size() (w, h uint32) {
	w, h = 8, 8
	if p.kind == number {
		w, h = 4, 4
	}
	if p.width > 0 {
		w = p.width
	}
	return w, h
}

// variables are the data source, whose series (job, instance), and the realm.
// The order is the one in which they depend on each other.
func (b *board) variables() []cog.Builder[dashboard.VariableModel] {
	list := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus").
			Description("The Prometheus that scrapes guardd."),
		chooser("job", "Job", "The scrape job of guardd.", "label_values(guardd_build_info, job)"),
		chooser("instance", "Instance", "Which instances; all of them unless chosen.", `label_values(guardd_build_info{job=~"$job"}, instance)`),
	}
	if b.realm {
		list = append(list, chooser("realm", "Realm", "Which realms; all of them unless chosen.", `label_values(guardd_attempts_total{`+whereLabels+`}, realm)`))
	}
	return list
}

// chooser is a variable with the values of a label, looked up again when the
// time changes: instances come and go.
func chooser(name, label, what, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Description(what).Datasource(source).
		Query(dashboard.StringOrMap{String: &query}).Definition(query).Multi(true).IncludeAll(true).AllValue(".+").
		Current(dashboard.VariableOption{Selected: ptr(true), Text: dashboard.StringOrArrayOfString{String: ptr("All")}, Value: dashboard.StringOrArrayOfString{String: ptr("$__all")}}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

// annotations are the moments that explain a change of every picture.
func (b *board) annotations() (list []cog.Builder[dashboard.AnnotationQuery]) {
	add := func(name, colour, title string, ask query) {
		list = append(list, dashboard.NewAnnotationQueryBuilder().Name(name).Datasource(source).Enable(true).IconColor(colour).
			TitleFormat(title).TextFormat(ask.name).Target(target(ask, "A", false)))
	}
	add("Started", "blue", "guardd started", q(`changes(process_start_time_seconds{WHERE}[RATE]) > 0`, "{{instance}}"))
	add("Policy loaded", "purple", "policy loaded", q(`changes(guardd_policy_loaded_timestamp_seconds{WHERE}[RATE]) > 0`, "{{instance}}"))
	add("Operators", "orange", "an operator's change", q(`sum by (action) (increase(guardd_operator_changes_total{WHERE}[RATE])) > 0`, "{{action}}"))
	if b.realm {
		add("Postures", "red", "posture set by detection", q(`sum by (realm, posture) (increase(guardd_detection_changes_total{REALM}[RATE])) > 0`, "{{realm}}: {{posture}}"))
	}
	return list
}

func target(ask query, ref string, exemplars bool) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source).Expr(ask.expr).LegendFormat(ask.name).RefId(ref).
		EditorMode(prometheus.QueryEditorModeCode).Exemplar(exemplars)
}

// builder is as much of the kinds' builders as they have in common.
type builder[B any] interface {
	cog.Builder[dashboard.Panel]
	Id(uint32) B
	Title(string) B
	Description(string) B
	Datasource(common.DataSourceRef) B
	GridPos(dashboard.GridPos) B
	Unit(string) B
	Min(float64) B
	Max(float64) B
	NoValue(string) B
	Mappings([]dashboard.ValueMapping) B
	Thresholds(cog.Builder[dashboard.ThresholdsConfig]) B
	ColorScheme(cog.Builder[dashboard.FieldColor]) B
	WithTarget(cog.Builder[variants.Dataquery]) B
}

func (p *panel) build(id uint32, at dashboard.GridPos) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		mode := common.BigValueColorModeValue
		if len(p.marks)+len(p.names) > 0 {
			mode = common.BigValueColorModeBackground
		}
		return dress(p, id, at, numberBuilder().ColorMode(mode))
	case timeline:
		return dress(p, id, at, statetimeline.NewPanelBuilder().MergeValues(true).ShowValue(common.VisibilityModeAuto).RowHeight(0.8).
			Legend(common.NewVizLegendOptionsBuilder().ShowLegend(false).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)))
	case heat:
		return dress(p, id, at, heatmap.NewPanelBuilder().Calculate(false).YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.unit)).
			Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Steps(64)).ShowLegend())
	case rowsOf:
		return dress(p, id, at, table.NewPanelBuilder().ShowHeader(true).
			Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{})))
	}
	b := timeseries.NewPanelBuilder().LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementBottom).Calcs([]string{"lastNotNull", "max"})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.kind == stacked {
		b.FillOpacity(40).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	}
	if len(p.marks) > 0 {
		b.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	return dress(p, id, at, b)
}

func numberBuilder() *stat.PanelBuilder {
	return stat.NewPanelBuilder().GraphMode(common.BigValueGraphModeArea).ReduceOptions(last())
}

// last reduces a query to its last value.
func last() *common.ReduceDataOptionsBuilder {
	return common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Values(false)
}

// dress gives b what every kind of panel has.
func dress[B builder[B]](p *panel, id uint32, at dashboard.GridPos, b B) cog.Builder[dashboard.Panel] {
	b.Id(id)
	b.Title(p.title)
	b.Description(p.what)
	b.Datasource(source)
	b.GridPos(at)
	b.Unit(p.unit)
	b.Min(0)
	if p.most > 0 {
		b.Max(p.most)
	}
	if len(p.names) > 0 {
		b.Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: p.names}}})
	}
	steps := []dashboard.Threshold{{Color: "green"}} // from minus infinity on; without any, Grafana takes red from 80 on
	for _, m := range p.marks {
		steps = append(steps, dashboard.Threshold{Value: ptr(m.from), Color: m.colour})
	}
	b.Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps))
	if p.kind == number || p.kind == timeline {
		b.ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds))
	}
	for i, ask := range p.queries {
		t := target(ask, string(rune('A'+i)), p.traces)
		switch p.kind {
		case heat:
			t.Format(prometheus.PromQueryFormatHeatmap)
		case rowsOf:
			t.Format(prometheus.PromQueryFormatTable).Instant()
		default:
			t.Range()
		}
		b.WithTarget(t)
	}
	return b
}
