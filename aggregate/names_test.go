package aggregate

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestFindingsHaveTheSealedNamesThatAreKnown(t *testing.T) {
	var n sealedNames
	f := Finding{V: 1, ID: "x", Realm: "shop", What: "spray", State: FindingOpen, Samples: []string{"a", "b"}}
	bare, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	n.keep(&Event{Account: "a"})
	if got := n.fill(bare); string(got) != string(bare) || n.now != nil {
		t.Errorf("a realm that has no names told: %s", got)
	}
	n.keep(&Event{Account: "a", Name: "sealed a"})
	n.keep(&Event{Account: "c", Name: "sealed c"})
	var got Finding
	if err := json.Unmarshal(n.fill(bare), &got); err != nil || len(got.Names) != 1 || got.Names["a"] != "sealed a" || got.ID != "x" || len(got.Samples) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range 3 * namesKept {
		n.keep(&Event{Account: fmt.Sprint(i), Name: "s"})
		if len(n.now)+len(n.before) > 2*namesKept {
			t.Fatalf("%d names are kept", len(n.now)+len(n.before))
		}
	}
	if got := n.fill(bare); string(got) != string(bare) {
		t.Errorf("what was seen long ago is still known: %s", got)
	}
}
