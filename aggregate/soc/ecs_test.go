package soc

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// ecsField is one of testdata/ecs-9.4.0.json, which is what the npm package
// @elastic/ecs 9.4.0 has of some field sets.
type ecsField struct {
	Type, Level string
	Normalize   []string
	Required    bool
	Allowed     map[string][]string // with the event types that go with a category
}

func loadECS(t testing.TB) (fields map[string]ecsField) {
	t.Helper()
	b, err := os.ReadFile("testdata/ecs-9.4.0.json")
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// flat are the fields of a document by their dotted names; what is under a field of
// type object is its own.
func flat(fields map[string]ecsField, at string, v any, into map[string]any) {
	o, ok := v.(map[string]any)
	if !ok || fields[at].Type == "object" {
		into[at] = v
		return
	}
	for k, v := range o {
		flat(fields, strings.TrimPrefix(at+"."+k, "."), v, into)
	}
}

func checkECS(fields map[string]ecsField, line []byte) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var doc map[string]any
	if err := json.Unmarshal(line, &doc); err != nil {
		return []string{err.Error()}
	}
	delete(doc, "guardd") // a namespace of its own
	given := map[string]any{}
	flat(fields, "", doc, given)
	for _, name := range []string{"@timestamp", "ecs.version", "event.kind", "event.category", "event.type", "event.action", "event.id", "event.dataset"} {
		if given[name] == nil {
			bad("%s is missing", name)
		}
	}
	for name, f := range fields {
		if f.Required && given[name] == nil {
			bad("%s is required", name)
		}
	}
	for name, v := range given {
		f, ok := fields[name]
		if !ok {
			bad("%s is no field", name)
			continue
		}
		list, isList := v.([]any)
		if isList != slices.Contains(f.Normalize, "array") {
			bad("%s is an array, or should be", name)
		}
		if !isList {
			list = []any{v}
		}
		for _, v := range list {
			wrong = append(wrong, checkECSValue(name, f, v)...)
		}
	}
	if given["ecs.version"] != "9.4.0" {
		bad("ecs.version is %v", given["ecs.version"])
	}
	types, _ := given["event.type"].([]any)
	categories, _ := given["event.category"].([]any)
	for _, typ := range types {
		if !slices.ContainsFunc(categories, func(c any) bool {
			return slices.Contains(fields["event.category"].Allowed[fmt.Sprint(c)], fmt.Sprint(typ))
		}) {
			bad("event.type %v goes with none of %v", typ, categories)
		}
	}
	return wrong
}

func checkECSValue(name string, f ecsField, v any) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, name+" "+fmt.Sprintf(format, args...)) }
	text, isText := v.(string)
	switch f.Type {
	case "keyword", "match_only_text", "constant_keyword", "wildcard":
		if !isText {
			bad("is no text")
		}
	case "date":
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			bad("%v", err)
		}
	case "ip":
		if _, err := netip.ParseAddr(text); err != nil {
			bad("%v", err)
		}
	case "long", "float":
		if _, ok := v.(float64); !ok {
			bad("is no number")
		}
	case "object": // keywords under names of one's own
		for k, v := range v.(map[string]any) {
			if _, ok := v.(string); !ok || strings.Contains(k, ".") {
				bad("has %s, which is no keyword", k)
			}
		}
	default:
		bad("has a type that the test cannot judge: %s", f.Type)
	}
	if _, ok := f.Allowed[text]; f.Allowed != nil && !ok {
		bad("is %q, which is none of its values", text)
	}
	return wrong
}

func TestEveryRecordConformsToECS(t *testing.T) {
	fields, all := loadECS(t), samples()
	for _, name := range names(all) {
		line, err := ECS.AppendTo(nil, all[name], producer)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range checkECS(fields, line) {
			t.Errorf("%s: %s", name, w)
		}
		if t.Failed() {
			t.Fatalf("%s", line)
		}
	}
}

// TestECSCheckRefuses holds the check above to its word.
func TestECSCheckRefuses(t *testing.T) {
	fields := loadECS(t)
	line, err := ECS.AppendTo(nil, OfEvent(attempt("captcha")), producer)
	if err != nil {
		t.Fatal(err)
	}
	for change, to := range map[string]string{
		`"@timestamp":"`: `"@timestamp":"x`, `"kind":"event"`: `"kind":"login"`, `"category":["authentication",`: `"category":["sign-in",`,
		`"type":["start","denied"]`: `"type":["start","creation"]`, `"outcome":"failure"`: `"outcome":"refused"`, `"ip":["`: `"ip":["x`, `"hash":["`: `"hsh":["`,
		`"version":"9.4.0"`: `"version":"8.0"`, `"severity":`: `"severity":"x","x":`, `"category":["authentication","intrusion_detection"]`: `"category":"authentication"`,
	} {
		broken := strings.Replace(string(line), change, to, 1)
		if broken == string(line) {
			t.Errorf("there is no %s in\n%s", change, line)
		} else if len(checkECS(fields, []byte(broken))) == 0 {
			t.Errorf("%s for %s is accepted", to, change)
		}
	}
}
