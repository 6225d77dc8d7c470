package soc

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// ocsfSchema is what testdata/ocsf-1.8.0.json has of the schema that
// schema.ocsf.io exports: two classes, and the objects that they are given here.
type ocsfSchema struct {
	Version string
	Types   map[string]struct {
		Type, Regex string
		Max         int `json:"max_len"`
		Range       []float64
	}
	Classes, Objects map[string]ocsfEntity
}

type ocsfEntity struct {
	UID         int
	Category    int `json:"category_uid"`
	Constraints struct {
		AtLeastOne []string `json:"at_least_one"`
	}
	Attributes map[string]struct {
		Type, Requirement, Object, Sibling string
		Array, Deprecated                  bool
		Profile                            any
		Enum                               map[string]string
	}
}

func loadOCSF(t testing.TB) *ocsfSchema {
	t.Helper()
	b, err := os.ReadFile("testdata/ocsf-1.8.0.json")
	if err != nil {
		t.Fatal(err)
	}
	s := &ocsfSchema{}
	if err := json.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// check tells what is wrong with v as an object of the entity, and with what is in it.
func (s *ocsfSchema) check(at string, e ocsfEntity, v map[string]any, profiles []string) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, at+fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		a := e.Attributes[name]
		applies := a.Profile == nil
		for _, p := range profiles {
			applies = applies || strings.Contains(fmt.Sprint(a.Profile), p)
		}
		_, given := v[name]
		switch {
		case !given && a.Requirement == "required" && applies:
			bad("%s is required", name)
		case given && !applies:
			bad("%s is of a profile that is not named", name)
		}
	}
	if one := e.Constraints.AtLeastOne; len(one) > 0 && !slices.ContainsFunc(one, func(n string) bool { _, ok := v[n]; return ok }) {
		bad("one of %v is required", one)
	}
	for name, value := range v {
		a, ok := e.Attributes[name]
		if !ok || a.Deprecated {
			bad("%s is no attribute, or a deprecated one", name)
			continue
		}
		list := []any{value}
		if a.Array {
			if list, ok = value.([]any); !ok || len(list) == 0 {
				bad("%s is no array of something", name)
			}
		}
		for _, one := range list {
			wrong = append(wrong, s.checkValue(at+name, a.Type, a.Object, a.Enum, one, profiles)...)
		}
		if a.Sibling != "" && a.Enum != nil {
			id, label := fmt.Sprint(value), v[a.Sibling]
			if id == "99" && (label == nil || label == "") {
				bad("%s is 99, and %s does not say what", name, a.Sibling)
			} else if id != "99" && label != nil && label != a.Enum[id] {
				bad("%s %s is called %v, and not %s", name, id, label, a.Enum[id])
			}
		}
	}
	return wrong
}

func (s *ocsfSchema) checkValue(at, kind, object string, enum map[string]string, v any, profiles []string) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, at+" "+fmt.Sprintf(format, args...)) }
	if kind == "object_t" {
		o, ok := v.(map[string]any)
		switch e, known := s.Objects[object]; {
		case !ok:
			bad("is no object")
		case object == "object": // of any form
		case !known:
			bad("is a %s, which the test knows nothing of", object)
		default:
			return s.check(at+".", e, o, profiles)
		}
		return wrong
	}
	if kind == "json_t" {
		return nil
	}
	typ, ok := s.Types[kind]
	if !ok {
		bad("has an unknown type %s", kind)
		return wrong
	}
	base := kind
	if typ.Type != "" {
		base = typ.Type
	}
	switch base {
	case "integer_t", "long_t":
		n, ok := v.(json.Number)
		if _, err := strconv.ParseInt(n.String(), 10, 64); !ok || err != nil {
			bad("is no whole number: %v", v)
		}
		if _, in := enum[n.String()]; enum != nil && !in {
			bad("is %v, which is none of its values", n)
		}
	case "boolean_t":
		if _, ok := v.(bool); !ok {
			bad("is neither true nor false")
		}
	case "string_t":
		text, ok := v.(string)
		if !ok || !utf8.ValidString(text) {
			bad("is no text: %v", v)
		}
		if typ.Max > 0 && utf8.RuneCountInString(text) > typ.Max {
			bad("is longer than %d", typ.Max)
		}
		if typ.Regex != "" && !regexp.MustCompile(typ.Regex).MatchString(text) {
			bad("%q is not like %s", text, typ.Regex)
		}
		if _, in := enum[text]; enum != nil && !in {
			bad("is %q, which is none of its values", text)
		}
	default:
		bad("has a type that the test cannot judge: %s", base)
	}
	return wrong
}

// checkRecord judges a whole record.
func (s *ocsfSchema) checkRecord(line []byte) (wrong []string) {
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return []string{err.Error()}
	}
	number := func(name string) int {
		n, _ := v[name].(json.Number)
		i, _ := strconv.Atoi(n.String())
		return i
	}
	for _, e := range s.Classes {
		if e.UID != number("class_uid") {
			continue
		}
		if n := number("type_uid"); n != e.UID*100+number("activity_id") {
			wrong = append(wrong, fmt.Sprintf("type_uid %d", n))
		}
		if n := number("category_uid"); n != e.Category {
			wrong = append(wrong, fmt.Sprintf("category_uid %d", n))
		}
		var profiles []string
		meta, _ := v["metadata"].(map[string]any)
		list, _ := meta["profiles"].([]any)
		for _, p := range list {
			profiles = append(profiles, fmt.Sprint(p))
		}
		if meta["version"] != s.Version {
			wrong = append(wrong, fmt.Sprintf("metadata.version %v", meta["version"]))
		}
		if n := number("time"); n < 1e12 || n > 1e13 {
			wrong = append(wrong, fmt.Sprintf("time %d is not in milliseconds", n))
		}
		wrong = append(wrong, s.check("", e, v, profiles)...)
		// What is observed is there: the path leads to the value.
		observed, _ := v["observables"].([]any)
		for _, o := range observed {
			o := o.(map[string]any)
			if !slices.Contains(at(v, strings.Split(fmt.Sprint(o["name"]), ".")), fmt.Sprint(o["value"])) {
				wrong = append(wrong, fmt.Sprintf("nothing at %v is %v", o["name"], o["value"]))
			}
		}
		return wrong
	}
	return []string{fmt.Sprint("no class ", number("class_uid"))}
}

