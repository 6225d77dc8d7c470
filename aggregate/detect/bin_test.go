package detect

import (
	"reflect"
	"testing"
)

func TestBinCountsSights(t *testing.T) {
	var b Bin
	for _, s := range []Sight{
		{Class: Success, Unknown: true, UA: 3}, // structure is of cold failures only
		{Class: Warm, Breached: true},
		{Class: Repeat, NewAccount: true},
		{Class: Cold, Unknown: true, NewNetwork: true, UA: 2},
		{Class: Cold, Breached: true, NewAccount: true, UA: 2},
		{Class: Unsolved, NewNetwork: true, UA: 1},
	} {
		b.Observe(&s)
	}
	want := Bin{Count: [Classes]int{1, 1, 2, 1, 1}, Unknown: 1, NewNetwork: 2, NewAccount: 1, Breached: 1, UA: [Groups]int{1: 1, 2: 2}}
	if b != want {
		t.Errorf("counted %+v, want %+v", b, want)
	}
}

func TestBinFailed(t *testing.T) {
	b := Bin{Count: [Classes]int{Success: 9, Warm: 9, Cold: 4, Repeat: 9, Unsolved: 3}, Solved: 2}
	if got := b.Failed(); got != 5 {
		t.Errorf("failed %d, want 5: cold and unsolved less solved", got)
	}
	b.Solved = 20 // solved now, refused in bins before
	if got := b.Failed(); got != 0 {
		t.Errorf("failed %d, want 0: never below", got)
	}
}

// TestBinAddsEveryField sets each field in turn, so that none is forgotten
// when one is added.
func TestBinAddsEveryField(t *testing.T) {
	for i := range reflect.TypeFor[Bin]().NumField() {
		name := reflect.TypeFor[Bin]().Field(i).Name
		if name == "Start" {
			continue
		}
		var b, o Bin
		f, g := reflect.ValueOf(&b).Elem().Field(i), reflect.ValueOf(&o).Elem().Field(i)
		if f.Kind() == reflect.Array {
			f, g = f.Index(1), g.Index(1)
		}
		f.SetInt(2)
		g.SetInt(3)
		b.Add(&o)
		if f.Int() != 5 {
			t.Errorf("%s: 2 + 3 = %d", name, f.Int())
		}
	}
}

func TestBinStart(t *testing.T) {
	for at, want := range map[int64]int64{0: 0, 1: 0, Width - 1: 0, Width: Width, -1: -Width, 3*Width + 7: 3 * Width} {
		if got := BinStart(at); got != want {
			t.Errorf("BinStart(%d) = %d, want %d", at, got, want)
		}
	}
}
