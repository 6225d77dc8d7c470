package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/guardd/guardd/keys/plans"
)

// limitsExport is "limits export [FILE]": the YAML that serve --limits and import
// read. The file is whole or not there.
func limitsExport(ctx context.Context, c *limitsCall) (int, error) {
	c.flags()
	words, err := c.parse(0, 1)
	if err != nil {
		return exitUsage, err
	}
	db, err := c.existing(ctx)
	if err != nil {
		return exitFailed, err
	}
	defer db.Close()
	_, d, err := db.Load(ctx)
	if err != nil {
		return exitFailed, err
	}
	bad := plans.Check(d)
	if len(bad) > 0 {
		return exitFailed, d.ByName(bad) // a file that lacks them would take them away
	}
	out := d.Brief()
	if c.json {
		return exitOK, c.printJSON(out)
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return exitFailed, err
	}
	if len(words) == 0 || words[0] == "-" {
		_, err = c.out.Write(text)
		return exitOK, err
	}
	return exitOK, replaceFile(words[0], text)
}

// replaceFile writes beside the file and renames, so that whoever reads it reads
// all of the old one or of the new.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// limitsImport is "limits import FILE": the database says what the file says, or,
// with --merge, that too.
func limitsImport(ctx context.Context, c *limitsCall) (int, error) {
	fs := c.flags()
	c.writeFlags()
	merge := fs.Bool("merge", false, "leave alone what the file does not name; without it that is deleted")
	words, err := c.parse(1, 1)
	if err != nil {
		return exitUsage, err
	}
	d, err := c.readDefinition(words[0])
	if err != nil {
		return exitUsage, err
	}
	records, err := c.change(ctx, func(there *plans.Definition) error {
		if *merge {
			there.Merge(d)
		} else {
			*there = *d
		}
		return nil
	})
	if err != nil {
		return exitFailed, err
	}
	return exitOK, c.report(records, "")
}

// readDefinition reads a file, or standard input. All of its own faults are told
// by line or number, as serve --limits does.
func (c *limitsCall) readDefinition(file string) (*plans.Definition, error) {
	in := c.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	var d plans.Definition
	bad := decode(io.LimitReader(in, 1<<30), file, &d)
	if len(bad) == 0 {
		return &d, nil
	}
	for _, f := range bad {
		fmt.Fprintf(c.errOut, "guardd: limits %s: %s\n", c.name, f)
	}
	return nil, errUsage
}
