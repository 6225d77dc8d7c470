package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// doc is as much of a dashboard's JSON as is looked at, read without the types
// that it was written with: they would agree with themselves.
type doc struct {
	UID, Title, Description string
	Editable                *bool
	Tags                    []string
	Panels                  []docPanel
	Templating              struct{ List []docVariable }
	Annotations             struct{ List []docAnnotation }
	Links                   []struct {
		Type                  string
		Tags                  []string
		KeepTime, IncludeVars bool
	}
}

type docSource struct{ Type, UID string }

type docPanel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *docSource
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []docTarget
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Thresholds *struct {
				Steps []struct {
					Value *float64
					Color string
				}
			}
		}
	}
}

type docTarget struct {
	Datasource                *docSource
	Expr, LegendFormat, RefID string
	Format                    string
	Range, Instant, Exemplar  bool
}

type docVariable struct {
	Name, Type, Label, Query, Definition, AllValue string
	Datasource                                     *docSource
	Multi, IncludeAll                              bool
	Refresh                                        int
}

type docAnnotation struct {
	Name, TextFormat string
	Enable           bool
	Datasource       *docSource
	Target           docTarget
}

// asked is one query of a dashboard, where it stands, and in which unit it is
// shown.
type asked struct {
	where, unit string
	docTarget
}

// queries are all of d's: of panels and annotations.
func (d *doc) queries() (list []asked) {
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			list = append(list, asked{d.UID + ": " + p.Title, p.FieldConfig.Defaults.Unit, t})
		}
	}
	for _, a := range d.Annotations.List {
		list = append(list, asked{d.UID + ": annotation " + a.Name, "", a.Target})
	}
	return list
}

// folder is where the committed dashboards are.
const folder = ".."

// committed reads all of them, by the files that are there and not by what the
// program makes.
func committed(t *testing.T) (docs []*doc, texts [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		d := &doc{}
		if err := json.Unmarshal(text, d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		docs, texts = append(docs, d), append(texts, text)
	}
	return docs, texts
}