// at are the values that a path such as evidences[].user.uid leads to.
func at(v any, path []string) (all []string) {
	if len(path) == 0 {
		return []string{fmt.Sprint(v)}
	}
	name, many := strings.CutSuffix(path[0], "[]")
	o, _ := v.(map[string]any)
	next := o[name]
	if !many {
		return at(next, path[1:])
	}
	list, _ := next.([]any)
	for _, one := range list {
		all = append(all, at(one, path[1:])...)
	}
	return all
}

func TestEveryRecordConformsToOCSF(t *testing.T) {
	schema, all := loadOCSF(t), samples()
	for _, name := range names(all) {
		line, err := OCSF.AppendTo(nil, all[name], producer)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range schema.checkRecord(line) {
			t.Errorf("%s: %s", name, w)
		}
		if t.Failed() {
			t.Fatalf("%s", line)
		}
	}
}

// TestOCSFCheckRefuses holds the check above to its word.
func TestOCSFCheckRefuses(t *testing.T) {
	schema := loadOCSF(t)
	for name, r := range map[string]*Record{"finding": OfFinding(finding("spray", "open"), Opened), "decision": OfEvent(attempt("captcha"))} {
		line, err := OCSF.AppendTo(nil, r, producer)
		if err != nil {
			t.Fatal(err)
		}
		for change, to := range map[string]string{
			`"severity_id":`: `"severity_uid":`, `"metadata":{"version":"1.8.0",`: `"metadata":{"version":"1.7.0",`, `"type_uid":`: `"type_uid":1`,
			`"category_uid":`: `"category_uid":1`, `"activity_id":`: `"activity_id":5`, `"status_id":`: `"status_id":5`, `"severity":"`: `"severity":"x`,
			`"time":`: `"time":"x","was":`, `"value":"`: `"value":"x`, `"message":"`: `"mesage":"`, `"type_id":2,`: `"type_id":1000,`, `"ip":"`: `"ip":"x`,
			`"uid":"`: `"uid2":"`,
		} {
			broken := strings.Replace(string(line), change, to, 1)
			if broken == string(line) {
				t.Errorf("%s has no %s", name, change)
			} else if len(schema.checkRecord([]byte(broken))) == 0 {
				t.Errorf("%s with %s for %s is accepted", name, to, change)
			}
		}
	}
	line, _ := OCSF.AppendTo(nil, OfEvent(attempt("captcha")), producer)
	for _, gone := range []string{`,"profiles":["security_control"]`, `,"service":{"name":"default"}`} {
		if broken := strings.Replace(string(line), gone, "", 1); broken == string(line) || len(schema.checkRecord([]byte(broken))) == 0 {
			t.Errorf("a decision without %s is accepted", gone)
		}
	}
}

// What an analyst filters by must not depend on who reads the table.
func TestOCSFSaysWhatHappened(t *testing.T) {
	shadow := attempt("allow")
	shadow.Shadow, shadow.Would = true, "verify"
	for _, tt := range []struct {
		r    *Record
		want string
	}{
		{OfFinding(finding("spray", "open"), Opened), `"type_uid":200401|"status_id":1|"is_alert":true|"T1110.003"`},
		{OfFinding(finding("spray", "open"), Updated), `"type_uid":200402|"status_id":2|"is_alert":false`},
		{OfFinding(finding("spray", "closed"), Closed), `"type_uid":200403|"status_id":4|"is_alert":false`},
		{OfFinding(finding("success_after_failures", "once"), Once), `"type_uid":200401|"is_alert":true|"severity":"High"|"T1078"`},
		{OfEvent(attempt("allow")), `"type_uid":300206|"action_id":1|"disposition_id":1|"status_id":0`},
		{OfEvent(attempt("delay")), `"action_id":2|"disposition_id":14|"status_id":2|"GUARDD_DELAY"`},
		{OfEvent(attempt("captcha")), `"action_id":2|"disposition_id":22|"status_id":2`},
		{OfEvent(attempt("verify")), `"action_id":2|"disposition_id":23`},
		{OfEvent(attempt("deny")), `"action_id":2|"disposition_id":2|"severity":"Medium"`},
		{OfEvent(shadow), `"action_id":1|"disposition_id":16|"status_id":0`},
		{OfEvent(outcome("success")), `"type_uid":300201|"status_id":1`},
		{OfEvent(outcome("failure")), `"status_id":2|"INVALID_CREDENTIALS"`},
		{OfEvent(outcome("unknown_account")), `"status_id":2|"USER_DOES_NOT_EXIST"`},
		{OfEvent(outcome("second_factor_pending")), `"status_id":0`},
	} {
		line, err := OCSF.AppendTo(nil, tt.r, producer)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(tt.want, "|") {
			if !strings.Contains(string(line), part) {
				t.Errorf("%s %s: no %s in\n%s", tt.r.signature(), tt.r.Change, part, line)
			}
		}
	}
}
