package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is everything that a run says.
type report struct {
	Machine   string    `json:"machine"`
	LoadAfter string    `json:"load_average_after"`
	Versions  []string  `json:"versions"`
	Redis     string    `json:"redis"`
	Settings  []string  `json:"settings"`
	Decision  string    `json:"decision"`
	Rows      []result  `json:"rows"`
	Groups    []outcome `json:"groups"`
}

// settings says how each side is run.
var settings = []string{
	fmt.Sprintf("Redis: no persistence, no replica, loopback; %d connections that send recorded calls, pipelined %d a round trip or one; emptied before every measurement; every answer checked", parallel, pipelined),
	"redis_rate: Limiter.Allow, its own script by EVALSHA, 1,000 an hour; the key is the ip bucket's",
	"separate scripts: a hash a key (TIME, HMGET, HSET, EXPIRE) by EVALSHA, all of a decision in one round trip",
	"x/time/rate: a Limiter a key in a sync.Map, AllowN with a time; Load before LoadOrStore",
	fmt.Sprintf("HTTP: %d kept-alive connections, every request a new account and address; the bare handler is chi with encoding/json, the same request and answer; guardd is the real process with the default policy, over Redis with a deadline of 500 ms (at saturation requests queue for longer than the default 5 ms)", parallel),
	"plan limits over HTTP: one rule, 1,000 callers in turn; the bare handler is chi with encoding/json and go-redis' pool of 64, and sends the call that guardd sends, but for the name of the bucket",
	fmt.Sprintf("events: %d bursts of %d, in the thread's own processor time; kafka-go's Writer with Async, RequireAll and 5 ms a batch, of events that were encoded before; the broker is kfake in a process of its own, whose processor time is not counted; guardd has a spool on disk", bursts, burst),
	fmt.Sprintf("breached passwords: an index of made-up hashes, spread as real ones are, in the page cache; builds of %d million rows from a pipe; rows/s is what the processor time of generator and build together makes on 2 cores, and beside it what the clock said", buildRows/1_000_000),
	"CPU: INFO cpu of Redis, getrusage of this process, /proc of the servers; where there is no /proc HTTP rows go by requests a second",
}

func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s; load average before %s", model, runtime.NumCPU(), runtime.GOOS, loadAverage())
}

// loadAverage says how busy the machine is with other work, where it tells.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

// versions are those of the peers, as they were built in.
func versions() []string {
	v := []string{runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/go-redis/redis_rate/v10", "github.com/redis/go-redis/v9", "golang.org/x/time", "github.com/go-chi/chi/v5", "github.com/segmentio/kafka-go":
			v = append(v, d.Path+" "+d.Version)
		}
	}
	return v
}

func (rep *report) print(out io.Writer) {
	fmt.Fprintf(out, "machine   %s, after %s\nversions  %s", rep.Machine, rep.LoadAfter, strings.Join(rep.Versions, ", "))
	if rep.Redis != "" {
		fmt.Fprintf(out, ", Redis %s", rep.Redis)
	}
	fmt.Fprintln(out)
	for _, s := range rep.Settings {
		fmt.Fprintf(out, "          %s\n", s)
	}
	if rep.Decision != "" {
		fmt.Fprintf(out, "decision  the default login policy as the guard asks it, IPv4, no device: %s\n", rep.Decision)
	}
	for _, g := range rep.Groups {
		if g.Error != "" {
			fmt.Fprintf(out, "\n%s: not measured: %s\n", g.Name, g.Error)
			continue
		}
		fmt.Fprintf(out, "\n%s   %d rounds, %.0f s; floor: %s, %.3g %s, varied %.2f times", g.Name, g.Rounds, g.Took, g.Floor, g.FloorAt, g.FloorUnit, g.FloorVary)
		if g.Repeats > 0 {
			fmt.Fprintf(out, ", measured %d times", g.Repeats+1)
		}
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\twhat\tagainst\tratio\trounds\tmust\taim\tverdict\t")
		for _, r := range g.results {
			fmt.Fprintf(w, "\t%s\t%s\t%.2f\t%.2f-%.2f\t%s\t%s\t%s\t\n", r.What, r.Against, r.Figure, r.Low, r.High, r.target(r.must), r.target(r.aim), r.Verdict)
		}
		w.Flush()
		g.printMedians(out)
	}
}

func (r *result) target(x float64) string {
	switch {
	case r.report:
		return "-"
	case r.higher:
		return fmt.Sprintf(">= %.2f", x)
	}
	return fmt.Sprintf("<= %.2f", x)
}

// printMedians shows what the ratios are of.
func (o *outcome) printMedians(out io.Writer) {
	names := make([]string, 0, len(o.Medians))
	for n := range o.Medians {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		ms := o.Medians[n]
		keys := make([]string, 0, len(ms))
		for k := range ms {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, cmp.Compare[string])
		fmt.Fprintf(out, "    %s:", n)
		for _, k := range keys {
			fmt.Fprintf(out, " %.4g %s", ms[k], k)
		}
		fmt.Fprintln(out)
	}
}
