package limits_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/shed"
)

func protect(taker *plans.Taker, limiter *shed.Limiter, backend http.Handler) http.Handler {
	return limits.Middleware(limits.Options{Taker: taker})(limits.Shed(limits.ShedOptions{
		Limiter: limiter, // shed.New(shed.Config{})
		Priority: func(r *http.Request) shed.Priority {
			if r.URL.Path == "/checkout" {
				return shed.Critical
			}
			return shed.Normal
		},
	})(backend))
}

func ExampleShed() {
	now := func() int64 { return 1_800_000_000 * keys.Second }
	taker := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{Now: now}), Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash, Now: now})
	book, _ := plans.Compile(slotted, "1", nil)
	taker.Swap(book)
	limiter, _ := shed.New(shed.Config{Least: 5, Most: 5, First: 5})
	for range 4 { // as many as others than critical ones may be
		limiter.Begin(shed.Normal)
	}
	api := protect(taker, limiter, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, path := range []string{"/search", "/checkout"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer secret")
		a := httptest.NewRecorder()
		api.ServeHTTP(a, r)
		fmt.Println(path, a.Code, a.Header().Get("Retry-After"))
	}
	// Output:
	// /search 503 1
	// /checkout 200
}
