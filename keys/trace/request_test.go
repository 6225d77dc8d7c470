package trace

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"
)

func caller(t *testing.T, flags string) Context {
	t.Helper()
	c, ok := Parse([]string{parent[:53] + flags}, []string{"vendor=1"})
	if !ok {
		t.Fatal("no context")
	}
	return c
}

// kept returns a tracer and what it exports.
func kept(sample float64) (*Tracer, *[]Done) {
	var all []Done
	return &Tracer{Sample: sample, Export: func(d Done) { all = append(all, d) }}, &all
}

func TestStopsLieWithinEachOther(t *testing.T) {
	tracer, all := kept(0)
	r := tracer.Join(caller(t, "01"), time.Now())
	ctx := With(t.Context(), r)
	Begin(ctx, Decode).End()
	guard := Begin(ctx, Guard)
	store := Begin(ctx, Store)
	late := Begin(ctx, Redis) // given up on
	store.End()
	ladder := Begin(ctx, Ladder)
	late.End()
	Begin(ctx, Seal).End()
	ladder.End()
	guard.End()
	answer := Begin(ctx, Answer)
	r.Set(Attribute{"guardd.realm", "default"})
	r.End("POST /v1/attempts", true, Attribute{"http.response.status_code", int64(503)})
	answer.End()
	Begin(ctx, Guard).End()
	r.Set(Attribute{"too", "late"})
	r.End("again", false)
	if len(*all) != 1 {
		t.Fatalf("exported %d times", len(*all))
	}
	d := (*all)[0]
	within := map[string]string{Decode: "", Guard: "", Store: Guard, Redis: Store, Ladder: Guard, Seal: Ladder, Answer: ""}
	if len(d.Stops) != len(within) {
		t.Errorf("stops %+v", d.Stops)
	}
	for _, s := range d.Stops {
		around := ""
		if s.Within >= 0 {
			around = d.Stops[s.Within].Name
		}
		if around != within[s.Name] {
			t.Errorf("%s is within %q, not %q", s.Name, around, within[s.Name])
		}
		if s.Begun.Before(d.Begun) || s.End.Before(s.Begun) || s.End.After(d.End) {
			t.Errorf("%s: from %s to %s, of %s to %s", s.Name, s.Begun, s.End, d.Begun, d.End)
		}
	}
	if d.Name != "POST /v1/attempts" || !d.Failed || len(d.Attributes) != 2 || d.Parent != caller(t, "01").Span || d.Trace != caller(t, "01").Trace ||
		d.Span == d.Parent || d.State != "vendor=1" || !d.Sampled {
		t.Errorf("%+v", d)
	}
}

// TestWhoIsTraced: a caller decides for his requests, the share for all others.
func TestWhoIsTraced(t *testing.T) {
	tracer, all := kept(0)
	for name, r := range map[string]*Request{
		"not sampled":    tracer.Join(caller(t, "00"), time.Now()),
		"nobody exports": (*Tracer)(nil).Join(caller(t, "01"), time.Now()),
	} {
		c := caller(t, map[string]string{"not sampled": "00", "nobody exports": "01"}[name])
		if r.Sent() != c || r.Name() != c.ID {
			t.Errorf("%s: %+v is sent on, not the caller's own", name, r.Sent())
		}
		r.Begin(Guard).End()
		r.End("x", false)
	}
	if r := tracer.Begin(time.Now()); r != nil || (*Tracer)(nil).Begin(time.Now()) != nil {
		t.Error("one that nobody asked for")
	}
	if len(*all) != 0 {
		t.Errorf("exported %+v", *all)
	}
	const n = 20000
	tracer.Sample = .25
	seen := map[ID]bool{}
	for range n {
		if r := tracer.Begin(time.Now()); r != nil {
			if !r.Sampled || r.Parent != [8]byte{} || r.Span == [8]byte{} || seen[r.ID] {
				t.Fatalf("%+v", r.Context)
			}
			seen[r.ID] = true
		}
	}
	// Six standard deviations: once in some hundred million runs.
	if got, sd := float64(len(seen)), math.Sqrt(n*.25*.75); math.Abs(got-n*.25) > 6*sd {
		t.Errorf("%v of %d are traced, a quarter was asked for", got, n)
	}
	tracer.Sample = 1
	for range 100 {
		if tracer.Begin(time.Now()) == nil {
			t.Fatal("all were asked for")
		}
	}
	if (*Tracer)(nil).Ask(Context{}) != nil || tracer.Ask(Context{}) != nil {
		t.Error("a delivery that nobody's request led to is traced")
	}
	out := tracer.Ask(caller(t, "01"))
	out.End("deliver code", false)
	if d := (*all)[0]; !d.Outbound || d.Parent != caller(t, "01").Span {
		t.Errorf("%+v", d)
	}
}

// TestWhatIsOffCostsNothing: no tracing, no allocation.
func TestWhatIsOffCostsNothing(t *testing.T) {
	ctx := context.WithValue(t.Context(), struct{ other int }{}, 1)
	var off *Tracer
	if n := testing.AllocsPerRun(1000, func() {
		r := off.Begin(time.Time{})
		in := With(ctx, r)
		for _, stop := range Stops {
			Begin(in, stop).End()
		}
		if r.Recording() || r.Name() != (ID{}) || r.Sent() != (Context{}) || r.Name().TraceID() != "" {
			t.Fatal("there is something")
		}
		r.Set()
		r.End("x", false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestManyMayEndStopsAtOnce(t *testing.T) {
	tracer, all := kept(1)
	r := tracer.Begin(time.Now())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s := r.Begin(Redis)
				r.Set(Attribute{"k", true})
				s.End()
			}
		})
	}
	wg.Go(func() { r.End("x", false) })
	wg.Wait()
	d := (*all)[0]
	for _, s := range d.Stops {
		if s.End.IsZero() || s.Within >= len(d.Stops) {
			t.Errorf("%+v", s)
		}
	}
}

func BenchmarkOff(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		Begin(ctx, Guard).End()
	}
}
