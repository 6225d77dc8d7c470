package trace

import (
	"strings"
	"testing"
)

const (
	parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	zeroes = "0000000000000000"
)

// The cases are those of W3C's own test suite, and of the recommendation's text.
func TestParentsAreReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		parent: parent,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff":         parent, // flags that nobody knows are not sent on
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02":         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":         parent, // a later version
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-is": parent,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what-is": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-is": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-":        "",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":         "",
		"00-" + zeroes + zeroes + "-00f067aa0ba902b7-01":                  "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-" + zeroes + "-01":           "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":         "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01":         "",
		"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01":          "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1":          "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01":         "",
		"0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":         "",
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01":         "",
		" " + parent: "",
		"":           "",
	} {
		c, ok := Parse([]string{text}, []string{"vendor=1"})
		if ok != (want != "") || c.Traceparent() != want {
			t.Errorf("%q is read as %q, not %q", text, c.Traceparent(), want)
		}
		if !ok && (c != Context{}) {
			t.Errorf("%q: %+v is left of it", text, c)
		}
	}
	for _, many := range [][]string{nil, {}, {parent, parent}} {
		if _, ok := Parse(many, nil); ok {
			t.Errorf("%d of them are taken for one", len(many))
		}
	}
}

func TestStateIsSentOnUnchangedOrNotAtAll(t *testing.T) {
	long := strings.Repeat("k", 200) + "=" + strings.Repeat("v", 200)
	for want, headers := range map[string][]string{
		"congo=t61rcWkgMzE":       {"congo=t61rcWkgMzE"},
		"rojo=00f067aa,congo=t61": {"rojo=00f067aa", "congo=t61"},
		"a=1 , ,b@c=2":            {"a=1 , ,b@c=2"},
		long:                      {long},
	} {
		if c, _ := Parse([]string{parent}, headers); c.State != want {
			t.Errorf("%q became %q", headers, c.State)
		}
	}
	for _, headers := range [][]string{nil, {""}, {" , "}, {"a"}, {"=1"}, {"a="}, {"A=1"}, {"a=b=c"}, {"a@=1"}, {"@a=1"}, {"a=\x01"}, {"a=ü"}, {"a=1\r\nX-Evil: 1"},
		{long, long}, {strings.TrimSuffix(strings.Repeat("a=1,", 33), ",")}, {"a=" + strings.Repeat("v", 257)}} {
		c, ok := Parse([]string{parent}, headers)
		if !ok || c.State != "" {
			t.Errorf("of %.40q is left %q, %t", headers, c.State, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(parent, "a=1,b=2")
	f.Add("cc"+parent[2:]+"-x", "")
	f.Fuzz(func(t *testing.T, header, state string) {
		c, ok := Parse([]string{header}, []string{state})
		if !ok {
			if (c != Context{}) {
				t.Fatalf("%+v", c)
			}
			return
		}
		again, ok := Parse([]string{c.Traceparent()}, []string{c.State})
		if !ok || again != c {
			t.Errorf("%q %q is sent on as %q, which is read as %+v", header, state, c.Traceparent(), again)
		}
		for _, b := range []byte(c.State) {
			if b < 0x20 && b != '\t' || b > 0x7e {
				t.Errorf("%q is sent on", c.State)
			}
		}
	})
}
