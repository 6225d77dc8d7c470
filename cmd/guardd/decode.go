package main

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// faults are everything that is wrong with a configuration, one line each,
// beginning with the key's path. They are collected, not returned at the
// first, so that an operator repairs a file in one go.
type faults []string

// add names a fault of path, unless path has one already: what could not be
// read is not judged as well.
func (f *faults) add(path, format string, args ...any) {
	for _, earlier := range *f {
		if strings.HasPrefix(earlier, path+": ") {
			return
		}
	}
	*f = append(*f, path+": "+fmt.Sprintf(format, args...))
}

// Error lists all of them.
func (f faults) Error() string { return strings.Join(f, "\n") }

// err is nil when there are none.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// decode reads one YAML document into out, a pointer to a struct whose fields
// carry yaml tags. Keys absent from the text leave their field as it is.
// Unknown and repeated keys and values of a wrong type are all reported, each
// with its path. (yaml.v3's own KnownFields names the Go type instead of the
// path, and stops at the first value that a TextUnmarshaler refuses.) What is
// wrong with the whole has the file's name for a path.
func decode(r io.Reader, name string, out any) faults {
	var doc yaml.Node
	dec := yaml.NewDecoder(r)
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // an empty file changes nothing
	case err != nil:
		return faults{name + ": is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	d := decoder{name: name}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		d.add(name, "holds more than one document")
	}
	d.value("", doc.Content[0], reflect.ValueOf(out).Elem())
	return d.faults
}

type decoder struct {
	faults
	name string
}

func (d *decoder) bad(path string, n *yaml.Node, format string, args ...any) {
	if path == "" {
		path = d.name
	}
	d.faults = append(d.faults, fmt.Sprintf("%s: %s (line %d)", path, fmt.Sprintf(format, args...), n.Line))
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Tag == "!!null" {
		return // "key:" with nothing behind it leaves the default
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(path, n, v.Elem())
		return
	}
	if v.Addr().Type().Implements(textUnmarshaler) {
		d.text(path, n, v.Addr().Interface().(encoding.TextUnmarshaler))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.fields(path, n, v)
	case reflect.Map:
		d.entries(path, n, v)
	case reflect.Slice:
		d.items(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

func (d *decoder) text(path string, n *yaml.Node, u encoding.TextUnmarshaler) {
	if n.Kind != yaml.ScalarNode {
		d.bad(path, n, "must be a single value")
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.bad(path, n, "%v", err)
	}
}

func (d *decoder) fields(path string, n *yaml.Node, v reflect.Value) {
	byName := map[string]reflect.Value{}
	fieldsByName(v, byName)
	d.pairs(path, n, func(at string, key, value *yaml.Node) {
		if f, ok := byName[key.Value]; ok {
			d.value(at, value, f)
			return
		}
		d.bad(at, key, "unknown key")
	})
}

// fieldsByName takes the fields of what is tagged inline for the struct's own.
func fieldsByName(v reflect.Value, byName map[string]reflect.Value) {
	for i := range v.NumField() {
		switch name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); {
		case options == "inline":
			fieldsByName(v.Field(i), byName)
		case name != "" && name != "-":
			byName[name] = v.Field(i)
		}
	}
}

func (d *decoder) entries(path string, n *yaml.Node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	d.pairs(path, n, func(at string, key, value *yaml.Node) {
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.Pointer { // "default:" alone is an entry with defaults, not nil
			e.Set(reflect.New(e.Type().Elem()))
		}
		d.value(at, value, e)
		m.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), e)
	})
	v.Set(m)
}

func (d *decoder) pairs(path string, n *yaml.Node, each func(at string, key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.bad(path, n, "must be a table of keys and values")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		if seen[key.Value] {
			d.bad(at, key, "repeated")
			continue
		}
		seen[key.Value] = true
		each(at, key, n.Content[i+1])
	}
}

func (d *decoder) items(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.bad(path, n, "must be a list")
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, s.Index(i))
	}
	v.Set(s)
}

var kindWords = map[reflect.Kind]string{
	reflect.Bool: "true or false", reflect.String: "text",
	reflect.Int: "a whole number", reflect.Int64: "a whole number",
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.bad(path, n, "must be a single value")
		return
	}
	// A number where text is wanted (a name such as 2024) is taken as written.
	if v.Kind() == reflect.String {
		v.SetString(n.Value)
		return
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		want := kindWords[v.Kind()]
		if want == "" {
			want = v.Type().String()
		}
		d.bad(path, n, "must be %s, not %q", want, n.Value)
	}
}
