package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Fake speaks the protocol and says what a test wants said: errors and lies
// that no real server can be brought to.
type Fake struct{ listener net.Listener }

// StartFake answers each command with what say returns, as it goes over the
// wire ("-LOADING\r\n"; "" hangs up), until the test ends. Calls may be
// concurrent.
func StartFake(t testing.TB, say func(command []string) string) *Fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					command, err := readCommand(r)
					if err != nil {
						return
					}
					said := say(command)
					if _, err := io.WriteString(c, said); err != nil || said == "" {
						return
					}
				}
			})
		}
	})
	return &Fake{l}
}

// Addr is host:port.
func (f *Fake) Addr() string { return f.listener.Addr().String() }

// URL is the address in the form of guardd's --redis flag.
func (f *Fake) URL() string { return "redis://" + f.Addr() }

// Port is the port alone.
func (f *Fake) Port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// Bulk is a string as it goes over the wire.
func Bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func readCommand(r *bufio.Reader) (words []string, err error) {
	var n int
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "*%d", &n); err != nil {
		return nil, err
	}
	for range n {
		var size int
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "$%d", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}
