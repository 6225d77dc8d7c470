package main

import (
	"flag"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8092", "`address`")
	flag.Parse()
	s := &service{model: parrot{every: 50 * time.Millisecond}, now: time.Now}
	var err error
	if s.taker, err = newTaker(keys.NewMemory(keys.MemoryConfig{}), nil); err != nil {
		log.Fatal(err)
	}
	log.Print("on http://", *listen, ": 2000 tokens a minute, two streams at once")
	log.Fatal(http.ListenAndServe(*listen, s.handler()))
}

// newTaker counts in a store: in redisstore's, where there are several of these.
func newTaker(store plans.Store, now func() int64) (*plans.Taker, error) {
	t := plans.NewTaker(plans.Config{Store: store, Sealer: inside{}, Slots: inside{}, Now: now,
		Hash: func(d plans.Digest) keys.Account { return keys.Account(d[:16]) }})
	book, faults := plans.Compile(definition, "example", nil)
	if len(faults) > 0 {
		return nil, faults
	}
	t.Swap(book)
	return t, nil
}

// inside is a sealer for what does not leave the process.
type inside struct{}

func (inside) Seal(b []byte) string { return string(b) }

func (inside) Open(s string) ([]byte, bool) { return []byte(s), true }

// parrot is a model that says its prompt again and again, a word at a time.
type parrot struct{ every time.Duration }

// Answer implements Model.
func (p parrot) Answer(prompt string, most int64, emit func(string) bool) {
	words := strings.Fields(prompt + " and so on")
	for i := range most {
		if !emit(words[i%int64(len(words))]) {
			return
		}
		time.Sleep(p.every)
	}
}
