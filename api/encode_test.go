package api

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/api/limits"
)

// What is written by hand is what json.Marshal writes, byte for byte: every field,
// every one left out, and text that needs escapes.
func TestTheAnswerToAnAttemptIsWrittenAsEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a client.AttemptResponse
		draw(t, reflect.ValueOf(&a).Elem())
		want, err := json.Marshal(&a)
		got, gotErr := appendJSON([]byte("before "), &a)
		if (err == nil) != (gotErr == nil) {
			t.Fatalf("%v, not %v", gotErr, err)
		}
		if err == nil && string(got) != "before "+string(want) {
			t.Fatalf("wrote\n%s\nnot\n%s", got, want)
		}
	})
}

// The headers, which json.Marshal has in any order, are in theirs.
func TestTheAnswerToATakeIsWrittenAsEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a takeAnswer
		draw(t, reflect.ValueOf(&a.TakeResponse).Elem())
		whole := a.TakeResponse
		whole.Headers = map[string]string{}
		for _, name := range []string{limits.RateLimit, limits.RetryAfter, limits.XReset} {
			if rapid.Bool().Draw(t, "there") {
				var h struct{ Value string }
				draw(t, reflect.ValueOf(&h).Elem())
				a.headers = append(a.headers, limits.Header{Name: name, Value: h.Value})
				whole.Headers[name] = h.Value
			}
		}
		want, err := json.Marshal(&whole, json.Deterministic(true))
		got, gotErr := appendJSON([]byte("before "), &a)
		if (err == nil) != (gotErr == nil) {
			t.Fatalf("%v, not %v", gotErr, err)
		}
		if err == nil && string(got) != "before "+string(want) {
			t.Fatalf("wrote\n%s\nnot\n%s", got, want)
		}
	})
}

// draw fills v, whatever fields it has: one added later is drawn, too.
func draw(t *rapid.T, v reflect.Value) {
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		if rapid.Bool().Draw(t, "there") {
			*at = time.UnixMicro(rapid.Int64Range(0, 253402300799999999).Draw(t, "time")).UTC()
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i))
			}
		}
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "account", "a\"b\\c\n\x00", "<script>&\u2028", "na\u00efve", "bad \xff"}).Draw(t, "text"))
	case reflect.Map: // made by who draws
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	default:
		t.Fatalf("a field of kind %s is not drawn", v.Kind())
	}
}
