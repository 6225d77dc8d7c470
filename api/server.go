package api

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns a server that a slow or greedy peer cannot hold on to:
// every stage of a connection has its bound. Bodies are small and answers are
// made in milliseconds, so the bounds are generous to networks, not to work.
// The caller serves it and ends it with Shutdown, which lets requests in
// flight finish. log may be nil.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second, // slowloris
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second, // counts from the header on, so above ReadTimeout + carryOut
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
