package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/guardd/guardd/breached"
)

// breachedFigures is an index, in JSON.
type breachedFigures struct {
	Kind        string  `json:"kind"`
	Rows        uint64  `json:"rows"`
	Complete    bool    `json:"complete"`
	Top         uint64  `json:"top"`
	Prefixes    uint32  `json:"prefixes"`
	Ranges      bool    `json:"ranges"`
	Source      string  `json:"source_date"`
	Built       string  `json:"built"`
	IndexBytes  uint64  `json:"index_bytes"`
	SuffixBytes uint64  `json:"suffix_bytes"`
	TableBytes  uint64  `json:"table_bytes"`
	BytesPerRow float64 `json:"bytes_per_row"`
	LargeCounts uint64  `json:"large_counts"`
}

// builtFigures is what a build did, in JSON.
type builtFigures struct {
	breachedFigures
	Read          uint64  `json:"rows_read"`
	Padding       uint64  `json:"padding_rows"`
	OpenEnd       bool    `json:"last_line_open"`
	Seconds       float64 `json:"seconds"`
	RowsPerSecond float64 `json:"rows_per_second"`
}

func describe(i breached.Info, s breached.Sizes) breachedFigures {
	return breachedFigures{Kind: i.Kind.String(), Rows: i.Rows, Complete: i.Complete, Top: i.Top, Prefixes: i.Prefixes, Ranges: i.Ranges,
		Source: stamp(i.Source), Built: stamp(i.Built), IndexBytes: s.Index, SuffixBytes: s.Suffixes, TableBytes: s.Table,
		BytesPerRow: s.BytesPerRow(i.Rows), LargeCounts: s.LargeCounts}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

func breachedBuild(ctx context.Context, f *breachedFlags, stdin io.Reader, out, errOut io.Writer) (int, error) {
	c, err := f.corpus(stdin)
	if err != nil {
		return exitFailed, err
	}
	defer c.Close()
	begun := time.Now()
	o := breached.BuildOptions{Partial: f.partial, Top: f.top, NoSuffixes: f.noSuffixes, Built: begun}
	if f.date != "" {
		o.Source, _ = time.Parse(time.DateOnly, f.date) // has been checked
	}
	p := f.progress(errOut, "building")
	s, err := breached.Build(ctx, c, f.out, o, func(b breached.Progress) { p.part(b.Done, int64(b.Rows)) })
	p.end()
	if err != nil {
		return exitFailed, err
	}
	if s.OpenEnd {
		fmt.Fprintln(errOut, "warning: the last line has no end: it may be cut off, and its count with it")
	}
	took := time.Since(begun)
	b := builtFigures{describe(s.Info, s.Sizes), s.Read, s.Padding, s.OpenEnd, took.Seconds(), float64(s.Read) / took.Seconds()}
	if f.json {
		return exitOK, printJSON(out, b)
	}
	if err := b.print(out); err != nil {
		return exitFailed, err
	}
	_, err = fmt.Fprintf(out, "read      %s in %s, %s/s%s\n", plural64(int64(s.Read), "row"), took.Round(time.Millisecond),
		thousands(int64(b.RowsPerSecond)), padding(s.Padding))
	return exitOK, err
}

func padding(n uint64) string {
	if n == 0 {
		return ""
	}
	return ", and " + thousands(int64(n)) + " of padding (count 0), which were left out"
}

// corpus opens SRC, which must not be what is built.
func (f *breachedFlags) corpus(stdin io.Reader) (*breached.Corpus, error) {
	if f.file == "-" {
		return breached.NewCorpus("standard input", stdin), nil
	}
	if src, err := os.Stat(f.file); err == nil {
		if out, err := os.Stat(f.out); err == nil && os.SameFile(src, out) {
			return nil, fmt.Errorf("-o: %s is SRC, which would be lost", f.out)
		}
	}
	return breached.OpenCorpus(f.file)
}

func breachedStats(_ context.Context, f *breachedFlags, _ io.Reader, out, _ io.Writer) (int, error) {
	x, err := breached.Open(f.file)
	if err != nil {
		return exitFailed, err
	}
	defer x.Close()
	least, most, err := x.RowsPerPrefix()
	if err != nil {
		return exitFailed, err
	}
	b := describe(x.Info(), x.Sizes())
	if f.json {
		return exitOK, printJSON(out, struct {
			breachedFigures
			Least uint64 `json:"least_rows_a_prefix"`
			Most  uint64 `json:"most_rows_a_prefix"`
		}{b, least, most})
	}
	if err := b.print(out); err != nil {
		return exitFailed, err
	}
	_, err = fmt.Fprintf(out, "spread    %s to %s rows a prefix\n", thousands(int64(least)), thousands(int64(most)))
	return exitOK, err
}

func (b *breachedFigures) print(out io.Writer) error {
	complete := "complete"
	switch {
	case b.Top > 0 && !b.Complete:
		complete = fmt.Sprintf("the %s most frequent only", thousands(int64(b.Top)))
	case !b.Complete:
		complete = fmt.Sprintf("incomplete: %s of %s prefixes", thousands(int64(b.Prefixes)), thousands(breached.Prefixes))
	}
	suffixes := "none: no ranges"
	if b.Ranges {
		suffixes = megabytes(b.SuffixBytes)
	}
	source, built := b.Source, b.Built
	if source == "" {
		source = "unknown"
	}
	if built == "" {
		built = "unknown"
	}
	_, err := fmt.Fprintf(out, "corpus    %s, %s, %s\ndate      %s\nbuilt     %s\nindex     %s: tables of %s and %.3f bytes a row; %s counts above 255\nsuffixes  %s\n",
		b.Kind, plural64(int64(b.Rows), "row"), complete, source, built, megabytes(b.IndexBytes), megabytes(b.TableBytes), b.BytesPerRow, thousands(int64(b.LargeCounts)), suffixes)
	return err
}

// megabytes is a size as disks are sold.
func megabytes(n uint64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
