package api

import (
	"reflect"
	"strings"
	"testing"

	"github.com/guardd/guardd/escalation"
)

func TestEveryLanguageHasEveryWord(t *testing.T) {
	if len(languages) != len(inLanguage) || !reflect.DeepEqual(languages, escalation.Languages) {
		t.Fatalf("languages of the page %q, of its words %d, of the sound %q", languages, len(inLanguage), escalation.Languages)
	}
	english := reflect.ValueOf(*inLanguage["en"])
	for _, lang := range languages {
		v := reflect.ValueOf(*inLanguage[lang])
		for i := range v.NumField() {
			text, model, name := v.Field(i).String(), english.Field(i).String(), v.Type().Field(i).Name
			if text == "" || strings.Count(text, "%s") != strings.Count(model, "%s") {
				t.Errorf("%s.%s: %q, in English %q", lang, name, text, model)
			}
			if lang != "en" && text == model {
				t.Errorf("%s.%s is not translated: %q", lang, name, text)
			}
		}
	}
}
