package limits_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys/plans"
)

// fields reads the structured fields of an answer with a parser of somebody
// else's (RFC 9651).
func fields(t *testing.T, h http.Header, name string) (items []httpsfv.Item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		t.Fatalf("%s: %q: %v", name, h.Values(name), err)
	}
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if _, text := item.Value.(string); !ok || !text {
			t.Fatalf("%s: %v is no string", name, m)
		}
		items = append(items, item)
	}
	return items
}

func number(t *testing.T, i httpsfv.Item, name string) int64 {
	t.Helper()
	v, ok := i.Params.Get(name)
	n, whole := v.(int64)
	if !ok || !whole {
		t.Fatalf("%v has no whole %s", i, name)
	}
	return n
}

func TestHeadersSayWhatWasDecided(t *testing.T) {
	w := newWorld(t, &plans.Definition{Rules: []plans.Rule{
		{Name: "burst", Capacity: 3, Refill: "1/400ms"},
		{Name: "hourly", Capacity: 100, Refill: "100/1h"},
	}})
	for _, c := range []struct {
		cost                            int64
		wait                            time.Duration
		policy, state                   string
		limit, remaining, reset, retry_ string
	}{
		{0, 0, `"burst";q=3;w=2, "hourly";q=100;w=3600`, `"burst";r=3, "hourly";r=100`, "3", "3", "0", ""},
		{1, 0, `"burst";q=3;w=2, "hourly";q=100;w=3600`, `"burst";r=2;t=1, "hourly";r=99;t=36`, "3", "2", "1", ""},
		{2, 0, `"burst";q=3;w=2, "hourly";q=100;w=3600`, `"burst";r=0;t=1, "hourly";r=97;t=36`, "3", "0", "2", ""},
		{1, 0, `"burst";q=3;w=2, "hourly";q=100;w=3600`, `"burst";r=0;t=1, "hourly";r=97;t=36`, "3", "0", "2", "1"},
		{3, 0, `"burst";q=3;w=2, "hourly";q=100;w=3600`, `"burst";r=0;t=2, "hourly";r=97;t=36`, "3", "0", "2", "2"},
		{3, 1200 * time.Millisecond, `"burst";q=3;w=2, "hourly";q=100;w=3600`, `"burst";r=0;t=1, "hourly";r=94;t=35`, "3", "0", "2", ""},
	} {
		w.now += c.wait.Microseconds()
		d := w.take(plans.Request{Key: "k", Rules: []string{"hourly", "burst"}, Cost: c.cost})
		h := http.Header{}
		limits.Set(h, d)
		for name, want := range map[string]string{limits.Policy: c.policy, limits.RateLimit: c.state, limits.XLimit: c.limit,
			limits.XRemaining: c.remaining, limits.XReset: c.reset, limits.RetryAfter: c.retry_} {
			if got := h.Get(name); got != want {
				t.Errorf("cost %d: %s: %s, want %s", c.cost, name, got, want)
			}
		}
		fields(t, h, limits.Policy)
		for _, i := range fields(t, h, limits.RateLimit) {
			number(t, i, "r")
		}
	}
}

// The law that holds whatever the limits: fields, Retry-After and figures agree,
// a refusal has less left than was asked, and waiting Retry-After is enough.
func TestHeadersAgreeWithEachOther(t *testing.T) {
	for i, r := range []plans.Rule{
		{Name: "a", Capacity: 10, Refill: "10/1h"}, {Name: "b", Capacity: 1, Refill: "1/1ms"}, {Name: "c", Capacity: 5000, Refill: "77/13s"},
		{Name: "d", Capacity: 9_000_000_000_000_000, Refill: "1000000000/1us"}, {Name: "e", Capacity: 1, Refill: "1/8760h"},
	} {
		w := newWorld(t, &plans.Definition{Rules: []plans.Rule{r}})
		cost := max(r.Capacity/3, 1)
		for range 8 {
			d := w.take(plans.Request{Key: fmt.Sprint(i), Rules: []string{r.Name}, Cost: cost})
			h := http.Header{}
			limits.Set(h, d)
			p, s := fields(t, h, limits.Policy)[0], fields(t, h, limits.RateLimit)[0]
			if q := number(t, p, "q"); q != min(r.Capacity, 999_999_999_999_999) || number(t, p, "w") < 1 {
				t.Errorf("%s: policy %v", r.Name, p)
			}
			left := number(t, s, "r")
			if x := h.Get(limits.XRemaining); left < 999_999_999_999_999 && x != strconv.FormatInt(left, 10) {
				t.Errorf("%s: r=%d, %s %s", r.Name, left, limits.XRemaining, x)
			}
			retry, err := strconv.ParseInt(h.Get(limits.RetryAfter), 10, 64)
			if d.Allowed {
				if err == nil {
					t.Errorf("%s: allowed, retry after %d", r.Name, retry)
				}
				continue
			}
			if err != nil || retry < 1 || retry != number(t, s, "t") || left >= cost {
				t.Errorf("%s: refused, r=%d of %d, retry after %q, %v", r.Name, left, cost, h.Get(limits.RetryAfter), s)
			}
			w.now += retry * time.Second.Microseconds()
			if !w.take(plans.Request{Key: fmt.Sprint(i), Rules: []string{r.Name}, Cost: cost}).Allowed {
				t.Errorf("%s: refused after Retry-After %d", r.Name, retry)
			}
		}
	}
}
