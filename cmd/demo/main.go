// Command demo is a small shop whose login stands behind guardd, all in one
// process: type wrong passwords and meet what guardd asks for, be attacked
// meanwhile, and get in all the same. The shop asks guardd over HTTP with
// api/client and sends visitors to its hosted page, as any other shop would.
//
// Read shop.go first: it is the part that a shop has to write.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program. It listens on loopback only: the shop's passwords
// are on its page, and its attacker obeys whoever presses the button.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(errOut)
	shopPort := fs.Int("port", 8090, "port of the shop, on 127.0.0.1")
	guardPort := fs.Int("guardd-port", 8091, "port of guardd, on 127.0.0.1")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil || fs.NArg() > 0 {
		fmt.Fprintln(errOut, "usage: demo [-port 8090] [-guardd-port 8091]")
		return 2
	}
	d, err := start(*shopPort, *guardPort)
	if err != nil {
		fmt.Fprintln(errOut, "demo:", err)
		return 1
	}
	defer d.close()
	fmt.Fprintf(out, "The shop is at %s (guardd at %s). Ctrl-C ends it.\n", d.shop.url, d.guard.url)
	select {
	case <-ctx.Done():
		return 0
	case err := <-d.failed:
		fmt.Fprintln(errOut, "demo:", err)
		return 1
	}
}

// demo is a running shop and its guardd.
type demo struct {
	shop   *shop
	guard  *guardd
	failed chan error
	server *http.Server
}

// start begins to serve both; port 0 is any free one.
func start(shopPort, guardPort int) (*demo, error) {
	at, err := listen("port", shopPort)
	if err != nil {
		return nil, err
	}
	d := &demo{failed: make(chan error, 2)}
	inbox := newInbox()
	if d.guard, err = startGuardd(guardPort, "http://"+at.Addr().String(), inbox, d.failed); err != nil {
		return nil, errors.Join(err, at.Close())
	}
	if d.shop, err = newShop("http://"+at.Addr().String(), d.guard.url, inbox, d.guard.readers); err != nil {
		return nil, errors.Join(err, at.Close(), d.guard.close())
	}
	d.server = &http.Server{Handler: d.shop.handler(), ReadHeaderTimeout: 10 * time.Second}
	go serve(d.server, at, d.failed)
	return d, nil
}

func (d *demo) close() error {
	d.shop.attack.stop()
	err := d.server.Close()
	d.shop.client.Close()
	return errors.Join(err, d.guard.close())
}

// listen takes the port that a flag gives, and names the flag where another
// process has it.
func listen(flag string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use: end what listens there, or give another with -%s", port, flag)
	}
	return l, err
}

func serve(s *http.Server, l net.Listener, failed chan<- error) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		failed <- err
	}
}
