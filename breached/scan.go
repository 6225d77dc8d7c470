package breached

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
)

// A build is three goroutines: one reads (and unpacks) text, one parses it to
// rows, and the caller's writes them. What they hand on is reused, so memory
// stays the same however long the corpus is.

const (
	chunkSize = 1 << 20 // bytes of text
	batchSize = 4096    // rows
	inFlight  = 4       // of either
)

// chunk is text of one file. The bytes before head are room for the beginning
// of its first line, which the chunk before ended with.
type chunk struct {
	file string
	rng  int64
	text []byte
	new  bool  // begins a file
	end  bool  // ends it
	err  error // instead of text: the file could not be read on
}

const headroom = maxLine

// scan parses a corpus and hands its rows to each, in batches that are used
// again.
func (p *parser) scan(ctx context.Context, c *Corpus, each func([]row, int64) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	chunks, freeChunks := make(chan chunk, inFlight), make(chan []byte, inFlight)
	batches, freeBatches := make(chan batch, inFlight), make(chan []row, inFlight)
	for range inFlight {
		freeChunks <- make([]byte, headroom+cmp.Or(p.chunk, chunkSize))
		freeBatches <- nil // grows to batchSize
	}
	go func() {
		defer close(chunks)
		if err := readChunks(ctx, c, freeChunks, chunks); err != nil {
			stop(err)
		}
	}()
	go func() {
		defer close(batches)
		if err := p.parseChunks(ctx, chunks, freeChunks, freeBatches, batches); err != nil {
			stop(err)
		}
	}()
	for b := range batches {
		if err := each(b.rows, b.bytes); err != nil {
			return err
		}
		freeBatches <- b.rows[:0]
	}
	// Both goroutines have ended, or are waiting for input and told to stop.
	return context.Cause(ctx)
}

// batch is some rows, and how many bytes of text they were.
type batch struct {
	rows  []row
	bytes int64
}

func readChunks(ctx context.Context, c *Corpus, free <-chan []byte, out chan<- chunk) error {
	return c.read(ctx, func(name string, rng int64, r io.Reader) error {
		for first := true; ; first = false {
			buf, ok := receive(ctx, free)
			if !ok {
				return context.Cause(ctx)
			}
			n, err := io.ReadFull(r, buf[headroom:])
			end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if end {
				err = nil
			}
			if !send(ctx, out, chunk{name, rng, buf[:headroom+n], first, end, err}) {
				return context.Cause(ctx)
			}
			if end || err != nil {
				return nil // the parser says where
			}
		}
	})
}

func (p *parser) parseChunks(ctx context.Context, in <-chan chunk, freeIn chan<- []byte, free <-chan []row, out chan<- batch) error {
	var carried []byte // the beginning of a line, of the chunk before
	for {
		c, ok := receive(ctx, in)
		if !ok {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return p.finish()
		}
		if c.new {
			p.begin(c.file, c.rng)
			carried = carried[:0]
		}
		text := c.text[headroom-len(carried):]
		copy(text, carried)
		whole := bytes.LastIndexByte(text, '\n') + 1
		rest := text[whole:]
		if err := p.parseBatches(ctx, text[:whole], free, out); err != nil {
			return err
		}
		if len(rest) >= maxLine {
			p.line++
			return p.errorf("%s", p.diagnose(rest))
		}
		carried = append(carried[:0], rest...)
		freeIn <- c.text[:cap(c.text)]
		if c.err != nil {
			p.line++
			return p.errorf("%v", c.err)
		}
		if c.end && len(carried) > 0 { // as range files end
			p.openEnd = true
			if err := p.parseBatches(ctx, append(carried, '\n'), free, out); err != nil {
				return err
			}
		}
		if c.end {
			if err := p.end(); err != nil {
				return err
			}
		}
	}
}

// batchText is so little text that its rows fit a batch: none is shorter than
// that of an NTLM range.
const batchText = batchSize * len("0123456789ABCDEF0123456789A:1\n")

// parseBatches parses whole lines, a batch at a time.
func (p *parser) parseBatches(ctx context.Context, text []byte, free <-chan []row, out chan<- batch) error {
	for len(text) > 0 {
		some := text
		if len(some) > batchText {
			some = some[:batchText]
			if i := bytes.LastIndexByte(some, '\n'); i >= 0 {
				some = some[:i+1]
			} // else no line is that long, and parse will say so
		}
		rows, ok := receive(ctx, free)
		if !ok {
			return context.Cause(ctx)
		}
		if bytes.IndexByte(some, '\n') < 0 {
			p.line++
			return p.errorf("%s", p.diagnose(some))
		}
		rows, err := p.parse(some, rows)
		if err != nil {
			return err
		}
		if !send(ctx, out, batch{rows, int64(len(some))}) {
			return context.Cause(ctx)
		}
		text = text[len(some):]
	}
	return nil
}

func receive[T any](ctx context.Context, c <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-c:
		return v, ok
	case <-ctx.Done():
		return v, false
	}
}

func send[T any](ctx context.Context, c chan<- T, v T) bool {
	select {
	case c <- v:
		return true
	case <-ctx.Done():
		return false
	}
}
