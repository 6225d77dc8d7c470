package limits

import (
	"net/http"
	"strconv"
	"time"

	"github.com/guardd/guardd/keys/shed"
)

// ShedOptions are what Shed needs; all but Limiter have a default.
type ShedOptions struct {
	// Limiter is of one backend: whatever goes there passes it.
	Limiter *shed.Limiter
	// Priority of a request; nil: all are Normal.
	Priority func(*http.Request) shed.Priority
	// Class names requests that take alike, as routes do; nil: PatternRoute.
	Class func(*http.Request) string
	// Failed reports whether an answer says that the backend could not cope; nil:
	// 502, 503 and 504.
	Failed func(status int) bool
	// Now is the time in microseconds; nil: since the middleware was made, by the
	// machine's clock, which nobody sets.
	Now func() int64
}

// Shed turns requests away with 503 before the backend takes longer and longer for
// all of them. It belongs behind Middleware: then a caller who is turned away gets
// his tokens back, where their rule refunds 503.
func Shed(o ShedOptions) func(http.Handler) http.Handler {
	if o.Priority == nil {
		o.Priority = func(*http.Request) shed.Priority { return shed.Normal }
	}
	if o.Class == nil {
		o.Class = PatternRoute
	}
	if o.Failed == nil {
		o.Failed = func(status int) bool {
			return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
		}
	}
	if o.Now == nil {
		begun := time.Now()
		o.Now = func() int64 { return time.Since(begun).Microseconds() + 1 }
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.serve(w, r, next) })
	}
}

// shedRetry is when to come again, in seconds: by then the limiter has found out.
const shedRetry = 1

func (o *ShedOptions) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !o.Limiter.Begin(o.Priority(r)) {
		w.Header().Set(RetryAfter, strconv.Itoa(shedRetry))
		(&Problem{Type: TypeReducedCapacity, Title: "Reduced capacity", Status: http.StatusServiceUnavailable,
			Detail: "More requests are under way than can be answered in time. Repeat this one later."}).Write(w)
		return
	}
	begun := o.Now()
	answer := &recorder{ResponseWriter: w, status: http.StatusInternalServerError}
	result := shed.Void // of a handler that panics
	defer func() {
		now := o.Now()
		o.Limiter.End(now, now-begun, o.Class(r), result)
	}()
	next.ServeHTTP(answer, r)
	switch {
	case answer.wrote && o.Failed(answer.status):
		result = shed.Failed
	case r.Context().Err() == nil: // else who asked has hung up
		result = shed.Done
	}
}
