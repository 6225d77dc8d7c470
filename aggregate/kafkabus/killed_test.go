package kafkabus

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
	"github.com/guardd/guardd/keys/keystest/daemon"
)

// child is another process: this test binary, running TestChild.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// startChild has another process do what, with a bus on s; it prints lines.
func startChild(t *testing.T, what string, s *kafkatest.Server, prefix, dir string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^TestChild$")}
	c.Env = append(os.Environ(), "GUARDD_TEST_CHILD="+strings.Join([]string{what, s.Addr(), prefix, dir}, " "))
	c.SysProcAttr = daemon.DieWithParent()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	return c
}

// said reads n lines of the child that begin with prefix, and returns the last.
func (c *child) said(t *testing.T, n int, prefix string) (last string) {
	t.Helper()
	for n > 0 {
		if !c.lines.Scan() {
			t.Fatalf("the other process ended %d lines early", n)
		}
		if strings.HasPrefix(c.lines.Text(), prefix) {
			last = strings.TrimPrefix(c.lines.Text(), prefix)
			n--
		}
	}
	return last
}

// kill is SIGKILL. What the child said until then is read to its end.
func (c *child) kill(t *testing.T, prefix string) (last string) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.lines.Scan() {
		if rest, ok := strings.CutPrefix(c.lines.Text(), prefix); ok {
			last = rest
		}
	}
	_ = c.Wait() // it was killed
	return last
}

// TestChild is the process that is killed.
func TestChild(t *testing.T) {
	args := strings.Fields(os.Getenv("GUARDD_TEST_CHILD"))
	if len(args) < 3 {
		return // not asked for
	}
	b, err := Open(Config{Brokers: args[1:2], Prefix: args[2], times: newTimes()})
	if err != nil {
		t.Fatal(err)
	}
	switch args[0] {
	case "read":
		err = b.Consume(t.Context(), aggregate.TopicEvents, args[2]+"g", func(int) aggregate.Handler { return printer{} })
	case "publish":
		err = publishForEver(b, args[3])
	}
	t.Fatal("it was to be killed: ", err)
}

type printer struct{ keeper }

func (printer) Handle(m aggregate.Message) error {
	_, err := fmt.Printf("handled %s\n", m.Value)
	return err
}

// publishForEver emits events of two realms, and says how many: "made 40 4".
func publishForEver(b *Bus, dir string) error {
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: b, SpoolDir: dir})
	if err != nil {
		return err
	}
	for n, other := 0, 0; ; n++ {
		p.Attempt(attempt("default"), 0)
		if n%10 == 0 {
			p.Attempt(attempt("other"), 0)
			other++
			time.Sleep(time.Millisecond)
		}
		if n%100 == 0 {
			s := p.Stats()
			fmt.Printf("made %d %d %d %d\n", n+1, other, s.Published, s.Spooled)
		}
	}
}

// A member that is killed says nothing: its partitions go to another when its
// session has ended, and what it had not done with comes again.
func TestAnotherTakesOverFromAKilledProcess(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 4 })
	publishN(t, b, 0, 100)
	reader := startChild(t, "read", s, p, "")
	reader.said(t, 100, "handled ")
	reader.kill(t, "")
	killed := time.Now()
	got := consume(t, b, "g")
	publishN(t, b, 100, 100)
	got.await(t, 200) // the window of the killed one was open to the end
	t.Logf("handed over %v after the kill", time.Since(killed).Round(10*time.Millisecond))
	got.end(t)
}

// A publisher that is killed loses what it had in memory, and no more: the next
// one on its spool publishes what is there, however it ends, and says how far the
// count had got, so that readers know what they miss.
func TestWhatAKilledPublisherHadSpooledIsPublished(t *testing.T) {
	for _, row := range []struct {
		name string
		away bool // the broker, until the publisher has been killed
		torn bool // the end of the spool
	}{
		{"under load", false, false},
		{"in an outage", true, false},
		{"in an outage, half way through a write", true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, p, dir := shared.Server(t), prefix(), t.TempDir()
			b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 2 })
			if err := b.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if row.away {
				s.Kill()
			}
			c := startChild(t, "publish", s, p, dir)
			var made, other, published, spooled uint64
			parse := func(line string) {
				if _, err := fmt.Sscan(line, &made, &other, &published, &spooled); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
			for published+spooled < 2000 {
				parse(c.said(t, 1, "made "))
			}
			if last := c.kill(t, "made "); last != "" {
				parse(last)
			}
			kept := records(t, dir)
			if row.torn {
				kept -= tear(t, dir)
			}
			if row.away {
				if err := s.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			next, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: b, SpoolDir: dir, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			// Closing does not wait for a bus that fails, as it may once, on a
			// connection from before the outage.
			(&load{Publisher: next}).until(func(s aggregate.Stats) bool { return s.Memory+s.Spooled == 0 }, 0)
			if err := next.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			// A kill may itself tear what is being written.
			st, most := next.Stats(), uint64(kept)+2
			if st.Ends != 2 || st.Published > most || st.Published+st.Torn < most || row.torn && (st.Torn != 1 || st.Published != most) {
				t.Errorf("%d events were in the spool: %+v", kept, st)
			}
			got, y := readAll(t, b)
			for len(y.ended()) < 2 {
				<-got.change
			}
			got.end(t)
			ends := y.ended()
			if ends["default"] <= made || ends["other"] <= other {
				t.Errorf("the kill came after events %d and %d, and their ends are %v", made, other, ends)
			}
			if seen := y.seen["default"] + y.seen["other"]; seen < published || seen+st.Torn < uint64(kept) {
				t.Errorf("%d events came; %d were published before the kill and %d were in the spool", seen, published, kept)
			}
			if row.away && y.overtaken > 0 {
				t.Errorf("%d events were overtaken", y.overtaken)
			}
			all := ends["default"] + ends["other"] - 2
			took := all - y.seen["default"] - y.seen["other"]
			if row.torn && took == 0 {
				t.Error("an event was torn, and none is missing")
			}
			t.Logf("the kill took %d events of %d", took, all)
		})
	}
}

func (y *tally) ended() map[string]uint64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	out := map[string]uint64{}
	for realm, n := range y.ends {
		out[realm] = n
	}
	return out
}

// segments are the files of a spool, the oldest first.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.events"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// records counts what a spool holds, each event by what only it begins with.
func records(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, file := range segments(t, dir) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(text), `{"v":1,`)
	}
	return n
}

// tear cuts the end of a spool off, in the middle of an event, and says how many
// events that took.
func tear(t *testing.T, dir string) int {
	t.Helper()
	was, files := records(t, dir), segments(t, dir)
	f, err := os.OpenFile(files[len(files)-1], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size - 10); err != nil {
		t.Fatal(err)
	}
	return was - records(t, dir) + 1 // the last one begins, and does not end
}
