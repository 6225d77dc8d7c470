// Command bench measures what a decision costs beside its peers: ratios, side
// by side in one run, in interleaved rounds of shuffled order. Absolute figures
// are the machine's weather; ratios are the result.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve-bare" {
		os.Exit(serveBare(os.Args[2]))
	}
	if len(os.Args) == 4 && os.Args[1] == "serve-bare-limits" {
		os.Exit(serveBareLimits(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 3 && os.Args[1] == "serve-kafka" {
		os.Exit(serveKafka(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "hashes" {
		os.Exit(writeHashes(os.Stdout, os.Stderr, os.Args[2]))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// parts are what can be measured by themselves.
var parts = []struct {
	name string
	open func(root string) (side, error)
}{
	{"twin", func(string) (side, error) { return newTwinSide() }},
	{"leases", func(string) (side, error) { return newLeasesSide() }},
	{"redis", func(string) (side, error) { return newRedisSide() }},
	{"cluster", func(string) (side, error) { return newClusterSide() }},
	{"http", func(root string) (side, error) { return newHTTPSide(root) }},
	{"limits-http", func(root string) (side, error) { return newLimitsSide(root) }},
	{"events", func(string) (side, error) { return newEventsSide() }},
	{"events-http", func(root string) (side, error) { return newEventsHTTPSide(root) }},
	{"breached", func(root string) (side, error) { return newBreachedSide(root) }},
	{"breached-http", func(root string) (side, error) { return newBreachedHTTPSide(root) }},
}

// side is a part, ready to be measured.
type side interface {
	groups() []group
	close()
}

func run(args []string, out, errOut io.Writer) int {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(errOut)
	asJSON := fs.Bool("json", false, "print JSON")
	rounds := fs.Int("rounds", 5, "rounds of each comparison, at least 5 for a run that is to be quoted")
	only := fs.String("only", "", "parts, by commas: twin, leases, redis, cluster, http, limits-http, events, events-http, breached, breached-http; none: all")
	fs.Uint64Var(&corpusRows, "breached-rows", corpusRows, "rows of the index that leaked passwords are looked up in, 7 bytes each on the disk")
	root := fs.String("root", "..", "guardd's source `folder`")
	quiet := fs.Bool("quiet", false, "show no progress")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() > 0 || *rounds < 1 {
		fmt.Fprintln(errOut, "bench: it takes flags only, and at least 1 round")
		return 2
	}
	log := errOut
	if *quiet {
		log = io.Discard
	}
	rep := report{Machine: machine(), Versions: versions(), Settings: settings}
	for _, p := range parts {
		if *only != "" && !contains(*only, p.name) {
			continue
		}
		rep.measure(p.name, *root, *rounds, p.open, log)
	}
	rep.LoadAfter = loadAverage()
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(rep); err != nil {
			fmt.Fprintln(errOut, err)
			return 1
		}
		return 0
	}
	rep.print(out)
	return 0 // whatever the verdicts: this is a measurement, not a test
}

func contains(list, name string) bool {
	for _, n := range strings.Split(list, ",") {
		if strings.TrimSpace(n) == name {
			return true
		}
	}
	return false
}

// measure runs one part. What cannot be set up is said in the report.
func (rep *report) measure(name, root string, rounds int, open func(string) (side, error), log io.Writer) {
	s, err := open(root)
	if err != nil {
		rep.Groups = append(rep.Groups, outcome{Name: name, Error: err.Error()})
		return
	}
	defer s.close()
	if r, ok := s.(*redisSide); ok {
		rep.Decision = r.shape
		rep.Redis, _ = r.node.info("server", "redis_version")
	}
	for _, g := range s.groups() {
		o := g.run(rounds, log)
		rep.Groups = append(rep.Groups, o)
		rep.Rows = append(rep.Rows, o.results...)
	}
}
