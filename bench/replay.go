package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// replayer sends recorded commands over a number of connections at once.
type replayer struct {
	conns []net.Conn
	ins   []*bufio.Reader
}

func newReplayer(addr string, n int) (*replayer, error) {
	r := &replayer{}
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			r.close()
			return nil, err
		}
		r.conns = append(r.conns, c)
		r.ins = append(r.ins, bufio.NewReaderSize(c, 64<<10))
	}
	return r, nil
}

func (r *replayer) close() {
	for _, c := range r.conns {
		c.Close()
	}
}

// play sends units (of one command or of several that belong together), so many
// a round trip, and checks every reply. Each connection plays its share in
// order.
func (r *replayer) play(units [][]command, together int) error {
	errs := make([]error, len(r.conns))
	var wg sync.WaitGroup
	for i := range r.conns {
		from, to := i*len(units)/len(r.conns), (i+1)*len(units)/len(r.conns)
		wg.Go(func() { errs[i] = r.share(i, units[from:to], together) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *replayer) share(i int, units [][]command, together int) error {
	var out []byte
	for len(units) > 0 {
		batch := units[:min(together, len(units))]
		units = units[len(batch):]
		out = out[:0]
		for _, u := range batch {
			for _, c := range u {
				out = append(out, c.wire...)
			}
		}
		if _, err := r.conns[i].Write(out); err != nil {
			return err
		}
		for _, u := range batch {
			for _, c := range u {
				reply, err := readReply(r.ins[i])
				if err != nil {
					return err
				}
				if !c.ok(reply) {
					return fmt.Errorf("a reply that should not be: %.200q", reply)
				}
			}
		}
	}
	return nil
}

// readReply reads one reply, whole: a bulk string's bytes, an array as it came.
func readReply(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], bytes.TrimSuffix(line[1:], []byte("\r\n"))
	switch kind {
	case '$':
		n, err := strconv.Atoi(string(rest))
		if err != nil || n < 0 {
			return nil, err
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(in, b)
		return b[:n], err
	case '*':
		n, err := strconv.Atoi(string(rest))
		if err != nil {
			return nil, err
		}
		all := line
		for range n {
			b, err := readReply(in)
			if err != nil {
				return nil, err
			}
			all = append(append(all, b...), '\n')
		}
		return all, nil
	}
	return line, nil // + - :
}
