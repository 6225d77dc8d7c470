package redistest

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestServerLivesAndDies(t *testing.T) {
	s := Start(t)
	ctx, c := context.Background(), s.Client()
	if err := c.Set(ctx, "a", "1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}

	s.Pause()
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- c.WithTimeout(20*time.Millisecond).Get(short, "a").Err() }()
	if err := <-got; err == nil {
		t.Error("a paused server answered")
	}
	s.Resume()
	if v, err := c.Get(ctx, "a").Result(); err != nil || v != "1" {
		t.Errorf("after Resume: %q, %v", v, err)
	}

	s.Restart()
	if n, err := c.DBSize(ctx).Result(); err != nil || n != 0 {
		t.Errorf("after Restart: %d keys, %v; want an empty server", n, err)
	}

	pid := s.PID()
	s.Stop()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a stopped server answered")
	}
	if p, err := os.FindProcess(pid); err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		t.Error("the process is still there")
	}
}
